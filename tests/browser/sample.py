"""Records for tests of the report, built by hand: no run is needed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, TypeVar

from seatrial.evidence.facts import (
    FactType,
    environment,
    execution,
    learning,
    performance,
    recovery,
    transport,
)
from seatrial.evidence.facts.environment import HostPackages, Layer
from seatrial.evidence.facts.execution import (
    Ended,
    ExecutedSteps,
    GradientProblem,
    GradientRollCalls,
    RollCalls,
    RosterMember,
)
from seatrial.evidence.facts.learning import Overlap
from seatrial.evidence.facts.performance import Clocks, Memory, StepTime, Throughput
from seatrial.evidence.facts.recovery import Checkpoint, Reload
from seatrial.evidence.facts.transport import LOG_ONLY, PathFinding

T = TypeVar("T")
DIGEST = "sha256:" + "ab" * 32
NASTY = "<script>alert(1)</script>"


def fact(type: FactType[T], value: T, witness: str = "ranks", reason: str = "") -> dict[str, Any]:
    """A fact with a value, as a record holds it."""
    made: dict[str, Any] = json.loads(json.dumps(type.seen(value, witness, reason).json()))
    return made


def unknown(type: FactType[Any], reason: str = "evidence ends at step 7 on rank 3") -> dict[str, Any]:
    return type.unknown(reason, "ranks").json()


def strange(name: str, value: Any = None, unit: str = "", witness: str = "ranks", **rest: Any) -> dict[str, Any]:
    """A fact that seatrial would not write: of an id that it does not know, or of another shape."""
    made = {"id": name, "state": "value", "value": value, "unit": unit, "witness": witness, **rest}
    return {k: v for k, v in made.items() if v != "" or k == "value"}


def verdict(
    claim: str, word: str = "supported", reason: str = "", evidence: tuple[str, ...] = (), **asked: Any
) -> dict[str, Any]:
    return {
        "claim": claim,
        "verdict": word,
        "reason": reason,
        "asked": asked,
        "seen": f"what was seen of {claim}",
        "evidence": list(evidence),
    }


def record(
    *facts: dict[str, Any], verdicts: tuple[dict[str, Any], ...] = (), name: str = "first-look", **rest: Any
) -> dict[str, Any]:
    """A record that holds these facts and verdicts."""
    evidence: dict[str, dict[str, Any]] = {}
    for each in facts:
        evidence.setdefault(each["id"].partition(".")[0], {})[each["id"]] = each
    return {
        "schema": "seatrial.record/1",
        "run": f"20260101-000000-{name}",
        "sealed": "2026-01-01T09:30:00.000000Z",
        "seatrial": "0.1.0",
        "python": "3.13.1",
        "cites": None,
        "void": None,
        "ended_early": None,
        "exit_code": 0,
        "trial": {
            "metadata": {"name": name},
            "scaling": {"num_workers": 8},
            "workload": {"strategy": "fsdp", "steps": 500},
        },
        "claims": [{"claim": v["claim"], **v["asked"]} for v in verdicts],
        "verdicts": list(verdicts),
        "evidence": evidence,
        "artifacts": [{"path": "events/driver.jsonl", "size": 4096, "sha256": DIGEST}],
        **rest,
    }


def written(folder: Path, content: dict[str, Any], file: str = "record.json") -> Path:
    """A record file."""
    path = folder / file
    path.write_text(json.dumps(content))
    return path


def full(name: str = "qwen2.5-1.5b-first-look", steps: int = 500, ranks: int = 16) -> dict[str, Any]:
    """A large run on two hosts, every kind of evidence, each verdict, values of every state."""
    curve: list[tuple[int, float | None]] = [
        (s, 1.9 + 2.4 * math.exp(-s / 90) + 0.05 * math.sin(s)) for s in range(1, steps + 1) if not 200 < s < 230
    ]
    times = [(s, 0.81 + 0.03 * math.sin(s * 1.7) + (0.6 if s % 83 == 0 else 0)) for s in range(11, steps + 1)]
    return record(
        *_execution(steps, ranks),
        *_transport(),
        *_performance(times, ranks),
        *_learning(curve),
        *_recovery(steps, ranks),
        *_environment(),
        verdicts=_verdicts(),
        name=name,
        exit_code=1,
        ended_early="reload timed-out: no progress in 300 s",
        cites=DIGEST,
    )


def _verdicts() -> tuple[dict[str, Any], ...]:
    return (
        verdict(
            "execution.completed", evidence=("execution.status", "execution.planned_steps", "execution.executed_steps")
        ),
        verdict(
            "execution.all_ranks_participated", "refuted", "gradients", ("execution.roll_calls", "execution.nowhere")
        ),
        verdict(
            "transport.internode", "not-established", "uncorroborated", ("transport.internode.path",), equals="efa"
        ),
        verdict("performance.tokens_per_second", evidence=("performance.tokens_per_second",), min=9000),
        verdict(
            "learning.heldout.loss",
            "not-established",
            "contaminated",
            ("learning.overlap",),
            improves_by=0.1,
            over="base",
        ),
        verdict("recovery.worker_kill", "not-established", "not-run", max_lost_steps=50),
    )


def _execution(steps: int, ranks: int) -> list[dict[str, Any]]:
    roster = [
        RosterMember(
            role="rank",
            rank=rank,
            file=f"events/a1/rank-{rank}.jsonl",
            ended="closed" if rank != 3 else "torn",
            host=f"ip-10-0-{rank // 8}-17/net:4026531833",
            machine=f"node-{rank // 8}",
            pid=4000 + rank,
            attempt=1,
        )
        for rank in range(ranks)
    ]
    executed = ExecutedSteps({str(rank): steps for rank in range(ranks)}, steps, steps, 65_536_000)
    gradients = GradientRollCalls(
        planned=12,
        complete=11,
        wrong=[GradientProblem(3, 500, "this rank's share is zero")],
        unclear=[],
        tolerance=0.05,
        resolved=0.125,
        worst_deviation=0.0021,
    )
    tomorrow = {"nested": {"deeper": [1, {"x": [True, None, "text"]}]}, "plain": 1.5}
    return [
        fact(execution.STATUS, Ended("failed", "rank 3 ended without a word, last seen at step 499"), "driver"),
        fact(execution.PLANNED_STEPS, steps, "trial"),
        fact(execution.EXECUTED_STEPS, executed),
        fact(execution.ROSTER, roster, "event files"),
        fact(execution.ROLL_CALLS, RollCalls(12, 12, [])),
        fact(execution.GRADIENT_ROLL_CALLS, gradients),
        execution.REPLICAS.not_applicable("no shard has more than one replica").json(),
        fact(execution.LEFTOVER_PROCESSES, ["4711 raylet", "4712 python -m seatrial.probe"], "driver"),
        unknown(execution.DATA_ORDER),
        strange("execution.a_fact_of_tomorrow", tomorrow),
    ]


def _transport() -> list[dict[str, Any]]:
    lines = ["NET/OFI Selected provider is efa, fabric is efa-direct (found 1 nics)"]
    path = PathFinding("efa", LOG_ONLY, ["the probe of ip-10-0-1-17 saw no counter file"], ["rdmap0"], ["efa"], lines)
    return [
        fact(transport.INTERNODE, path, "NCCL's log of each rank"),
        unknown(transport.BYTES, "the probe of ip-10-0-1-17 saw no counter file"),
    ]


def _performance(times: list[tuple[int, float]], ranks: int) -> list[dict[str, Any]]:
    peaks = {f"rank {r} (pid {4000 + r})": str(38_000_000_000 + r * 90_000_000) for r in range(ranks)}
    return [
        fact(performance.TOKENS_PER_SECOND, Throughput(158_431.7, 64_225_280, 405.4, 490, 11)),
        fact(performance.STEP_TIME, StepTime(0.811, 0.842, 1.41, 0.827, len(times), 6, times)),
        fact(performance.DATA_WAIT, 0.0121),
        fact(performance.CLOCKS, Clocks(0.0004, 0.05)),
        fact(performance.PEAK_MEMORY, Memory(peaks, "612000000000"), "host probes"),
        fact(performance.CHECKPOINT_TIME, [(s, 4.1 + s / 500) for s in range(50, 501, 50)], "rank 0"),
    ]


def _learning(curve: list[tuple[int, float | None]]) -> list[dict[str, Any]]:
    scores = {"before": (4.31, 1.243), "after": (2.01, 0.58), "reload": (2.01, 0.58)}
    return [
        *(fact(learning.LOSS.of(phase=phase), loss) for phase, (loss, _) in scores.items()),
        *(fact(learning.BITS_PER_BYTE.of(phase=phase), bits) for phase, (_, bits) in scores.items()),
        fact(learning.TRAIN_LOSS, curve, reason="non-finite from step 201: NaN"),
        fact(learning.BASELINE.of(table="unigram"), 1.09, "rank 0"),
        fact(learning.BASELINE.of(table="bigram"), 0.86, "rank 0"),
        fact(learning.OVERLAP, Overlap([1, 2, 5], 0.19, 0.1, 64), "rank 0"),
        learning.PAIRED_CHANGE.error("non-finite: window 3 is NaN", "ranks").json(),
    ]


def _recovery(steps: int, ranks: int) -> list[dict[str, Any]]:
    saved = [Checkpoint(f"checkpoints/step-{step:06d}-a1", step, DIGEST) for step in range(50, steps + 1, 50)]
    reload = Reload(
        step=steps,
        equal=338 * ranks,
        expected=338 * ranks,
        tensors=338,
        missing=[],
        different=[],
        untrained=[],
        manifest_equal=True,
        new_processes=True,
    )
    return [fact(recovery.CHECKPOINTS, saved, "rank 0"), fact(recovery.RELOAD, reload, "new processes")]


def _environment() -> list[dict[str, Any]]:
    packages = {f"package-{n:03d}": f"{n % 9}.{n % 5}.{n % 3}#{n:012x}" for n in range(260)}
    files = [
        {"path": f"shard-{n:05d}.parquet", "sha256": DIGEST, "size": 10_485_760 + n, "split": "train"}
        for n in range(900)
    ]
    gpus = {
        "a": {"gpus": [{"name": "L4", "memory_bytes": "24152899584"}]},
        "b": {"gpus": [{"name": "L40S", "memory_bytes": "48305799168"}]},
    }
    seen = ["events/a1/rank-0.jsonl", "events/a1/rank-1.jsonl"]
    layers = {
        "libraries": Layer(DIGEST, {"installed": packages, "python": "3.13.1"}, True, seen),
        "hardware": Layer(DIGEST, gpus, False, ["a", "b"]),
        "data": Layer(DIGEST, {"files": files, "source": "s3"}, True, seen[:1]),
    }
    image = "public.ecr.aws/deep-learning-containers/ray"
    return [
        fact(environment.IMAGE_ASKED, f"{image}:train-ml-cuda-v1.1.0@{DIGEST}", "trial"),
        fact(environment.IMAGE_RAN, f"{image}@{DIGEST}", "imageID of 3 pods"),
        *(fact(environment.LAYER.of(layer=name), layer) for name, layer in layers.items()),
        fact(environment.HOSTS, HostPackages(2, {"a": DIGEST, "b": DIGEST}, True)),
    ]
