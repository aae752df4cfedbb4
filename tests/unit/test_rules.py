"""Every rule on a manifest that breaks it and on one that does not; each differs little from a clean one."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from seatrial.check.rule import RULES, Asked, Facts, Hit
from seatrial.check.rule import rule as declared
from seatrial.check.rules import MODULES, load
from seatrial.check.rules.start import table
from seatrial.check.runner import CheckResult, Selection, check_bytes
from seatrial.check.server.rule import SERVER_RULES
from seatrial.check.structure import Schema
from seatrial.events.redact import Redactor
from tests.support.manifests import GONE, WORKER_CONTAINER, changed, resource
from tests.support.rule_case import Case

pytestmark = pytest.mark.unit

load()
SCHEMA = Schema()
CASES = [case for module in MODULES for case in import_module(f"tests.unit.rule_cases.{module}").CASES]
EACH = pytest.mark.parametrize("case", CASES, ids=[f"{n}-{case.rule}" for n, case in enumerate(CASES)])


NO_SCHEMA = Schema()
NO_SCHEMA.absent = "not needed by this rule"
STRUCTURE = {"unknown-field", "field-missing", "type-not-string", "type-not-int", "type-mismatch"}


def check(text: str, rule: str = "", **facts: object) -> CheckResult:
    """With `rule` only that one: most of the time goes into Kubernetes' schemas, which few rules need."""
    schema = SCHEMA if not rule or rule in STRUCTURE else NO_SCHEMA
    known: dict[str, Any] = {"kuberay": "1.7", **facts}
    rules = [RULES[rule]] if rule else Selection().rules()
    return check_bytes(text.encode(), "m.yaml", Facts(**known), rules, schema)


@pytest.mark.parametrize("kind", ["RayCluster", "RayJob", "RayService"])
def test_the_clean_manifest_has_nothing_wrong(kind: str) -> None:
    outcome = check(changed({}, kind), asked=Asked(8, 1, "/fsx/runs"))
    assert [f for f in outcome.findings if f.severity != "info"] == []
    assert outcome.problems == []


def test_every_rule_has_a_case_and_every_case_a_rule() -> None:
    assert {case.rule for case in CASES} == RULES.keys() - SERVER_RULES.keys()


@EACH
def test_breaks(case: Case) -> None:
    outcome = check(case.broken_text(), case.rule, **case.facts)
    assert case.rule in {f.rule for f in outcome.findings}, outcome
    found = next(f for f in outcome.findings if f.rule == case.rule)
    assert found.line > 0
    assert found.seen


@EACH
def test_holds(case: Case) -> None:
    outcome = check(case.right_text(), case.rule, **(case.facts if case.right_facts is None else case.right_facts))
    assert case.rule not in {f.rule for f in outcome.findings}, [f for f in outcome.findings if f.rule == case.rule]
    assert case.rule not in {u.rule for u in outcome.cannot_tell}, "a rule that cannot tell has not passed"


def test_no_rule_says_a_secret() -> None:
    for rule in ("secret-in-entrypoint", "secret-in-annotation", "secret-in-plain-env"):
        for case in (case for case in CASES if case.rule == rule):
            for finding in check(case.broken_text(), rule).findings:
                shown = f"{finding.message} {finding.fix}"
                assert not any(part in shown for part in ("a1B2", "a1a1", "abcdef", "correct-horse")), shown


@pytest.mark.parametrize("text", ["--a-token-" * 20_000, "a-" * 50_000 + "token ", "token " * 50_000])
def test_the_redactor_searches_a_bounded_text_without_long_runs(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its patterns take the square of a run's length, so a long entrypoint is cut before it gets there."""
    given: list[str] = []

    def note(_: Redactor, handed: str) -> str:
        given.append(handed)
        return handed

    monkeypatch.setattr(Redactor, "text", note)
    check(changed({"spec.entrypoint": text}, "RayJob"), "secret-in-entrypoint")
    assert [len(handed) <= 1 << 16 for handed in given] == [True]
    assert max(len(run) for run in re.findall(r"[\w-]+", given[0])) <= 256


def test_one_fact_is_said_once() -> None:
    """What the schemas say already, a rule does not say again."""
    for path, value, only in (
        ("spec.submitterPodTemplate.spec.containers", GONE, "containers-missing"),
        ("spec.submitterPodTemplate.spec.restartPolicy", "never", "submitter-restart-policy"),
        (f"{WORKER_CONTAINER}.image", "", "image-invalid"),
    ):
        findings = check(changed({path: value}, "RayJob")).findings
        assert {f.rule for f in findings if f.severity != "info"} == {only}, path


def test_the_options_of_ray_start_are_those_of_the_ray_that_is_installed() -> None:
    from ray.scripts.scripts import start

    names = {option.lstrip("-") for param in start.params for option in param.opts if option.startswith("--")}
    assert table()["options"].keys() == names


def test_resources_are_fresh() -> None:
    assert resource("RayJob") == resource("RayJob")


def test_a_rule_says_in_its_docstring_why_it_is_there() -> None:
    def silent(*_: object) -> Iterator[Hit]:
        return iter(())

    with pytest.raises(ValueError, match="no docstring"):
        declared("silent", "info", "manifest", title="a", fix="b", source="c")(silent)
    assert "silent" not in RULES
    assert all(one.why and "\n" not in one.why for one in RULES.values())


def test_the_rules_load_where_python_strips_docstrings() -> None:
    statement = (
        "from seatrial.check.rules import load; from seatrial.check.rule import RULES; load(); print(len(RULES))"
    )
    done = subprocess.run([sys.executable, "-OO", "-c", statement], capture_output=True, text=True, check=True)
    assert int(done.stdout) == len(RULES)
