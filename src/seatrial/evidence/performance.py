"""Performance: the steady window, as a ratio of sums. Never read without the transport verdict beside it."""

from __future__ import annotations

import math
import statistics
from datetime import datetime
from itertools import pairwise
from typing import Any

from seatrial.events import Stream
from seatrial.events.schema import CheckpointSaved, Step
from seatrial.events.wires import HostSample
from seatrial.evidence.facts import Fact, unknown
from seatrial.evidence.gather import Run
from seatrial.evidence.series import quantile, thin


def facts(run: Run) -> dict[str, Fact]:
    """All facts of this kind."""
    found = [*_window(run), _witness(run), _memory(run), _checkpoints(run)]
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
    waits = [[r[step].data_wait_s for r in ranks] for step in shared]
    waited = [max(w for w in row if w is not None) for row in waits if None not in row]
    totals = [math.fsum(r[step].duration_s for step in shared) for r in ranks]
    total, ordered = math.fsum(times), sorted(times)
    spread = (max(totals) - min(totals)) / max(totals)
    step_time: dict[str, Any] = {
        "p50": quantile(ordered, 0.5),
        "p95": quantile(ordered, 0.95),
        "p99": quantile(ordered, 0.99),
        "mean": total / len(times),
        "steps": len(times),
        "stalls": sum(t > 3 * statistics.median(times) for t in times),
        "series": thin([[s, t] for s, t in zip(shared, times, strict=True)]),
    }
    return [
        unknown(names[0], "the script does not say how many tokens a step has: `trial.step(tokens=…)`", "ranks")
        if not all(tokens)
        else Fact(
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
        unknown(names[2], "the batches do not come through `trial.batches(loader)`", "ranks")
        if len(waited) < len(shared)
        else Fact(
            names[2],
            value=math.fsum(waited) / total,
            unit="share of step time",
            witness="step events, slowest rank of each step",
        ),
        Fact(
            names[3],
            value={"relative_spread": spread, "tolerance": run.plan.get("tolerances", {}).get("clock_relative", 0.0)},
            witness="monotonic clocks of all ranks",
        ),
    ]


def _witness(run: Run) -> Fact:
    """The steady window by the probes' clocks: the shortest and longest time that samples at its edges allow."""
    name = "performance.window_by_probe"
    if why := run.incomplete(run.ranks, "rank") or run.incomplete(run.probes, "probe"):
        return unknown(name, why, "host probes")
    first, last = int(run.plan.get("steady_from", 1)), run.last_step
    spans = [_span(s, first, last) for s in run.ranks]
    seen = [_seen(s.path.rpartition("/")[2].removesuffix(".jsonl"), run.probes, first, last) for s in run.ranks]
    bounds = [b for b in seen if b]
    if len(bounds) < len(spans) or not all(spans):
        return unknown(name, "no sample before and after the window for every rank", "host probes")
    value = {
        "ranks_s": max(s for s in spans if s),
        "at_least_s": max(low for low, _ in bounds),
        "at_most_s": min(high for _, high in bounds),
        "slack_s": run.plan.get("tolerances", {}).get("clock_slack_s", 0.0),
    }
    return Fact(name, value=value, unit="s", witness="last steps in the ranks' files, by the probes' clocks")


def _span(stream: Stream, first: int, last: int) -> float:
    """Seconds from the start of one step to the end of another by a rank's own clock."""
    steps = {e.step: e for e in stream.all(Step)}
    if first not in steps or last not in steps:
        return 0.0
    return steps[last].started_s + steps[last].duration_s - steps[first].started_s


def _seen(rank: str, probes: tuple[Stream, ...], first: int, last: int) -> tuple[float, float] | None:
    """Shortest and longest time between the two edges of the window that one probe's samples of a rank allow."""
    for probe in probes:
        samples = _last_attempt([(_seconds(t), e.steps.get(rank, 0)) for e, t in probe.dated(HostSample)])
        before, inside = [t for t, n in samples if n < first], [t for t, n in samples if first <= n < last]
        after = [t for t, n in samples if n >= last]
        if before and after and any(n for _, n in samples):
            return (max(inside) - min(inside) if inside else 0.0), min(after) - max(before)
    return None


def _last_attempt(samples: list[tuple[float, int]]) -> list[tuple[float, int]]:
    """Samples since a rank's steps last began again: Ray Train may have started a script's ranks anew."""
    fell = [at for at, ((_, before), (_, now)) in enumerate(pairwise(samples), start=1) if now < before]
    return samples[fell[-1] :] if fell else samples


def _seconds(utc: str) -> float:
    return datetime.fromisoformat(utc).timestamp()


def _memory(run: Run) -> Fact:
    name = "performance.peak_memory"
    samples = [e for s in run.probes if (e := s.last(HostSample))]
    if not samples:
        return unknown(name, "no probe sampled memory", "host probes")
    peaks = {process: int(size) for e in samples for process, size in e.peaks_bytes.items()}
    total = max((int(e.resident_bytes) for s in run.probes for e in s.all(HostSample)), default=0)
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
