"""The judge is pure and total: any facts at all give verdicts, and nothing but known facts supports a claim."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.evidence.facts import NOT_ESTABLISHED, REFUTED, SUPPORTED, Evidence, Fact, Verdict, unknown
from seatrial.evidence.judge import exit_code, judge
from seatrial.evidence.rules import JUDGES
from seatrial.trial.claims import REGISTRY

pytestmark = pytest.mark.unit

ASKED: dict[str, dict[str, Any]] = {
    "transport.internode": {"equals": "efa"},
    "transport.intranode": {"equals": "shm"},
    "transport.gpudirect": {"equals": True},
    "transport.min_busbw": {"min": 10.0},
    "performance.tokens_per_second": {"min": 9000.0},
    "performance.step_time_p95": {"max": 1.0},
    "learning.heldout.loss": {"improves_by": 0.1, "over": "base"},
    "learning.heldout.bits_per_byte": {"below": "bigram", "by": 0.4},
    "learning.task.accuracy": {"task": "digits", "improves_by": 0.5, "over": "base"},
    "recovery.worker_kill": {"max_lost_steps": 5},
}
CLAIMS = [{"claim": name, **ASKED.get(name, {})} for name in REGISTRY]

GOOD: dict[str, Any] = {
    "execution.planned_steps": 20,
    "execution.status": {"status": "finished", "cause": ""},
    "execution.attempts": 1,
    "execution.executed_steps": {"by_rank": {"0": 20, "1": 20}, "min": 20, "max": 20, "tokens": 100},
    "execution.updates": {"min": 20, "max": 20, "tensors": 12},
    "execution.parameters_without_gradient": [],
    "execution.parameters_unmoved": [],
    "execution.schedule": {"off_schedule": [], "peak": 0.01},
    "execution.data_order": {"steps": 20, "matching": 20, "first_difference": None, "misplaced": []},
    "execution.roll_calls": {"complete": 4, "planned": 4, "wrong": []},
    "execution.gradient_roll_calls": {"complete": 3, "planned": 3, "wrong": [], "unclear": []},
    "execution.replicas": {"compared": 3, "differing_steps": []},
    "execution.tolerances": {"evaluation_relative": 1e-4},
    "learning.data": {"synthetic": False, "heldout_windows": 64, "heldout_windows_asked": 64},
    "learning.isolation": {"leak": 1e-9, "effect": 0.5, "limit": 1e-3},
    "learning.overlap": {"share": 0.0, "limit": 0.1, "suspect_windows": []},
    "learning.baseline.bigram": 3.5,
    **{f"learning.heldout.{m}.{p}": v for m in ("loss", "bits_per_byte") for p, v in (("before", 7.9), ("base", 7.9), ("after", 2.8), ("reload", 2.8))},
    "learning.task.digits.file": {"same": True, "digests": {"after": ["sha256:1"]}},
    "learning.task.digits.overlap": {"found": 0, "compared": 40, "share": 0.0, "limit": 0.1},
    "learning.task.digits.agreement": {"items": 40, "limit": 0.01, "before": 0, "after": 0},
    **{f"learning.task.digits.{p}": {"accuracy": v / 40, "items": 40, "right": v} for p, v in (("before", 2), ("base", 2), ("after", 38), ("reload", 38))},
    "learning.task.digits.change": {
        **{w: {"items": 40, "change": 0.9, "low": 0.7, "high": 1.0, "gained": 37, "lost": 1, "p": 1e-9} for w in ("ranks", "reload")}, "chance_p": 0.05,
    },
    "recovery.status": {"status": "finished", "cause": "", "load_failed": ""},
    "recovery.reload": {
        "step": 20, "equal": 24, "expected": 24, "tensors": 12, "missing": [], "different": [], "untrained": [], "new_processes": True, "manifest_equal": True,
    },
    "performance.tokens_per_second": {"tokens_per_second": 9500.0, "steps": 30},
    "performance.window_by_probe": {"ranks_s": 30.0, "at_least_s": 29.0, "at_most_s": 32.0, "slack_s": 2.0},
    "performance.clocks": {"relative_spread": 0.0, "tolerance": 0.05},
    "performance.step_time": {"p95": 0.5, "steps": 30},
    "environment.hosts": {"hosts": 1, "agree": True},
    "transport.internode.path": {"path": "efa", "word": "corroborated", "reasons": []},
    "transport.intranode.path": {"path": "shm", "word": "corroborated", "reasons": []},
    "transport.gpudirect.path": {"path": True, "word": "corroborated", "reasons": []},
    "transport.busbw": {"at_least_gb_per_s": 11.0},
}  # fmt: skip


def evidence(**changes: Any) -> Evidence:
    """The good facts, with changes by name (`__` for the dot); None leaves a fact out."""
    values = {**GOOD, **{name.replace("__", "."): value for name, value in changes.items()}}
    facts: dict[str, dict[str, Fact]] = {}
    for name, value in values.items():
        if value is not None:
            fact = value if isinstance(value, Fact) else Fact(name, value=value)
            facts.setdefault(name.partition(".")[0], {})[name] = fact
    return Evidence(facts)


def verdict(claim: str, given: Evidence) -> Verdict:
    return judge([{"claim": claim, **ASKED.get(claim, {})}], given)[0]


@pytest.mark.parametrize("claim", sorted(set(JUDGES) - {"environment.image_ran"}))
def test_good_facts_support(claim: str) -> None:
    assert verdict(claim, evidence()).verdict == SUPPORTED


@pytest.mark.parametrize("claim", sorted(JUDGES))
def test_no_facts_establish_nothing(claim: str) -> None:
    assert verdict(claim, Evidence({})).verdict == NOT_ESTABLISHED


@pytest.mark.parametrize("claim", sorted(set(JUDGES) - {"environment.image_ran"}))
def test_every_fact_that_was_used_is_needed(claim: str) -> None:
    """Taking away any single fact that the verdict cites leaves it unsupported."""
    for name in verdict(claim, evidence()).evidence:
        for missing in (None, unknown(name, "not seen")):
            assert verdict(claim, evidence(**{name.replace(".", "__"): missing})).verdict != SUPPORTED, name


REFUTING: list[tuple[str, dict[str, Any], str]] = [
    (
        "execution.completed",
        {"execution__status": {"status": "failed", "cause": "rank 1 died"}, "execution__executed_steps": None},
        "failed",
    ),
    ("execution.completed", {"execution__executed_steps": {"min": 19, "max": 20, "by_rank": {}}}, "steps"),
    ("execution.completed", {"execution__updates": {"min": 18, "max": 18, "tensors": 12}}, "updates"),
    ("execution.completed", {"execution__parameters_unmoved": ["a.weight"]}, "updates"),
    (
        "execution.completed",
        {"execution__data_order": {"steps": 20, "matching": 19, "first_difference": 20, "misplaced": []}},
        "data",
    ),
    (
        "execution.all_ranks_participated",
        {"execution__roll_calls": {"complete": 3, "planned": 4, "wrong": []}},
        "roll-call",
    ),
    (
        "execution.all_ranks_participated",
        {"execution__data_order": {**GOOD["execution.data_order"], "misplaced": [{"rank": 1, "step": 3}]}},
        "data",
    ),
    (
        "recovery.checkpoint_reloads",
        {"recovery__reload": {**GOOD["recovery.reload"], "untrained": ["rank 0: x"]}},
        "different",
    ),
    ("execution.all_ranks_participated", {"execution__replicas": {"compared": 3, "differing_steps": [10]}}, "replicas"),
    (
        "recovery.checkpoint_reloads",
        {"recovery__reload": {**GOOD["recovery.reload"], "different": ["rank 0: x"]}},
        "different",
    ),
    (
        "recovery.checkpoint_reloads",
        {"recovery__status": {"status": "failed", "cause": "no", "load_failed": "it is broken"}},
        "reload",
    ),
    (
        "learning.heldout.bits_per_byte",
        {"learning__heldout__bits_per_byte__after": 3.2, "learning__heldout__bits_per_byte__reload": 3.2},
        "value",
    ),
    (
        "learning.heldout.loss",
        {"learning__heldout__loss__after": 7.85, "learning__heldout__loss__reload": 7.85},
        "value",
    ),
    (
        "performance.tokens_per_second",
        {"performance__tokens_per_second": {"tokens_per_second": 8999.0, "steps": 30}},
        "value",
    ),
    ("performance.step_time_p95", {"performance__step_time": {"p95": 1.01, "steps": 30}}, "value"),
    (
        "transport.internode",
        {"transport__internode__path": {"path": "tcp", "word": "corroborated", "reasons": []}},
        "different",
    ),
    (
        "transport.internode",
        {"transport__internode__path": {"path": "socket", "word": "refuted", "reasons": ["a line"]}},
        "different",
    ),
    (
        "transport.gpudirect",
        {"transport__gpudirect__path": {"path": False, "word": "corroborated", "reasons": []}},
        "different",
    ),
]


@pytest.mark.parametrize(("claim", "changes", "reason"), REFUTING)
def test_refuted(claim: str, changes: dict[str, Any], reason: str) -> None:
    seen = verdict(claim, evidence(**changes))
    assert (seen.verdict, seen.reason) == (REFUTED, reason)


DOUBTFUL: list[tuple[str, dict[str, Any], str]] = [
    ("execution.completed", {"execution__status": {"status": "failed", "cause": "lost contact"}}, "contradiction"),
    ("transport.min_busbw", {"transport__busbw": {"at_least_gb_per_s": 9.0}}, "unknown"),
    (
        "transport.min_busbw",
        {"transport__internode__path": {"path": "efa", "word": "log-only", "reasons": []}},
        "uncorroborated",
    ),
    ("learning.heldout.bits_per_byte", {"learning__data": {"synthetic": True}}, "synthetic-data"),
    (
        "learning.heldout.loss",
        {"learning__isolation": {"leak": 0.4, "effect": 0.5, "limit": 1e-3}},
        "contaminated",
    ),
    (
        "learning.heldout.bits_per_byte",
        {"learning__overlap": {"share": 0.5, "limit": 0.1, "suspect_windows": [1]}},
        "contaminated",
    ),
    ("learning.heldout.bits_per_byte", {"learning__heldout__bits_per_byte__reload": None}, "uncorroborated"),
    ("learning.heldout.bits_per_byte", {"learning__heldout__bits_per_byte__reload": 2.9}, "contradiction"),
    ("learning.heldout.loss", {"learning__heldout__loss__base": None}, "uncorroborated"),
    ("learning.heldout.loss", {"learning__heldout__loss__base": 2.9}, "contradiction"),
    (
        "learning.heldout.bits_per_byte",
        {"learning__baseline__bigram": unknown("learning.baseline.bigram", "two say two")},
        "unknown",
    ),
    *(
        (
            "recovery.checkpoint_reloads",
            {"recovery__status": {"status": status, "cause": "", "load_failed": ""}},
            "not-run",
        )
        for status in ("interrupted", "timed-out", "failed")
    ),
    (
        "execution.all_ranks_participated",
        {
            "execution__gradient_roll_calls": {
                **GOOD["execution.gradient_roll_calls"],
                "unclear": [{"step": 1, "rank": 0, "problem": "NaN"}],
            }
        },
        "unclear",
    ),
    (
        "learning.heldout.loss",
        {"execution__data_order": {**GOOD["execution.data_order"], "matching": 3, "first_difference": 4}},
        "contradiction",
    ),
    ("learning.heldout.loss", {"execution__data_order": None}, "unknown"),
    ("performance.tokens_per_second", {"performance__window_by_probe": None}, "uncorroborated"),
    (
        "performance.tokens_per_second",
        {"performance__window_by_probe": {**GOOD["performance.window_by_probe"], "ranks_s": 15.0}},
        "contradiction",
    ),
    (
        "performance.step_time_p95",
        {"performance__step_time": {"p95": 0.5, "steps": 12}},
        "unstable",
    ),
    (
        "recovery.checkpoint_reloads",
        {"recovery__reload": {**GOOD["recovery.reload"], "new_processes": False}},
        "unknown",
    ),
    (
        "performance.tokens_per_second",
        {"performance__clocks": {"relative_spread": 0.2, "tolerance": 0.05}},
        "contradiction",
    ),
    ("environment.hosts_agree", {"environment__hosts": {"hosts": 2, "agree": False}}, "contradiction"),
    ("environment.image_ran", {}, "unknown"),
    *(
        ("transport.internode", {"transport__internode__path": {"path": "efa", "word": word, "reasons": []}}, reason)
        for word, reason in (
            ("log-only", "uncorroborated"),
            ("witnesses-disagree", "contradiction"),
            ("insufficient", "unknown"),
            ("refuted", "contradiction"),
            ("a word of tomorrow", "unknown"),
        )
    ),
    (
        "transport.internode",
        {"transport__internode__path": {"path": None, "word": "corroborated", "reasons": []}},
        "unknown",
    ),
    (
        "transport.internode",
        {"transport__internode__path": Fact("transport.internode.path", "not-applicable", reason="one host")},
        "unknown",
    ),
    (
        "transport.gpudirect",
        {"transport__gpudirect__path": unknown("transport.gpudirect.path", "no NCCL log")},
        "unknown",
    ),
    ("recovery.worker_kill", {}, "not-run"),
]


@pytest.mark.parametrize(("claim", "changes", "reason"), DOUBTFUL)
def test_not_established(claim: str, changes: dict[str, Any], reason: str) -> None:
    seen = verdict(claim, evidence(**changes))
    assert (seen.verdict, seen.reason) == (NOT_ESTABLISHED, reason)


def test_a_throughput_says_the_path_and_does_not_rest_on_it() -> None:
    seen = verdict("performance.tokens_per_second", evidence(transport__intranode__path=None))
    assert seen.verdict == SUPPORTED
    assert "path of the bytes: between hosts: efa, corroborated; within a host: no such evidence" in seen.seen
    assert not any(name.startswith("transport") for name in seen.evidence)


def test_a_void_run_establishes_nothing() -> None:
    seen = judge(CLAIMS, Evidence(evidence().facts, void="claims.json was changed"))
    assert {(v.verdict, v.reason) for v in seen} == {(NOT_ESTABLISHED, "void")}


def test_exit_codes() -> None:
    def of(*verdicts: str, claim: str = "execution.completed", early: bool = False) -> int:
        return exit_code([Verdict(claim, v, "", {}, "") for v in verdicts], ended_early=early)

    assert of(SUPPORTED) == 0
    assert of(SUPPORTED, NOT_ESTABLISHED) == 3
    assert of(SUPPORTED, NOT_ESTABLISHED, REFUTED) == 1
    assert of(REFUTED, early=True) == 4
    drill = Verdict("recovery.worker_kill", NOT_ESTABLISHED, "", {}, "")
    done = Verdict("execution.completed", SUPPORTED, "", {}, "")
    assert exit_code([done, drill], ended_early=False) == 0  # a drill's claim is not a run's to establish
    assert exit_code([drill], ended_early=False) == 3  # and nothing else was claimed: nothing is shown


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 30) | st.floats() | st.text(max_size=8),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(st.sampled_from(["min", "max", "status", "wrong", "x"]), children, max_size=4)
    ),
    max_leaves=8,
)
STATES = st.sampled_from(["value", "unknown", "error", "not-applicable"])


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(GOOD)), st.tuples(STATES, JSON), max_size=12), st.booleans())
def test_judge_never_raises(strange: dict[str, tuple[Any, Any]], on_top_of_good: bool) -> None:
    base = GOOD if on_top_of_good else {}
    facts: dict[str, dict[str, Fact]] = {}
    for name in {*base, *strange}:
        state, value = strange.get(name, ("value", base.get(name)))
        facts.setdefault(name.partition(".")[0], {})[name] = Fact(name, state, value, reason="as drawn")
    seen = judge(CLAIMS, Evidence(facts))
    assert [v.claim for v in seen] == [c["claim"] for c in CLAIMS]
    assert {v.verdict for v in seen} <= {SUPPORTED, REFUTED, NOT_ESTABLISHED}


@settings(max_examples=100, deadline=None)
@given(st.lists(st.dictionaries(st.text(max_size=5), JSON, max_size=3), max_size=3))
def test_judge_takes_any_claims(claims: list[dict[str, Any]]) -> None:
    assert len(judge(claims, evidence())) == len(claims)
