"""Runs the rules over the documents of the input: findings, what could not be told, what could not be read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from seatrial.canon import printable
from seatrial.check import structure
from seatrial.check.given import Given
from seatrial.check.inputs import with_runtime_env
from seatrial.check.manifest import Manifest, is_ray, unlisted
from seatrial.check.reading import documents
from seatrial.check.rule import RULES, Facts, Hit, Rule, Severity, subjects
from seatrial.check.rules import load
from seatrial.check.suppression import Suppressions
from seatrial.check.values import CannotTell, Value
from seatrial.errors import InputError, Place, clean

# What happens to an environment on its way through the submitter's shell. A trial's goes from the driver to Ray.
_BY_SHELL = ("runtime-env-var-not-expanded",)


@dataclass(frozen=True, order=True)
class RuleFinding:
    """One thing wrong, at one place."""

    path: str
    line: int
    column: int
    rule: str
    severity: Severity
    field: str
    seen: str
    expected: str
    fix: str
    source: str
    suppressed: str = ""  # the reason that the file gives

    @property
    def message(self) -> str:
        """What was seen and what is right, in one line."""
        return "; ".join(
            part
            for part in (
                f"{self.field}: {self.seen}" if self.field else self.seen,
                self.expected and f"expected {self.expected}",
            )
            if part
        )


@dataclass(frozen=True, order=True)
class Untold:
    """A rule that needed a value which nobody can know yet."""

    path: str
    line: int
    column: int
    rule: str
    reason: str


@dataclass
class CheckResult:
    """What came of one input."""

    findings: list[RuleFinding] = field(default_factory=list)
    cannot_tell: list[Untold] = field(default_factory=list)
    problems: list[InputError] = field(default_factory=list)
    resources: int = 0  # Ray resources that were checked
    others: int = 0  # documents of other kinds

    def add(self, other: CheckResult) -> None:
        self.findings += other.findings
        self.cannot_tell += other.cannot_tell
        self.problems += other.problems
        self.resources += other.resources
        self.others += other.others


@dataclass(frozen=True)
class Selection:
    """Which rules run: none selected means all."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        load()
        for option, names in (("select", self.select), ("ignore", self.ignore)):
            for name in names:
                if not any(_matches(known, name) for known in RULES):
                    raise InputError(
                        f"saw {clean(name)}", field=option, expected="a rule, or the beginning of rules' names"
                    )

    def rules(self) -> list[Rule]:
        return [
            known
            for name, known in RULES.items()
            if (not self.select or any(_matches(name, s) for s in self.select))
            and not any(_matches(name, i) for i in self.ignore)
        ]


def _matches(name: str, given: str) -> bool:
    return name == given or name.startswith(f"{given.rstrip('-')}-")


def check_bytes(
    raw: bytes,
    path: str,
    facts: Facts,
    rules: Iterable[Rule],
    schema: structure.Schema,
    given: Given | None = None,
) -> CheckResult:
    """Checks one file or stream. Its resources are kept in `given`, where there is one."""
    outcome, roots = CheckResult(), []
    for item in documents(raw, path):
        if isinstance(item, InputError):
            outcome.problems.append(item)
        elif item.root is not None:
            roots += unlisted(item)
    if given is not None:
        given.add(roots)
    chosen = list(rules)
    for root in roots:
        if is_ray(root):
            outcome.resources += 1
            others = tuple(other for other in roots if not is_ray(other))
            whole, at = with_runtime_env(root)
            _check(Manifest(whole, others), facts, chosen, schema, outcome)
            if at:
                _to_the_trial(outcome, at)
        elif problem := _no_resource(root):
            outcome.problems.append(problem)
        else:
            outcome.others += 1
    outcome.findings.sort()
    outcome.cannot_tell.sort()
    return outcome


def _to_the_trial(outcome: CheckResult, at: Place) -> None:
    """Moves what is about a trial's own runtime environment to where it stands in the trial."""
    outcome.cannot_tell = [untold for untold in outcome.cannot_tell if untold.rule not in _BY_SHELL]
    findings, outcome.findings = outcome.findings, []
    for finding in findings:
        if finding.field != "spec.runtimeEnvYAML":
            outcome.findings.append(finding)
        elif finding.rule not in _BY_SHELL:
            moved = replace(finding, path=at.path, line=at.line, column=at.column, field="runtimeEnv")
            outcome.findings.append(moved)


def _no_resource(root: Value) -> InputError | None:
    if root["apiVersion"].scalar and root["kind"].scalar:
        kind, api = root["kind"].raw, root["apiVersion"].raw
        if api.startswith("ray.io/") and kind not in ("RayCronJob",):
            return InputError(
                f"kind {clean(kind)}", place=root["kind"].place, expected="RayCluster, RayJob or RayService"
            )
        return None
    seen = "a list" if root.node and isinstance(root.node.value, list) else "no apiVersion and kind"
    return InputError(seen, place=root.place, expected="a Kubernetes resource")


def _check(manifest: Manifest, facts: Facts, rules: list[Rule], schema: structure.Schema, outcome: CheckResult) -> None:
    suppressions = Suppressions(manifest)
    found: dict[tuple[int, int, str, str], RuleFinding] = {}  # an alias shows one value in several places

    def add(rule: Rule, hit: Hit) -> None:
        finding = finding_of(rule, hit, suppressions)
        found.setdefault((finding.line, finding.column, finding.rule, finding.seen), finding)

    wanted = {rule.id for rule in rules}
    for rule_id, hit in structure.check(manifest, schema):
        if rule_id in wanted:
            if isinstance(hit, CannotTell):
                note_untold(outcome, rule_id, hit)
            else:
                add(RULES[rule_id], hit)
    every = list(subjects(manifest))
    for rule in rules:
        for kind, subject in every:
            if rule.on != kind:
                continue
            try:
                for hit in rule.function(subject, facts):
                    add(rule, hit)
            except CannotTell as unknown:
                note_untold(outcome, rule.id, unknown)
    for rule_id, hit in suppressions.problems():
        if rule_id in wanted:
            add(RULES[rule_id], hit)
    outcome.findings += found.values()


def note_untold(outcome: CheckResult, rule: str, unknown: CannotTell) -> None:
    """Notes that a rule could not tell; the same place and reason once."""
    value = unknown.value
    told = Untold(value.file, value.line, value.column, rule, printable(clean(unknown.reason, 200)))
    if told not in outcome.cannot_tell[-64:]:
        outcome.cannot_tell.append(told)


def finding_of(rule: Rule, hit: Hit, suppressions: Suppressions) -> RuleFinding:
    """A hit as a finding, with the reason if the file sets it aside."""
    value = hit.value
    return RuleFinding(
        path=value.file,
        line=value.line,
        column=value.column,
        rule=rule.id,
        severity=hit.severity or rule.severity,
        field=clean(value.field, 200),
        seen=clean(hit.seen, 300),
        expected=clean(hit.expected, 300),
        fix=hit.fix or rule.fix,
        source=rule.source,
        suppressed=suppressions.reason(rule.id, value),
    )
