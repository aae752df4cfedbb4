"""Performance: the steady window, as a ratio of sums. Never read without the transport verdict beside it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import Any

from seatrial.events import Stream
from seatrial.events.schema import CheckpointSaved, Step
from seatrial.events.wires import HostSample
from seatrial.evidence.facts import performance
from seatrial.evidence.facts.fact import Fact
from seatrial.evidence.facts.performance import Clocks, Memory, SteadyWindow, StepTime, Throughput
from seatrial.evidence.run import Run
from seatrial.evidence.witness.statistics import quantile, thin

STALL = 3  # times the median


def facts(run: Run) -> Iterator[Fact[Any]]:
    """All facts of this kind; of a script's ranks as of the built-in training's."""
    yield from _steady(run)
    yield _by_probe(run)
    yield _memory(run)
    yield _checkpoints(run)


def _steady(run: Run) -> Iterator[Fact[Any]]:
    types = (performance.TOKENS_PER_SECOND, performance.STEP_TIME, performance.DATA_WAIT, performance.CLOCKS)
    if why := run.incomplete(run.ranks, "rank"):
        yield from (type.unknown(why, "ranks") for type in types)
        return
    start = run.plan.steady_from
    ranks = [{e.step: e for e in s.all(Step) if e.step >= start} for s in run.ranks]
    shared = sorted(set.intersection(*(set(r) for r in ranks)))
    # A step ends when its slowest rank does.
    times = [max(r[step].duration_s for r in ranks) for step in shared]
    total = math.fsum(times)
    if not total:
        why = f"the steps after {start - 1} took no time" if shared else f"no step after {start - 1}, the warm-up"
        yield from (type.unknown(why, "ranks") for type in types)
        return
    yield _throughput([sum(r[step].tokens for r in ranks) for step in shared], total, shared[0])
    yield performance.STEP_TIME.seen(_step_time(shared, times), "step events, slowest rank of each step")
    yield _data_wait([[r[step].data_wait_s for r in ranks] for step in shared], total)
    totals = [math.fsum(r[step].duration_s for step in shared) for r in ranks]
    spread = (max(totals) - min(totals)) / max(totals)
    yield performance.CLOCKS.seen(Clocks(spread, run.tolerances.clock_relative or 0.0), "monotonic clocks of all ranks")


def _throughput(tokens: list[int], seconds: float, first: int) -> Fact[Throughput]:
    if not all(tokens):
        why = "the script does not say how many tokens a step has: `trial.step(tokens=…)`"
        return performance.TOKENS_PER_SECOND.unknown(why, "ranks")
    value = Throughput(
        tokens_per_second=sum(tokens) / seconds,
        tokens=sum(tokens),
        seconds=seconds,
        steps=len(tokens),
        from_step=first,
    )
    return performance.TOKENS_PER_SECOND.seen(value, "step events: Σ tokens / Σ slowest rank's seconds")


def _step_time(steps: list[int], times: list[float]) -> StepTime:
    ordered, median = sorted(times), statistics.median(times)
    return StepTime(
        p50=quantile(ordered, 0.5),
        p95=quantile(ordered, 0.95),
        p99=quantile(ordered, 0.99),
        mean=math.fsum(times) / len(times),
        steps=len(times),
        stalls=sum(t > STALL * median for t in times),
        series=thin(list(zip(steps, times, strict=True))),
    )


def _data_wait(waits: list[list[float | None]], seconds: float) -> Fact[float]:
    waited = [max(wait for wait in row if wait is not None) for row in waits if None not in row]
    if len(waited) < len(waits):
        return performance.DATA_WAIT.unknown("the batches do not come through `trial.batches(loader)`", "ranks")
    return performance.DATA_WAIT.seen(math.fsum(waited) / seconds, "step events, slowest rank of each step")


def _by_probe(run: Run) -> Fact[SteadyWindow]:
    """The steady window by the probes' clocks: the shortest and longest time that samples at its edges allow."""
    if why := run.incomplete(run.ranks, "rank") or run.incomplete(run.probes, "probe"):
        return performance.WINDOW_BY_PROBE.unknown(why, "host probes")
    first, last = run.plan.steady_from, run.last_step
    spans = [_span(s, first, last) for s in run.ranks]
    seen = [_seen(s.path.rpartition("/")[2].removesuffix(".jsonl"), run.probes, first, last) for s in run.ranks]
    bounds = [b for b in seen if b]
    if len(bounds) < len(spans) or not all(spans):
        why = "no sample before and after the window for every rank"
        return performance.WINDOW_BY_PROBE.unknown(why, "host probes")
    value = SteadyWindow(
        ranks_s=max(spans),
        at_least_s=max(low for low, _ in bounds),
        at_most_s=min(high for _, high in bounds),
        slack_s=run.tolerances.clock_slack_s or 0.0,
    )
    return performance.WINDOW_BY_PROBE.seen(value, "last steps in the ranks' files, by the probes' clocks")


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


def _memory(run: Run) -> Fact[Memory]:
    last = [e for s in run.probes if (e := s.last(HostSample))]
    if not last:
        return performance.PEAK_MEMORY.unknown("no probe sampled memory", "host probes")
    peaks = {process: size for e in last for process, size in e.peaks_bytes.items()}
    total = max((int(e.resident_bytes) for s in run.probes for e in s.all(HostSample)), default=0)
    value = Memory(by_process=dict(sorted(peaks.items())), resident_at_once=str(total))
    return performance.PEAK_MEMORY.seen(value, "host probes")


def _checkpoints(run: Run) -> Fact[list[tuple[int, float]]]:
    saved = [(e.step, e.duration_s) for s in run.ranks[:1] for e in s.all(CheckpointSaved)]
    if saved:
        return performance.CHECKPOINT_TIME.seen(saved, "rank 0")
    return performance.CHECKPOINT_TIME.unknown("no checkpoint was saved", "rank 0")
