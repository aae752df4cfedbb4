"""The judge is pure and total: any facts of their types give verdicts, and only known facts support a claim."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.events.planned import Tolerances
from seatrial.evidence.facts import (
    FACTS,
    Evidence,
    Fact,
    FactType,
    environment,
    execution,
    learning,
    outside,
    performance,
    recovery,
    transport,
)
from seatrial.evidence.facts.execution import (
    DataOrder,
    Ended,
    ExecutedSteps,
    GradientProblem,
    GradientRollCalls,
    RankStep,
    Replicas,
    RollCalls,
    Schedule,
    Updates,
)
from seatrial.evidence.facts.learning import (
    Agreement,
    Isolation,
    Overlap,
    Paired,
    Score,
    TaskChange,
    TaskDigests,
    TrainingData,
)
from seatrial.evidence.facts.outside import Batches, Ranks, TrainRun
from seatrial.evidence.facts.performance import Clocks, SteadyWindow, StepTime, Throughput
from seatrial.evidence.facts.reasons import Reason
from seatrial.evidence.facts.recovery import Reload, ReloadEnded
from seatrial.evidence.facts.transport import BusBandwidth, PathFinding
from seatrial.evidence.judges import JUDGES, NOT_ESTABLISHED, REFUTED, SUPPORTED, Verdict, exit_code, judge
from seatrial.evidence.judges.look import not_established, refuted, supported
from seatrial.trial.claims import REGISTRY
from seatrial.trial.kinds import KINDS_OF_RUN, OBSERVED, RUN, SCRIPT, RunKind

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
BIGRAM = learning.BASELINE.of(table="bigram")
LOSS = {phase: learning.LOSS.of(phase=phase) for phase in learning.PHASES}
BITS = {phase: learning.BITS_PER_BYTE.of(phase=phase) for phase in learning.PHASES}
PAIRED = Paired(items=40, change=0.9, low=0.7, high=1.0, gained=37, lost=1, p=1e-9, method="exact")
TASK = {
    "file": learning.TASK_FILE.of(task="digits"),
    "overlap": learning.TASK_OVERLAP.of(task="digits"),
    "agreement": learning.TASK_AGREEMENT.of(task="digits"),
    "change": learning.TASK_CHANGE.of(task="digits"),
    **{phase: learning.TASK_SCORE.of(task="digits", phase=phase) for phase in learning.PHASES},
}
Values = list[tuple[FactType[Any], Any]]


def score(right: int) -> Score:
    return Score(accuracy=right / 40, items=40, right=right)


ORDER = DataOrder(steps=20, matching=20, first_difference=None, misplaced=[])
GRADIENTS = GradientRollCalls(planned=3, complete=3, wrong=[], unclear=[])
RELOAD = Reload(
    step=20, equal=24, expected=24, tensors=12, missing=[], different=[], untrained=[], manifest_equal=True,
    new_processes=True,
)  # fmt: skip
WINDOW = SteadyWindow(ranks_s=30.0, at_least_s=29.0, at_most_s=32.0, slack_s=2.0)
STEP_TIME = StepTime(p50=0.4, p95=0.5, p99=0.6, mean=0.4, steps=30, stalls=0, series=[])
THROUGHPUT = Throughput(tokens_per_second=9500.0, tokens=285_000, seconds=30.0, steps=30, from_step=11)
GOOD: Values = [
    (execution.PLANNED_STEPS, 20),
    (execution.STATUS, Ended("finished", "")),
    (execution.ATTEMPTS, 1),
    (execution.EXECUTED_STEPS, ExecutedSteps(by_rank={"0": 20, "1": 20}, min=20, max=20, tokens=100)),
    (execution.UPDATES, Updates(20, 20, 12)),
    (execution.PARAMETERS_WITHOUT_GRADIENT, []),
    (execution.PARAMETERS_UNMOVED, []),
    (execution.SCHEDULE, Schedule([], 0.01)),
    (execution.DATA_ORDER, ORDER),
    (execution.ROLL_CALLS, RollCalls(4, 4, [])),
    (execution.GRADIENT_ROLL_CALLS, GRADIENTS),
    (execution.REPLICAS, Replicas(3, [])),
    (execution.TOLERANCES, Tolerances(evaluation_relative=1e-4)),
    (outside.TRAIN_RUNS, [TrainRun(1, "mine", "FINISHED", "FINISHED", "", 2, 1, [])]),
    (outside.RANKS, Ranks(2, 2, 2)),
    (outside.BATCHES, Batches([20, 20], 40, [], [])),
    (learning.DATA, TrainingData(source="text", synthetic=False, heldout_windows=64, heldout_windows_asked=64)),
    (learning.ISOLATION, Isolation(leak=1e-9, effect=0.5, limit=1e-3)),
    (learning.OVERLAP, Overlap([], 0.0, 0.1, 64)),
    (BIGRAM, 3.5),
    *((family[phase], v) for family in (LOSS, BITS) for phase, v in (("before", 7.9), ("base", 7.9), ("after", 2.8), ("reload", 2.8))),
    (TASK["file"], TaskDigests(True, {"after": ["sha256:1"]})),
    (TASK["overlap"], learning.TaskOverlap(0, 40, 0, 0.0, 0.1, [])),
    (TASK["agreement"], Agreement(40, 0.01, 0, 0, 0, 0)),
    *((TASK[phase], score(v)) for phase, v in (("before", 2), ("base", 2), ("after", 38), ("reload", 38))),
    (TASK["change"], TaskChange(PAIRED, PAIRED, 0.05)),
    (recovery.STATUS, ReloadEnded("finished", "", "")),
    (recovery.RELOAD, RELOAD),
    (performance.TOKENS_PER_SECOND, THROUGHPUT),
    (performance.WINDOW_BY_PROBE, WINDOW),
    (performance.CLOCKS, Clocks(0.0, 0.05)),
    (performance.STEP_TIME, STEP_TIME),
    (environment.HOSTS, environment.HostPackages(1, {}, True)),
    (transport.INTERNODE, PathFinding("efa", "corroborated", [])),
    (transport.INTRANODE, PathFinding("shm", "corroborated", [])),
    (transport.GPUDIRECT, PathFinding(True, "corroborated", [])),
    (transport.BUSBW, BusBandwidth(11.0)),
]  # fmt: skip
TYPES = {type.id: type for type, _ in GOOD}
# Of these a script has one witness at most, and an image is nobody's here.
NEVER = {"environment.image_ran"}
NEVER_OF_A_SCRIPT = {*NEVER, "learning.heldout.loss", "learning.heldout.bits_per_byte"}


def evidence(changes: Iterable[tuple[FactType[Any], Any]] = (), kind: RunKind = RUN) -> Evidence:
    """The good facts with changes: another value, a fact of another state, or None to leave it out."""
    facts: dict[str, dict[str, Fact[Any]]] = {}
    for type, value in {**{t.id: (t, v) for t, v in GOOD}, **{t.id: (t, v) for t, v in changes}}.values():
        if value is not None:
            found = value if isinstance(value, Fact) else type.seen(value, "a test")
            facts.setdefault(type.kind, {})[type.id] = found
    return Evidence(facts, kind)


def verdict(claim: str, given: Evidence) -> Verdict:
    return judge([{"claim": claim, **ASKED.get(claim, {})}], given)[0]


CASES = [(RUN, claim) for claim in sorted(set(JUDGES["run"]) - NEVER)]
CASES += [(SCRIPT, claim) for claim in sorted(set(JUDGES["run"]) - NEVER_OF_A_SCRIPT)]


@pytest.mark.parametrize(("kind", "claim"), CASES, ids=lambda value: getattr(value, "name", value))
def test_good_facts_support(kind: RunKind, claim: str) -> None:
    assert verdict(claim, evidence(kind=kind)).verdict == SUPPORTED


@pytest.mark.parametrize("kind", KINDS_OF_RUN.values(), ids=lambda kind: kind.name)
@pytest.mark.parametrize("claim", sorted(JUDGES["run"]))
def test_no_facts_establish_nothing(claim: str, kind: RunKind) -> None:
    seen = verdict(claim, Evidence({}, kind))
    assert (seen.verdict, seen.reason in Reason.__members__.values()) == (NOT_ESTABLISHED, True)


@pytest.mark.parametrize(("kind", "claim"), CASES, ids=lambda value: getattr(value, "name", value))
def test_every_fact_that_was_used_is_needed(kind: RunKind, claim: str) -> None:
    """Taking away any single fact that the verdict cites leaves it unsupported."""
    used = verdict(claim, evidence(kind=kind)).evidence
    assert used
    for name in used:
        for missing in (None, TYPES[name].unknown("not seen")):
            assert verdict(claim, evidence([(TYPES[name], missing)], kind)).verdict != SUPPORTED, name


REFUTING: list[tuple[str, Values, str]] = [
    ("execution.completed", [(execution.STATUS, Ended("failed", "rank 1 died")), (execution.EXECUTED_STEPS, None)], "failed"),
    ("execution.completed", [(execution.EXECUTED_STEPS, ExecutedSteps({}, 19, 20, 0))], "steps"),
    ("execution.completed", [(execution.UPDATES, Updates(18, 18, 12))], "updates"),
    ("execution.completed", [(execution.PARAMETERS_UNMOVED, ["a.weight"])], "updates"),
    ("execution.completed", [(execution.PARAMETERS_WITHOUT_GRADIENT, ["a.weight"])], "updates"),
    ("execution.completed", [(execution.SCHEDULE, Schedule([3], 0.01))], "schedule"),
    ("execution.completed", [(execution.DATA_ORDER, replace(ORDER, matching=19, first_difference=20))], "data"),
    ("execution.finished", [(execution.STATUS, Ended("timed-out", "no progress"))], "timed-out"),
    ("execution.all_ranks_participated", [(execution.ROLL_CALLS, RollCalls(3, 4, []))], "roll-call"),
    ("execution.all_ranks_participated", [(execution.DATA_ORDER, replace(ORDER, misplaced=[RankStep(1, 3)]))], "data"),
    ("execution.all_ranks_participated", [(execution.REPLICAS, Replicas(3, [10]))], "replicas"),
    (
        "execution.all_ranks_participated",
        [(execution.GRADIENT_ROLL_CALLS, replace(GRADIENTS, wrong=[GradientProblem(0, 1, "zero")]))],
        "gradients",
    ),
    ("recovery.checkpoint_reloads", [(recovery.RELOAD, replace(RELOAD, untrained=["rank 0: x"]))], "different"),
    ("recovery.checkpoint_reloads", [(recovery.RELOAD, replace(RELOAD, different=["rank 0: x"]))], "different"),
    ("recovery.checkpoint_reloads", [(recovery.RELOAD, replace(RELOAD, missing=["x"]))], "missing"),
    ("recovery.checkpoint_reloads", [(recovery.RELOAD, replace(RELOAD, step=19))], "step"),
    ("recovery.checkpoint_reloads", [(recovery.STATUS, ReloadEnded("failed", "no", "it is broken"))], "reload"),
    ("learning.heldout.bits_per_byte", [(BITS["after"], 3.2), (BITS["reload"], 3.2)], "value"),
    ("learning.heldout.loss", [(LOSS["after"], 7.85), (LOSS["reload"], 7.85)], "value"),
    ("learning.heldout.loss", [(LOSS["after"], LOSS["after"].error("window 3 is NaN"))], "non-finite"),
    ("performance.tokens_per_second", [(performance.TOKENS_PER_SECOND, replace(THROUGHPUT, tokens_per_second=8999.0))], "value"),
    ("performance.step_time_p95", [(performance.STEP_TIME, replace(STEP_TIME, p95=1.01))], "value"),
    ("transport.internode", [(transport.INTERNODE, PathFinding("tcp", "corroborated", []))], "different"),
    ("transport.internode", [(transport.INTERNODE, PathFinding("socket", "refuted", ["a line"]))], "different"),
    ("transport.gpudirect", [(transport.GPUDIRECT, PathFinding(False, "corroborated", []))], "different"),
]  # fmt: skip


@pytest.mark.parametrize(("claim", "changes", "reason"), REFUTING)
def test_refuted(claim: str, changes: Values, reason: str) -> None:
    seen = verdict(claim, evidence(changes))
    assert (seen.verdict, seen.reason) == (REFUTED, reason)


DOUBTFUL: list[tuple[str, Values, str]] = [
    ("execution.completed", [(execution.STATUS, Ended("failed", "lost contact"))], "contradiction"),
    ("transport.min_busbw", [(transport.BUSBW, BusBandwidth(9.0))], "unknown"),
    ("transport.min_busbw", [(transport.INTERNODE, PathFinding("efa", "log-only", []))], "uncorroborated"),
    ("learning.heldout.bits_per_byte", [(learning.DATA, TrainingData("random", True))], "synthetic-data"),
    ("learning.heldout.loss", [(learning.ISOLATION, Isolation(0.4, 0.5, 1e-3))], "contaminated"),
    ("learning.heldout.bits_per_byte", [(learning.OVERLAP, Overlap([1], 0.5, 0.1, 64))], "contaminated"),
    ("learning.heldout.bits_per_byte", [(BITS["reload"], None)], "uncorroborated"),
    ("learning.heldout.bits_per_byte", [(BITS["reload"], 2.9)], "contradiction"),
    ("learning.heldout.loss", [(LOSS["base"], None)], "uncorroborated"),
    ("learning.heldout.loss", [(LOSS["base"], 2.9)], "contradiction"),
    ("learning.heldout.loss", [(execution.TOLERANCES, Tolerances())], "unknown"),
    ("learning.heldout.bits_per_byte", [(BIGRAM, BIGRAM.unknown("two say two"))], "unknown"),
    *(("recovery.checkpoint_reloads", [(recovery.STATUS, ReloadEnded(status, "", ""))], "not-run") for status in ("interrupted", "timed-out", "failed")),
    (
        "execution.all_ranks_participated",
        [(execution.GRADIENT_ROLL_CALLS, replace(GRADIENTS, unclear=[GradientProblem(0, 1, "NaN")]))],
        "unclear",
    ),
    ("learning.heldout.loss", [(execution.DATA_ORDER, replace(ORDER, matching=3, first_difference=4))], "contradiction"),
    ("learning.heldout.loss", [(execution.DATA_ORDER, None)], "unknown"),
    ("performance.tokens_per_second", [(performance.WINDOW_BY_PROBE, None)], "uncorroborated"),
    ("performance.tokens_per_second", [(performance.WINDOW_BY_PROBE, replace(WINDOW, ranks_s=15.0))], "contradiction"),
    ("performance.step_time_p95", [(performance.STEP_TIME, replace(STEP_TIME, steps=12))], "unstable"),
    ("recovery.checkpoint_reloads", [(recovery.RELOAD, replace(RELOAD, new_processes=False))], "unknown"),
    ("performance.tokens_per_second", [(performance.CLOCKS, Clocks(0.2, 0.05))], "contradiction"),
    ("environment.hosts_agree", [(environment.HOSTS, environment.HostPackages(2, {}, False))], "contradiction"),
    ("environment.image_ran", [], "unknown"),
    *(
        ("transport.internode", [(transport.INTERNODE, PathFinding("efa", word, []))], reason)
        for word, reason in (
            ("log-only", "uncorroborated"), ("witnesses-disagree", "contradiction"), ("insufficient", "unknown"),
            ("refuted", "contradiction"), ("a word of tomorrow", "unknown"),
        )
    ),
    ("transport.internode", [(transport.INTERNODE, PathFinding(None, "corroborated", []))], "unknown"),
    ("transport.internode", [(transport.INTERNODE, transport.INTERNODE.not_applicable("one host"))], "unknown"),
    ("transport.gpudirect", [(transport.GPUDIRECT, transport.GPUDIRECT.unknown("no NCCL log"))], "unknown"),
    ("recovery.worker_kill", [], "not-run"),
]  # fmt: skip


@pytest.mark.parametrize(("claim", "changes", "reason"), DOUBTFUL)
def test_not_established(claim: str, changes: Values, reason: str) -> None:
    seen = verdict(claim, evidence(changes))
    assert (seen.verdict, seen.reason) == (NOT_ESTABLISHED, reason)


def test_a_throughput_says_the_path_and_does_not_rest_on_it() -> None:
    seen = verdict("performance.tokens_per_second", evidence([(transport.INTRANODE, None)]))
    assert seen.verdict == SUPPORTED
    assert "path of the bytes: between hosts: efa, corroborated; within a host: no such evidence" in seen.seen
    assert seen.evidence
    assert not any(name.startswith("transport") for name in seen.evidence)


def test_a_void_run_establishes_nothing() -> None:
    seen = judge(CLAIMS, Evidence(evidence().facts, void="claims.json was changed"))
    assert {(v.verdict, v.reason) for v in seen} == {(NOT_ESTABLISHED, "void")}


def test_exit_codes() -> None:
    answers = {
        SUPPORTED: supported(""),
        REFUTED: refuted(Reason.VALUE, ""),
        NOT_ESTABLISHED: not_established(Reason.UNKNOWN, ""),
    }

    def made(claim: str, word: str) -> Verdict:
        return Verdict(claim, answers[word], {})  # type: ignore[index]

    def of(*words: str, early: bool = False) -> int:
        return exit_code([made("execution.completed", word) for word in words], ended_early=early)

    assert of(SUPPORTED) == 0
    assert of(SUPPORTED, NOT_ESTABLISHED) == 3
    assert of(SUPPORTED, NOT_ESTABLISHED, REFUTED) == 1
    assert of(REFUTED, early=True) == 4
    drill, done = made("recovery.worker_kill", NOT_ESTABLISHED), made("execution.completed", SUPPORTED)
    assert exit_code([done, drill], ended_early=False) == 0  # a drill's claim is not a run's to establish
    assert exit_code([drill], ended_early=False) == 3  # and nothing else was claimed: nothing is shown


NUMBERS = st.integers(-2, 30) | st.floats(-1e300, 1e300)


def of_shape(shape: Any) -> st.SearchStrategy[Any]:
    """Any value of a fact's type."""
    if shape is Tolerances:
        return st.builds(Tolerances, evaluation_relative=st.none() | st.floats(0, 1))
    if is_dataclass(shape):
        hints = get_type_hints(shape)
        return st.builds(shape, **{f.name: of_shape(hints[f.name]) for f in fields(shape)})
    origin, inside = get_origin(shape), get_args(shape)
    if origin is list:
        return st.lists(of_shape(inside[0]), max_size=2)
    if origin is dict:
        return st.dictionaries(st.sampled_from(["0", "1", "x"]), of_shape(inside[1]), max_size=2)
    if origin is tuple:
        return st.tuples(*map(of_shape, inside))
    if inside:
        return st.one_of(*map(of_shape, inside))
    simple = {int: st.integers(-2, 30), float: st.floats(-1e300, 1e300), bool: st.booleans(), type(None): st.none()}
    words = ["", "finished", "failed", "FINISHED", "efa", "tcp", "corroborated", "log-only", "refuted", "insufficient"]
    return simple.get(shape, st.sampled_from(words) | NUMBERS if shape is Any else st.sampled_from(words))


