"""Events that no sound process writes: they cost evidence, never more, and are never an error of seatrial's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.canon import canonical, parse, plain
from seatrial.evidence import Evidence, Judgement, gather, judge, observe
from seatrial.evidence.run import Run
from tests.mutants.test_nccl import EFA, TCP, over_nccl
from tests.support.nccl import Job
from tests.support.sealed import NAMES, unpacked
from tests.support.strange import Body, Files, changed, files, weakened
from tests.support.wires import World
from tests.support.wires import run as over_gloo

pytestmark = pytest.mark.unit

TIMES: list[dict[str, Any]] = [
    {"claim": "transport.intranode", "equals": "tcp"},
    {"claim": "transport.min_busbw", "min": 1e-9},
    {"claim": "performance.tokens_per_second", "min": 1},
    {"claim": "performance.step_time_p95", "max": 9},
    {"claim": "execution.completed"},
]
MADE: dict[str, Callable[[], tuple[str, Run]]] = {  # where a sealed record has one host, and no log of NCCL
    "hosts": lambda: ("tcp", over_gloo(World("aabb"))),
    "efa": lambda: ("efa", over_nccl(Job(), EFA)),
    "socket": lambda: ("socket", over_nccl(Job(net="Socket", gdr=False), TCP)),
}
STARTS = (*NAMES, *MADE)


@pytest.fixture(scope="module")
def starts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Files, Judgement]]:
    """Whole runs by name, with what they are judged to."""
    runs = {name: gather(unpacked(name, tmp_path_factory.mktemp(name))) for name in NAMES}
    for name, make in MADE.items():
        path, run = make()
        runs[name] = replace(run, claims=[{"claim": "transport.internode", "equals": path}, *TIMES])
    return {name: (files(run), judged(run)[1]) for name, run in runs.items()}


def judged(run: Run) -> tuple[Evidence, Judgement]:
    evidence = observe(run)
    return evidence, judge(run.claims, evidence)


def sound(evidence: Evidence, judgement: Judgement) -> None:
    """No error of seatrial's own; a record can hold what was found, and every value is of its fact's type."""
    assert judgement.faults == ()
    canonical(plain([verdict.json() for verdict in judgement]))
    canonical(plain(evidence.json()))
    for fact in (fact for facts in evidence.facts.values() for fact in facts.values() if fact.known):
        fact.type.read(parse(canonical(plain(fact.json()["value"]))))


def supported(judgement: Judgement) -> set[int]:
    return {number for number, verdict in enumerate(judgement) if verdict.verdict == "supported"}


@pytest.mark.parametrize("name", STARTS)
def test_files_that_are_read_as_they_are_give_the_same_verdicts(
    name: str, starts: dict[str, tuple[Files, Judgement]]
) -> None:
    whole, before = starts[name]
    evidence, after = judged(whole.run())
    sound(evidence, after)
    assert list(after) == list(before)
    assert supported(after)


@settings(max_examples=300)
@given(st.data())
def test_no_change_of_events_is_an_error_of_seatrials_own(
    starts: dict[str, tuple[Files, Judgement]], data: st.DataObject
) -> None:
    found, _ = starts[data.draw(st.sampled_from(STARTS))]
    for _ in range(data.draw(st.integers(1, 4))):
        found = changed(found, lambda count: data.draw(st.integers(0, count - 1)))
    sound(*judged(found.run()))


@settings(max_examples=200)
@given(st.data())
def test_nothing_that_is_taken_away_makes_a_verdict_better(
    starts: dict[str, tuple[Files, Judgement]], data: st.DataObject
) -> None:
    found, before = starts[data.draw(st.sampled_from(STARTS))]
    for _ in range(data.draw(st.integers(1, 3))):
        found = weakened(found, lambda count: data.draw(st.integers(0, count - 1)))
    evidence, after = judged(found.run())
    sound(evidence, after)
    assert supported(after) <= supported(before)


def edited(whole: Files, event: str, edit: Callable[[Body], Body]) -> Files:
    """With an edit of every event of a type."""
    bodies = {
        path: [edit(body) if body["event"] == event else body for body in each] for path, each in whole.bodies.items()
    }
    return replace(whole, bodies=bodies)


def planned(**facts: Any) -> Callable[[Body], Body]:
    return lambda body: {**body, "facts": {**body["facts"], **facts}}


def member(**said: Any) -> Callable[[Body], Body]:
    """Of every process's log, its communicators' members with something else in them."""

    def edit(body: Body) -> Body:
        processes = [
            {**process, "members": [{**each, **said} for each in process["members"]]}
            for process in body["facts"]["processes"]
        ]
        return {**body, "facts": {**body["facts"], "processes": processes}}

    return edit


HUGE = 2**53
CASES: list[tuple[str, str, str, Callable[[Body], Body]]] = [
    ("micro-batches without end", "run", "planned", planned(micro_batches=HUGE, micro_batch=HUGE)),
    ("a world without end", "hosts", "planned", planned(steps=HUGE, world_size=HUGE)),
    ("a mesh of other ranks", "hosts", "environment", lambda b: _sharding(b, mesh=[HUGE, HUGE])),
    ("steps without end", "run", "planned", planned(steps=2 * 10**9, steady_from=10**9)),
    ("a step of no time", "run", "step", lambda b: {**b, "duration_s": 5e-324}),
    ("losses whose squares overflow", "run", "evaluated", lambda b: _nats(b, 1e200)),
    ("tokens at the bound", "run", "step", lambda b: {**b, "tokens": 2**53 - 1, "duration_s": 1e-99}),
    ("step 0 without a warm-up", "run", "step", lambda b: {**b, "step": 0}),
    ("errors of other ranks", "script", "gradient_roll_call", lambda b: {**b, "errors": [0.1]}),
    ("an error below 0", "script", "gradient_roll_call", lambda b: {**b, "coefficients": [0, 0], "errors": [-1, -1]}),
    ("a communicator without end", "efa", "nccl_log", member(size=10**12)),
    ("a rank that is no number", "efa", "nccl_log", member(rank="first")),
    ("trouble without a name", "efa", "nccl_log", lambda b: _process(b, trouble={"new": "a line"})),
    ("a log that is a list", "socket", "nccl_log", lambda b: _process(b, trouble=[])),
    ("a rank of many digits", "hosts", "host_sample", lambda b: {**b, "connections": {f"rank-{'9' * 5000}": []}}),
    ("an age before years", "script", "host_sample", lambda b: {**b, "utc": "0001-01-01"}),
]


def _sharding(body: Body, **facts: Any) -> Body:
    return {**body, "content": {**body["content"], **facts}} if body["layer"] == "sharding" else body


def _nats(body: Body, value: float) -> Body:
    return {**body, "items": [[item[0], value if n else 0.0, *item[2:]] for n, item in enumerate(body["items"])]}


def _process(body: Body, **said: Any) -> Body:
    processes = [{**process, **said} for process in body["facts"]["processes"]]
    return {**body, "facts": {**body["facts"], "processes": processes}}


@pytest.mark.parametrize(("name", "event", "edit"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_was_an_error_of_seatrials_own(
    name: str, event: str, edit: Callable[[Body], Body], starts: dict[str, tuple[Files, Judgement]]
) -> None:
    sound(*judged(edited(starts[name][0], event, edit).run()))


def test_a_line_nested_too_deep_ends_its_file(starts: dict[str, tuple[Files, Judgement]]) -> None:
    deep: Any = {}
    for _ in range(300):
        deep = {"": deep}
    whole, _ = starts["run"]
    found = edited(whole, "environment", lambda body: {**body, "content": deep}).run()
    assert {stream.ended for stream in found.ranks} == {"gap"}
    sound(*judged(found))


def test_claims_that_are_no_claims_judge_nothing(tmp_path: Path) -> None:
    root = unpacked("run", tmp_path)
    (root / "claims.json").write_bytes(canonical({"claims": [1], "run": root.name, "schema": "seatrial.claims/1"}))
    run = gather(root)
    assert run.void
    assert not supported(judge(run.claims, observe(run)))


@pytest.mark.parametrize("file", ["/dev/zero", "events/../../x.jsonl", "events/\x00.jsonl", "events/a1", ""])
def test_a_roster_names_event_files_alone(file: str, starts: dict[str, tuple[Files, Judgement]]) -> None:
    found = edited(starts["run"][0], "roster", lambda body: {**body, "files": [file]}).run()
    assert found.driver.ended == "gap"
    assert found.ranks == ()
