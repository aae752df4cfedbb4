"""Runs every rule that needs a cluster over every resource of the input."""

from __future__ import annotations

from seatrial.check.command import Checked, Settings
from seatrial.check.manifest import Manifest
from seatrial.check.rule import RULES, Rule, subjects
from seatrial.check.rules import load
from seatrial.check.runner import CheckResult, RuleFinding, finding_of, note_untold
from seatrial.check.server.interview import ClusterApi, Interview, NotAnswered
from seatrial.check.server.rule import CHECKS
from seatrial.check.suppression import Suppressions
from seatrial.check.values import CannotTell
from seatrial.errors import InputError, clean
from seatrial.kube.apimachinery import version
from seatrial.kube.connect import connect

# A rule that guesses from the file alone, and the rule that replaces it once the cluster has answered.
_REPLACED = {"field-newer-than-kuberay": "operator-older-than-field", "alpha-gate-field": "feature-gate-off"}
# Rules of the file's structure; at the same place _REPEATS would say the same again.
_STRUCTURE = (
    "unknown-field",
    "field-missing",
    "type-not-string",
    "type-not-int",
    "type-mismatch",
    "enum-mismatch",
    "quantity-invalid",
)
_REPEATS = ("server-rejects", "crd-older-than-manifest")


def ask(checked: Checked, cluster: ClusterApi | None = None, *, settings: Settings | None = None) -> Checked:
    """`checked` with the cluster's findings. `cluster` is by default the one that `connect` finds.

    `checked` comes from a run with `Settings.server`. `settings` choose the rules; without them all run. Raises
    InputError where there is no cluster to ask.
    """
    if not checked.outcome.resources:
        return checked
    if checked.input is None:
        raise ValueError("the input was not kept: run with Settings(server=True)")
    interview = Interview(cluster or connect(), checked.input)
    rules, outcome, settled = _rules(settings), CheckResult(), set(CHECKS)
    for manifest in checked.input.manifests:
        settled -= _ask_about(manifest, interview, rules, outcome)
    if settings:
        _compare_release(interview, settings)
    if interview.lost:
        seen = f"{clean(interview.cluster.title, 160)} does not answer: {interview.lost}"
        outcome.problems.append(InputError(seen, field="server", expected="a cluster that can be asked"))
    ran = {rule.id for rule in rules}
    merged = _merged(checked.outcome, outcome, {old for old, new in _REPLACED.items() if new in settled & ran})
    return Checked(merged, checked.paths, (*checked.notes, *interview.notes), checked.input)


def _rules(settings: Settings | None) -> list[Rule]:
    load()
    chosen = {rule.id for rule in settings.selection.rules()} if settings else CHECKS.keys()
    return [RULES[name] for name in CHECKS if name in chosen]


def _ask_about(manifest: Manifest, interview: Interview, rules: list[Rule], outcome: CheckResult) -> set[str]:
    """Adds the findings about one resource. Returns the rules that could not be decided for it."""
    suppressions, every, open_ = Suppressions(manifest), list(subjects(manifest)), set[str]()
    for rule in rules:
        for subject in (subject for kind, subject in every if kind == rule.on):
            try:
                for hit in CHECKS[rule.id](subject, interview):
                    outcome.findings.append(finding_of(rule, hit, suppressions))
            except NotAnswered:
                open_.add(rule.id)
            except CannotTell as unknown:
                open_.add(rule.id)
                note_untold(outcome, rule.id, unknown)
    return open_


def _compare_release(interview: Interview, settings: Settings) -> None:
    """A note where the other rules assumed another release of KubeRay."""
    try:
        running = interview.operator().version
    except NotAnswered:
        return
    here, there = version(settings.kuberay), version(running)
    if here and there and here[:2] != there[:2]:
        release = ".".join(map(str, there[:2]))
        others = f"the other rules assumed {settings.kuberay}: `seatrial check --kuberay {release}` assumes the same"
        interview.note(f"the cluster runs KubeRay {running}, {others}")


def _merged(before: CheckResult, after: CheckResult, replaced: set[str]) -> CheckResult:
    """Both together, without the findings that the cluster disproves or repeats."""
    kept = [finding for finding in before.findings if finding.rule not in replaced]
    wrong = {_place(f) for f in kept if f.rule in _STRUCTURE and not f.suppressed}
    new = [f for f in after.findings if f.rule not in _REPEATS or _place(f) not in wrong]
    found: dict[tuple[str, int, int, str, str], RuleFinding] = {}
    for finding in [*kept, *new]:  # an alias, or a claim of two resources, shows one value in several places
        found.setdefault((*_place(finding), finding.rule, finding.seen), finding)
    return CheckResult(
        findings=sorted(found.values()),
        cannot_tell=sorted(dict.fromkeys([*before.cannot_tell, *after.cannot_tell])),
        problems=[*before.problems, *after.problems],
        resources=before.resources,
        others=before.others,
    )


def _place(finding: RuleFinding) -> tuple[str, int, int]:
    return finding.path, finding.line, finding.column
