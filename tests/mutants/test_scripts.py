"""Lies about a run of a team's own script, each of which changes the verdict that it concerns; the clean run's stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from seatrial.canon import utc
from seatrial.events.base import Event
from seatrial.events.schema import Evaluated, GradientRollCall, Step
from seatrial.events.wires import HostSample
from seatrial.evidence import judge, observe
from tests.support.scripts import NODES, Script, pod

pytestmark = pytest.mark.unit

CLAIMS: list[dict[str, Any]] = [
    {"claim": "execution.finished"},
    {"claim": "execution.completed"},
    {"claim": "execution.all_ranks_participated"},
    {"claim": "transport.internode", "equals": "tcp"},
    {"claim": "performance.tokens_per_second", "min": 100.0},
    {"claim": "performance.step_time_p95", "max": 1.0},
    {"claim": "learning.heldout.loss", "improves_by": 0.1, "over": "base"},
    {"claim": "recovery.checkpoint_reloads"},
]
CLEAN = {
    "execution.finished": "supported",
    "execution.completed": "supported",
    "execution.all_ranks_participated": "supported",
    "transport.internode": "supported",
    "performance.tokens_per_second": "supported",
    "performance.step_time_p95": "supported",
    "learning.heldout.loss": "uncorroborated",
    "recovery.checkpoint_reloads": "not-run",
}


def verdicts(script: Script) -> dict[str, str]:
    """By claim: supported, or the reason of what it is instead."""
    found = judge(CLAIMS, observe(script.run()))
    return {v.claim: v.verdict if v.verdict == "supported" else v.reason for v in found}


def test_a_clean_run_is_believed() -> None:
    assert verdicts(Script()) == CLEAN


def change(kind: type[Event], rank: int | None = None, **what: Any) -> Callable[[int, Event], Event]:
    """A lie in every event of a type, of one rank or of all."""

    def lie(me: int, event: Event) -> Event:
        mine = isinstance(event, kind) and rank in (None, me)
        return event.model_copy(update={k: v(event) if callable(v) else v for k, v in what.items()}) if mine else event

    return lie


def without_last_step(rank: int, event: Event) -> Event | None:
    return None if rank == 1 and isinstance(event, Step) and event.step == 32 else event


LIES: dict[str, tuple[Script, dict[str, str]]] = {
    "ray train says it failed": (
        Script(attempt={"run_status": "ERRORED", "detail": "boom"}),
        {"execution.finished": "contradiction", "execution.completed": "contradiction"},
    ),
    "the driver saw it fail, Ray Train did not": (
        Script(status="failed"),
        {"execution.finished": "contradiction", "execution.completed": "contradiction"},
    ),
    "fewer ranks than were asked for": (
        Script(ranks=1, attempt={"workers": [{"rank": 0, "node": NODES[0], "pid": 70}]}),
        {"execution.finished": "ranks", "execution.completed": "ranks", "execution.all_ranks_participated": "ranks",
         "transport.internode": "unknown"},
    ),
    "a rank that no probe has seen": (
        Script(watched=(0,)),
        {"execution.finished": "uncorroborated", "execution.completed": "uncorroborated", "transport.internode": "unknown"},
    ),
    "a step fewer on one rank": (Script(rank=without_last_step), {
            "execution.completed": "steps",
            "performance.tokens_per_second": "uncorroborated",
            "performance.step_time_p95": "uncorroborated",
        }),
    "updates that the optimizer did not make": (
        Script(rank=change(Step, updates=lambda e: int(e.step != 7))),
        {"execution.completed": "updates"},
    ),
    "parameters that never change": (
        Script(rank=change(GradientRollCall, replica="same")),
        {"execution.completed": "updates"},
    ),
    "a data stream that began again": (
        Script(batch=lambda rank, step: f"digest-{rank}-{step % 20}"),
        {"execution.completed": "data"},
    ),
    "ranks with the same batches": (
        Script(batch=lambda rank, step: f"digest-{step}"),
        {"execution.all_ranks_participated": "data"},
    ),
    "a rank's gradient is lost": (
        Script(rank=change(GradientRollCall, coefficients=[0.5, 0.0])),
        {"execution.all_ranks_participated": "gradients"},
    ),
    "ranks that train each for itself": (
        Script(rank=lambda rank, e: (
            e.model_copy(update={"coefficients": [float(rank == 0), float(rank == 1)]})
            if isinstance(e, GradientRollCall) else e
        )),
        {"execution.all_ranks_participated": "gradients"},
    ),
    "a rank counts twice": (
        Script(rank=change(GradientRollCall, coefficients=[0.5, 1.0])),
        {"execution.all_ranks_participated": "gradients"},
    ),
    "a gradient that is no sum of the ranks'": (
        Script(rank=change(GradientRollCall, residual=0.4)),
        {"execution.all_ranks_participated": "unclear"},
    ),
    "replicas that drift apart": (
        Script(rank=change(GradientRollCall, rank=1, replica=lambda e: f"other-{e.step}")),
        {"execution.all_ranks_participated": "replicas"},
    ),
    "random tokens, measured": (
        Script(rank=lambda rank, e: e.model_copy(update={"coincidence": 1.02}) if e.event == "tokens_seen" else e),
        {"learning.heldout.loss": "synthetic-data"},
    ),
    "random tokens, declared": (Script(synthetic="random-tokens"), {"learning.heldout.loss": "synthetic-data"}),
    "another held-out set afterwards": (
        Script(rank=change(Evaluated, items=lambda e: [(i + (e.phase == "after") * 50, *r) for i, *r in e.items])),
        {"learning.heldout.loss": "unknown"},
    ),
    "nothing learnt": (
        Script(rank=change(Evaluated, items=lambda e: [(i, 500.0, t, b) for i, _, t, b in e.items])),
        {"learning.heldout.loss": "value"},
    ),
    "bytes that the interface never carried": (Script(counter=0.5), {"transport.internode": "contradiction"}),
    "ranks' clocks that the probe contradicts": (
        Script(rank=change(Step, duration_s=0.05, started_s=lambda e: e.step * 0.05)),
        {"performance.tokens_per_second": "contradiction", "performance.step_time_p95": "contradiction"},
    ),
    "steps that no one planned": (Script(steps=None), {"execution.completed": "unknown"}),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_caught_and_touches_nothing_else(lie: str) -> None:
    script, expected = LIES[lie]
    assert verdicts(script) == {**CLEAN, **expected}


def test_a_script_that_does_not_observe_is_judged_from_outside() -> None:
    """What only it can say is not established, and the line that would establish it is named."""
    found = {v.claim: v for v in judge(CLAIMS, observe(Script(observed=False).run()))}
    assert found["execution.finished"].verdict == "supported"
    assert found["transport.internode"].verdict == "supported"
    inside = set(CLEAN) - {"execution.finished", "transport.internode", "recovery.checkpoint_reloads"}
    assert {found[claim].verdict for claim in inside} == {"not-established"}
    assert all("from seatrial import observe" in found[claim].seen for claim in inside)


def test_on_one_host_there_is_no_path_between_hosts() -> None:
    found = verdicts(replace(Script(), hosts=(NODES[0], NODES[0])))
    assert found == {**CLEAN, "transport.internode": "unknown"}


def test_an_attempt_that_failed_is_no_part_of_the_window() -> None:
    """The probe's samples of an earlier attempt, whose steps were as high, would stretch the time of the last."""
    run = Script().run()
    sample = next(e for e in run.probes[0].events if isinstance(e, HostSample))
    earlier = tuple(
        probe.events[:2]
        + tuple(sample.model_copy(update={"steps": {f"rank-{at}": n}, "carried": None}) for n in (2, 12, 20, 20))
        + probe.events[2:]
        for at, probe in enumerate(run.probes)
    )
    times = tuple(utc(999_000.0 + at) for at in range(6))
    probes = tuple(
        replace(probe, events=events, times=times + probe.times[2:])
        for probe, events in zip(run.probes, earlier, strict=True)
    )
    found = {v.claim: v.verdict for v in judge(CLAIMS, observe(replace(run, probes=probes)))}
    assert found["performance.step_time_p95"] == "supported"