def of_type(type: FactType[Any]) -> st.SearchStrategy[Fact[Any]]:
    """Any fact of a type, known or not. A phase ends in one of four ways, and no event says otherwise."""
    value = of_shape(type.shape)
    if type.shape is Ended:
        value = st.builds(
            Ended, st.sampled_from(["finished", "failed", "timed-out", "interrupted"]), st.text(max_size=4)
        )
    return st.one_of(
        value.map(lambda found: type.seen(found, "as drawn")),
        st.just(type.unknown("as drawn")),
        st.just(type.error("as drawn")),
        st.just(type.not_applicable("as drawn")),
    )


EVERY = sorted({**FACTS, **TYPES}.values(), key=lambda type: type.id)


@settings(max_examples=300, deadline=None)
@given(
    st.data(),
    st.lists(st.sampled_from(EVERY), max_size=12, unique=True),
    st.booleans(),
    st.sampled_from([RUN, SCRIPT, OBSERVED]),
)
def test_facts_of_their_types_are_judged_without_a_fault(
    data: st.DataObject, strange: list[FactType[Any]], on_top_of_good: bool, kind: RunKind
) -> None:
    drawn = [(type, data.draw(of_type(type))) for type in strange]
    base = evidence(drawn, kind) if on_top_of_good else Evidence(
        {kind_: {t.id: f for t, f in drawn if t.kind == kind_} for kind_ in {t.kind for t, _ in drawn}}, kind
    )  # fmt: skip
    seen = judge(CLAIMS, base)
    assert seen.faults == ()
    assert [v.claim for v in seen] == [c["claim"] for c in CLAIMS]
    assert {v.verdict for v in seen} <= {SUPPORTED, REFUTED, NOT_ESTABLISHED}
    assert all((v.reason in Reason.__members__.values()) != (v.verdict == SUPPORTED) for v in seen)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 30) | st.floats() | st.text(max_size=8),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(st.sampled_from(["claim", "min", "max", "task", "x"]), children, max_size=4)
    ),
    max_leaves=8,
)
NAMES = st.text(max_size=5) | st.sampled_from(["claim", "min", "max", "equals", "task", "below", "over"])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.dictionaries(NAMES, JSON | st.sampled_from(sorted(REGISTRY)), max_size=3), max_size=3))
def test_judge_takes_any_claims(claims: list[dict[str, Any]]) -> None:
    seen = judge(claims, evidence())
    assert len(seen) == len(claims)
    assert seen.faults == ()
