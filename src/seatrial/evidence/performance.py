"""Performance: the steady window, as a ratio of sums. Never read without the transport verdict beside it."""

from __future__ import annotations

import math
import statistics
from typing import Any

from seatrial.events.schema import CheckpointSaved, MemorySample, Step
from seatrial.evidence.facts import Fact, unknown
from seatrial.evidence.gather import Run
from seatrial.evidence.series import quantile, thin


def facts(run: Run) -> dict[str, Fact]:
    """All facts of this kind."""
    found = [*_window(run), _memory(run), _checkpoints(run)]
    return {fact.id: fact for fact in found}


def _window(run: Run) -> list[Fact]:
    names = ("performance.tokens_per_second", "performance.step_time", "performance.data_wait", "performance.clocks")
    if why := run.incomplete(run.ranks, "rank"):
        return [unknown(name, why, "ranks") for name in names]
    start = run.plan.get("steady_from", 1)
    ranks = [{e.step: e for e in s.all(Step) if e.step >= start} for s in run.ranks]
    shared = sorted(set.intersection(*(set(r) for r in ranks)))
    if not shared:
        return [unknown(name, f"no step after {start - 1}, the warm-up", "ranks") for name in names]
    # A step ends when its slowest rank does.
    times = [max(r[step].duration_s for r in ranks) for step in shared]
    tokens = [sum(r[step].tokens for r in ranks) for step in shared]
    waits = [max(r[step].data_wait_s for r in ranks) for step in shared]
    totals = [math.fsum(r[step].duration_s for step in shared) for r in ranks]
    total, ordered = math.fsum(times), sorted(times)
    spread = (max(totals) - min(totals)) / max(totals)
    step_time: dict[str, Any] = {
        "p50": quantile(ordered, 0.5),
        "p95": quantile(ordered, 0.95),
        "p99": quantile(ordered, 0.99),
        "mean": total / len(times),
        "stalls": sum(t > 3 * statistics.median(times) for t in times),
        "series": thin([[s, t] for s, t in zip(shared, times, strict=True)]),
    }
    return [
        Fact(
            names[0],
            value={
                "tokens_per_second": sum(tokens) / total,
                "tokens": sum(tokens),
                "seconds": total,
                "steps": len(shared),
                "from_step": shared[0],
            },
            unit="tokens/s",
            witness="step events: Σ tokens / Σ slowest rank's seconds",
        ),
        Fact(names[1], value=step_time, unit="s", witness="step events, slowest rank of each step"),
        Fact(
            names[2],
            value=math.fsum(waits) / total,
            unit="share of step time",
            witness="step events, slowest rank of each step",
        ),
        Fact(
            names[3],
            value={"relative_spread": spread, "tolerance": run.plan.get("tolerances", {}).get("clock_relative", 0.0)},
            witness="monotonic clocks of all ranks",
        ),
    ]


def _memory(run: Run) -> Fact:
    name = "performance.peak_memory"
    samples = [e for s in run.probes if (e := s.last(MemorySample))]
    if not samples:
        return unknown(name, "no probe sampled memory", "host probes")
    peaks = {process: int(size) for e in samples for process, size in e.peaks_bytes.items()}
    total = max((int(e.resident_bytes) for s in run.probes for e in s.all(MemorySample)), default=0)
    return Fact(
        name,
        value={"by_process": {k: str(v) for k, v in sorted(peaks.items())}, "resident_at_once": str(total)},
        unit="bytes",
        witness="host probes",
    )


def _checkpoints(run: Run) -> Fact:
    saved = [[e.step, e.duration_s] for s in run.ranks[:1] for e in s.all(CheckpointSaved)]
    name = "performance.checkpoint_time"
    return (
        Fact(name, value=saved, unit="s", witness="rank 0")
        if saved
        else unknown(name, "no checkpoint was saved", "rank 0")
    )