@pytest.mark.parametrize(
    "lie",
    [
        "a data stream that began again",
        "ranks with the same batches",
        "a rank's gradient is lost",
        "random tokens, measured",
        "nothing learnt",
        "bytes that the interface never carried",
        "fewer ranks than were asked for",
    ],
)
def test_evidence_that_is_lost_makes_no_verdict_better(lie: str) -> None:
    """Each file in turn ends early, somewhere: what was not supported stays so."""
    run = LIES[lie][0].run()
    whole = verdicts(LIES[lie][0])
    for kind in ("driver", "ranks", "probes"):
        streams = (run.driver,) if kind == "driver" else getattr(run, kind)
        assert streams
        for at, stream in enumerate(streams):
            for length in range(0, len(stream.events), 5):
                cut = replace(stream, events=stream.events[:length], times=stream.times[:length], ended="torn")
                changed = cut if kind == "driver" else (*streams[:at], cut, *streams[at + 1 :])
                found = judge(CLAIMS, observe(replace(run, **{kind: changed})))
                better = [v.claim for v in found if v.verdict == "supported" and whole[v.claim] != "supported"]
                assert not better, (kind, at, length)


ASKED, OTHER = (f"registry.example/ray@sha256:{letter * 64}" for letter in "ab")


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([{"pods": [pod(host, ASKED) for host in NODES]}], "supported"),
        ([{"pods": [pod(host, "") for host in NODES]}, {"pods": [pod(host, ASKED) for host in NODES]}], "supported"),
        ([{"pods": [pod(host, ASKED) for host in NODES]}, {"unknown": "the API does not answer"}], "supported"),
        ([{"pods": [pod(host, OTHER) for host in NODES]}], "different"),
        ([{"pods": [pod(NODES[0], ASKED), pod(NODES[1], OTHER)]}], "unknown"),
        ([{"pods": [pod(NODES[0], ASKED)]}], "unknown"),
        ([{"pods": [pod(host, "registry.example/ray:latest") for host in NODES]}], "unknown"),
        ([{"unknown": "the pods could not be listed: 403"}], "unknown"),
        ([], "unknown"),
    ],
)
def test_the_image_that_ran_is_what_the_pods_say(pods: list[dict[str, Any]], expected: str) -> None:
    found = observe(Script(image=ASKED, pods=tuple(pods)).run())
    (verdict,) = judge([{"claim": "environment.image_ran"}], found)
    assert (verdict.reason or verdict.verdict) == expected
    if pods == [{"unknown": "the pods could not be listed: 403"}]:
        assert "403" in verdict.seen


def test_few_tokens_are_not_called_random() -> None:
    """No two of fifty tokens of a large vocabulary are equal, in text either."""
    lone = lambda rank, e: (  # noqa: E731
        e.model_copy(update={"tokens": 50, "largest": 50_000, "coincidence": 0.0}) if e.event == "tokens_seen" else e
    )
    assert verdicts(Script(rank=lone))["learning.heldout.loss"] == "uncorroborated"


def test_of_four_ranks_that_train_each_for_itself_the_first_is_named() -> None:
    """Most weights are zero then: nothing may be divided by their median."""
    from seatrial.evidence.script.execution import _problem

    call = GradientRollCall(
        step=1, parameter="p", share=1.0, shard=0, replica="r", coefficients=[0.0, 1.0, 0.0, 0.0], errors=[1e-4] * 4,
        residual=1e-6,
    )  # fmt: skip
    assert _problem(call, 1, 4) == ("wrong", "no other rank's gradient is in what this rank applies")
    assert _problem(call, 2, 4)[0] == "wrong"
