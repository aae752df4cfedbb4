"""Records for tests of the report, built by hand: no run is needed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

DIGEST = "sha256:" + "ab" * 32
NASTY = "<script>alert(1)</script>"


def fact(name: str, value: Any = None, unit: str = "", witness: str = "ranks", **rest: Any) -> dict[str, Any]:
    """A fact as a record holds it; `state=` and `reason=` for one without a value."""
    made = {"id": name, "state": "value", "value": value, "unit": unit, "witness": witness, **rest}
    if made["state"] != "value":
        del made["value"]
    return {k: v for k, v in made.items() if v != "" or k == "value"}


def unknown(name: str, reason: str = "evidence ends at step 7 on rank 3") -> dict[str, Any]:
    return fact(name, state="unknown", reason=reason)


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
    curve = [[s, 1.9 + 2.4 * math.exp(-s / 90) + 0.05 * math.sin(s)] for s in range(1, steps + 1) if not 200 < s < 230]
    times = [[s, 0.81 + 0.03 * math.sin(s * 1.7) + (0.6 if s % 83 == 0 else 0)] for s in range(11, steps + 1)]
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
        verdict("transport.internode", "not-established", "uncorroborated", ("transport.internode.log",), equals="efa"),
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
        {
            "role": "rank",
            "rank": r,
            "host": f"ip-10-0-{r // 8}-17/net:4026531833",
            "machine": f"node-{r // 8}",
            "pid": 4000 + r,
            "attempt": 1,
            "ended": "closed" if r != 3 else "torn",
            "file": f"events/a1/rank-{r}.jsonl",
        }
        for r in range(ranks)
    ]
    return [
        fact(
            "execution.status",
            {"status": "failed", "cause": "rank 3 ended without a word, last seen at step 499"},
            witness="driver",
        ),
        fact("execution.planned_steps", steps, "steps", "trial"),
        fact(
            "execution.executed_steps",
            {"by_rank": {str(r): steps for r in range(ranks)}, "min": steps, "max": steps, "tokens": 65_536_000},
            "steps",
        ),
        fact("execution.roster", roster, witness="event files"),
        fact("execution.roll_calls", {"complete": 12, "planned": 12, "wrong": []}),
        fact(
            "execution.gradient_roll_calls",
            {
                "complete": 11,
                "planned": 12,
                "tolerance": 0.05,
                "worst_deviation": 0.0021,
                "wrong": [{"rank": 3, "step": 500, "problem": "this rank's share is zero"}],
            },
        ),
        fact("execution.replicas", state="not-applicable", reason="no shard has more than one replica"),
        fact("execution.leftover_processes", ["4711 raylet", "4712 python -m seatrial.probe"], witness="driver"),
        unknown("execution.data_order"),
        fact("execution.a_fact_of_tomorrow", {"nested": {"deeper": [1, {"x": [True, None, "text"]}]}, "plain": 1.5}),
    ]


def _transport() -> list[dict[str, Any]]:
    return [
        fact(
            "transport.internode.log",
            {"words": "NET/OFI Selected provider is efa", "ranks": 16},
            witness="NCCL log of each rank",
        ),
        unknown("transport.internode.counters", "the probe of ip-10-0-1-17 saw no counter file"),
    ]


def _performance(times: list[list[float]], ranks: int) -> list[dict[str, Any]]:
    peaks = {f"rank {r} (pid {4000 + r})": str(38_000_000_000 + r * 90_000_000) for r in range(ranks)}
    return [
        fact(
            "performance.tokens_per_second",
            {"tokens_per_second": 158_431.7, "tokens": 64_225_280, "seconds": 405.4, "steps": 490, "from_step": 11},
            "tokens/s",
        ),
        fact(
            "performance.step_time",
            {"p50": 0.811, "p95": 0.842, "p99": 1.41, "mean": 0.827, "stalls": 6, "series": times},
            "s",
        ),
        fact("performance.data_wait", 0.0121, "share of step time"),
        fact("performance.clocks", {"relative_spread": 0.0004, "tolerance": 0.05}),
        fact(
            "performance.peak_memory", {"by_process": peaks, "resident_at_once": "612000000000"}, "bytes", "host probes"
        ),
        fact("performance.checkpoint_time", [[s, 4.1 + s / 500] for s in range(50, 501, 50)], "s", "rank 0"),
    ]


def _learning(curve: list[list[float]]) -> list[dict[str, Any]]:
    scores = {"before": (4.31, 1.243), "after": (2.01, 0.58), "reload": (2.01, 0.58)}
    found = [fact(f"learning.heldout.loss.{p}", loss, "nats/token") for p, (loss, _) in scores.items()]
    found += [fact(f"learning.heldout.bits_per_byte.{p}", bits, "bits/byte") for p, (_, bits) in scores.items()]
    return [
        *found,
        fact("learning.train_loss", curve, "nats/token", reason="non-finite from step 201: NaN"),
        fact("learning.baseline.unigram", 1.09, "bits/byte", "rank 0"),
        fact("learning.baseline.bigram", 0.86, "bits/byte", "rank 0"),
        fact(
            "learning.overlap",
            {"suspect_windows": [1, 2, 5], "share": 0.19, "limit": 0.1, "ngram": 64},
            witness="rank 0",
        ),
        fact("learning.heldout.paired_change", state="error", reason="non-finite: window 3 is NaN"),
    ]


def _recovery(steps: int, ranks: int) -> list[dict[str, Any]]:
    saved = [{"step": s, "path": f"checkpoints/step-{s:06d}-a1", "manifest": DIGEST} for s in range(50, steps + 1, 50)]
    value = {
        "step": steps,
        "equal": 338 * ranks,
        "expected": 338 * ranks,
        "tensors": 338,
        "missing": [],
        "different": [],
        "manifest_equal": True,
        "new_processes": True,
    }
    return [
        fact("recovery.checkpoints", saved, witness="rank 0"),
        fact("recovery.reload", value, witness="new processes"),
    ]


def _environment() -> list[dict[str, Any]]:
    packages = {f"package-{n:03d}": f"{n % 9}.{n % 5}.{n % 3}#{n:012x}" for n in range(260)}
    files = [
        {"path": f"shard-{n:05d}.parquet", "sha256": DIGEST, "size": 10_485_760 + n, "split": "train"}
        for n in range(900)
    ]
    seen = ["events/a1/rank-0.jsonl", "events/a1/rank-1.jsonl"]
    return [
        fact(
            "environment.image.asked",
            "public.ecr.aws/deep-learning-containers/ray:train-ml-cuda-v1.1.0@" + DIGEST,
            witness="trial",
        ),
        fact(
            "environment.image.ran",
            "public.ecr.aws/deep-learning-containers/ray@" + DIGEST,
            witness="imageID of 3 pods",
        ),
        fact(
            "environment.packages",
            {
                "digest": DIGEST,
                "content": {"installed": packages, "python": "3.13.1"},
                "same_everywhere": True,
                "seen_by": seen,
            },
        ),
        fact(
            "environment.hardware",
            {
                "digest": DIGEST,
                "same_everywhere": False,
                "seen_by": ["a", "b"],
                "content": {
                    "a": {"gpus": [{"name": "L4", "memory_bytes": "24152899584"}]},
                    "b": {"gpus": [{"name": "L40S", "memory_bytes": "48305799168"}]},
                },
            },
        ),
        fact(
            "environment.data",
            {
                "digest": DIGEST,
                "content": {"files": files, "source": "s3"},
                "same_everywhere": True,
                "seen_by": seen[:1],
            },
        ),
        fact("environment.hosts", {"hosts": 2, "agree": True, "package_digests": {"a": DIGEST, "b": DIGEST}}),
    ]
