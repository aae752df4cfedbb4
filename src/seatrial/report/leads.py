"""One line for each well-known fact: what its value says. A value of another shape gets none."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from seatrial.evidence.facts import environment, execution, learning, outside, performance, recovery, transport
from seatrial.evidence.facts.environment import Additions, HostPackages
from seatrial.evidence.facts.execution import (
    DataOrder,
    Ended,
    ExecutedSteps,
    GradientRollCalls,
    Replicas,
    RollCalls,
    RosterMember,
    Schedule,
    StorageUse,
    Updates,
)
from seatrial.evidence.facts.learning import Overlap, PairedChange, TrainingData
from seatrial.evidence.facts.outside import Batches, Ranks, TrainRun
from seatrial.evidence.facts.performance import Clocks, Memory, StepTime, Throughput
from seatrial.evidence.facts.recovery import Checkpoint, Reload, ReloadEnded
from seatrial.evidence.facts.transport import Bytes, InterfaceBytes, Interfaces, PathFinding, RankHosts
from seatrial.report import tasks
from seatrial.report.line import Line, line
from seatrial.report.reading import clipped, figure, number, percent, seconds, size


def lead(fact: str, value: Any, unit: str) -> str:
    """The line on a value as a record holds it; empty where none is known or the value has another shape."""
    known = LEADS.get(fact) or tasks.line(fact)
    if known is None:
        found = number(value) if not isinstance(value, str) else None
        return f"{figure(found)} {clipped(unit, 60)}".strip() if found is not None and unit else ""
    try:
        read = known.type.read(value)
    except ValueError:
        return ""
    return clipped(known.text(read), 400)


def says_all(fact: str, value: Any) -> bool:
    """Whether the line that a value has leaves nothing of it to show."""
    if fact == execution.ROLL_CALLS.id:
        return not execution.ROLL_CALLS.read(value).wrong
    if fact == execution.REPLICAS.id:
        return not execution.REPLICAS.read(value).differing_steps
    return fact in (execution.STATUS.id, recovery.STATUS.id, execution.UPDATES.id)


def count(found: float, noun: str) -> str:
    """`1 step`, `20 steps`, `3 processes`."""
    plural = noun + ("es" if noun.endswith(("s", "ch")) else "s")
    return f"{figure(found)} {noun if found == 1 else plural}"


def change(before: float | None, after: float | None) -> str:
    """`7.80 → 4.72`; empty unless both are known and finite."""
    both = before is not None and after is not None and math.isfinite(after - before)
    return f"{before:.2f} → {after:.2f}" if both else ""


def _same(low: float, high: float) -> str:
    return figure(low) if low == high else f"{figure(low)} to {figure(high)}"


def _status(value: Ended | ReloadEnded) -> str:
    return f"{value.status}: {value.cause}" if value.cause else value.status


def _executed(value: ExecutedSteps) -> str:
    steps = _same(value.min, value.max)
    return f"{steps} steps on each of {count(len(value.by_rank), 'rank')}, {count(value.tokens, 'token')}"


def _none_or(noun: str) -> Callable[[Sequence[Any]], str]:
    def made(value: Sequence[Any]) -> str:
        return count(len(value), noun) if value else "none"

    return made


def _schedule(value: Schedule) -> str:
    off = len(value.off_schedule)
    return f"{count(off, 'step')} off the schedule" if off else "every step on the schedule"


def _data_order(value: DataOrder) -> str:
    shown = f"{figure(value.matching)} of {count(value.steps, 'step')} as planned"
    first = value.first_difference
    return shown if first is None else f"{shown}, first difference at step {figure(first)}"


def _roll_calls(value: RollCalls | GradientRollCalls) -> str:
    if value.planned is None:
        return ""
    shown = f"{figure(value.complete)} of {figure(value.planned)} complete"
    return f"{shown}, {len(value.wrong)} wrong" if value.wrong else shown


def _gradients(value: GradientRollCalls) -> str:
    if value.worst_deviation is None or value.tolerance is None:  # a script's: fitted, not compared
        return _roll_calls(value)
    worst, limit = figure(value.worst_deviation), figure(value.tolerance)
    return f"{_roll_calls(value)}, worst deviation {worst} (tolerance {limit})"


def _updates(value: Updates) -> str:
    each = " on each rank" if value.tensors is None else f" in each of {count(value.tensors, 'tensor')}"
    return f"{_same(value.min, value.max)} updates{each}"


def _train_runs(value: list[TrainRun]) -> str:
    if not value:
        return ""
    last = value[-1]
    where = f"{count(last.ranks, 'rank')} on {count(last.hosts, 'host')}"
    return f"{count(len(value), 'attempt')}, the last {clipped(last.status, 20)} with {where}"


def _ranks(value: Ranks) -> str:
    return f"{value.asked} asked for, {value.told} by Ray Train, {value.watched} watched by probes"


def _batches(value: Batches) -> str:
    shown = f"{count(value.distinct, 'batch')} on {count(len(value.by_rank), 'rank')}"
    shared = f", {count(len(value.shared), 'pair')} of ranks with the same ones" if value.shared else ""
    return shown + shared + (", a stream that began again" if value.began_again else "")


def _replicas(value: Replicas) -> str:
    differing = len(value.differing_steps)
    shown = count(value.compared, "comparison")
    return f"{shown}, {count(differing, 'step')} with a difference" if differing else f"{shown}, all equal"


def _roster(value: list[RosterMember]) -> str:
    closed = sum(member.ended == "closed" for member in value)
    return f"{count(len(value), 'process')}, {closed} ended normally"


def _overlap(value: Overlap) -> str:
    windows = count(len(value.suspect_windows), "window")
    share, limit = percent(value.share), percent(value.limit)
    return f"{windows} stand in the training data: {share} (limit {limit}), by {figure(value.ngram)}-grams"


def _paired(value: PairedChange) -> str:
    mean, low, high = (f"{nats:+.3f}" for nats in (value.mean, value.low, value.high))
    return f"{mean} nats/token, 95 % interval {low} to {high}, over {count(value.windows, 'window')}"


def _curve(value: list[tuple[int, float | None]]) -> str:
    ends = [(step, loss) for step, loss in (*value[:1], *value[-1:]) if loss is not None]
    if len(ends) < 2:
        return ""
    first, last = (f"{loss:.3f} nats/token at step {figure(step)}" for step, loss in ends)
    return f"{first}, {last}"


def _throughput(value: Throughput) -> str:
    window = f"{count(value.tokens, 'token')} in {seconds(value.seconds)}"
    return f"{value.tokens_per_second:,.0f} tokens/s: {window}, {count(value.steps, 'step')}"


def _step_time(value: StepTime) -> str:
    return ", ".join(f"{p} {seconds(taken)}" for p, taken in percentiles(value))


def percentiles(value: StepTime) -> tuple[tuple[str, float], ...]:
    """`(name, seconds)` of each percentile of the step times."""
    return ("p50", value.p50), ("p95", value.p95), ("p99", value.p99)


def _clocks(value: Clocks) -> str:
    return f"ranks differ by {percent(value.relative_spread)} (tolerance {percent(value.tolerance)})"


def peaks(value: Memory) -> list[tuple[str, float]]:
    """`(process, bytes)` of every process whose peak is a number."""
    return [(name, found) for name, peak in value.by_process.items() if (found := number(peak)) is not None]


def _memory(value: Memory) -> str:
    found = peaks(value)
    if not found:
        return ""
    return f"{size(max(n for _, n in found))} in the largest process, {_bytes(value.resident_at_once)} at once"


def _bytes(counted: str) -> str:
    """A decimal string of bytes; anything else as it is."""
    found = number(counted)
    return clipped(counted, 40) if found is None else size(found)


def _checkpoint_time(value: list[tuple[int, float]]) -> str:
    if not value:
        return ""
    longest = max(taken for _, taken in value)
    return f"{count(len(value), 'checkpoint')}, the slowest in {seconds(longest)}"


def _checkpoints(value: list[Checkpoint]) -> str:
    steps = [checkpoint.step for checkpoint in value if checkpoint.step is not None]
    if not steps or len(steps) < len(value):
        return ""
    return f"{count(len(value), 'checkpoint')}, last at step {figure(max(steps))}"


def _reload(value: Reload) -> str:
    equal = f"{figure(value.equal)} of {count(value.expected, 'item')} equal"
    processes = "new processes" if value.new_processes else "the same processes"
    return f"step {figure(value.step)}: {equal}, in {processes}"


def _hosts(value: HostPackages) -> str:
    return f"{count(value.hosts, 'host')}, {'same' if value.agree else 'different'} packages"


def _runtime(value: Additions) -> str:
    return f"{count(len(value.delta), 'package')} changed" if value.same_everywhere else "different from host to host"


def _storage(value: StorageUse) -> str:
    return f"{figure(value.ok)} of {count(value.expected, 'process')} could use it"


def _data(value: TrainingData) -> str:
    if value.train_tokens is None or value.heldout_windows is None:
        return ""
    dropped = f", {count(len(value.dropped), 'file')} dropped" if value.dropped else ""
    train, windows = count(value.train_tokens, "train token"), count(value.heldout_windows, "held-out window")
    return f"{value.source}: {train}, {windows}{dropped}"


def _path(value: PathFinding) -> str:
    return "; ".join([_path_line(value), *(clipped(why, 200) for why in value.reasons)])


def _path_line(value: PathFinding) -> str:
    """`tcp over eth0, corroborated`, for the finding on one path."""
    words = {True: "used", False: "not used", None: "not known"}
    shown = clipped(value.path, 60) if isinstance(value.path, str) else words[value.path]
    over = ", ".join(clipped(name, 40) for name in value.interfaces or ())
    return ", ".join([shown + (f" over {over}" if over else ""), clipped(value.word, 40)])


def _ranks_by_host(value: RankHosts) -> str:
    hosts, ranks = len(value.by_host), sum(len(ranks) for ranks in value.by_host.values())
    return f"{count(ranks, 'rank')} on {count(hosts, 'host')}, over {clipped(value.backend, 40)}"


def _wire(value: Bytes) -> str:
    """The rows in words where they are few, else how many are within their band."""
    rows = value.by_interface
    if len(rows) > 4:
        return f"{sum(row.word == 'within' for row in rows)} of {count(len(rows), 'interface')} within the band"
    hosts = {row.host for row in rows}
    named = {host: f" of {clipped(host.partition('/')[0], 12)}" if len(hosts) > 1 else "" for host in hosts}
    return "; ".join(f"{row.interface}{named[row.host]}: {_against(row)}" for row in rows)


def _against(row: InterfaceBytes) -> str:
    if row.tx_bytes is None:
        return clipped(row.problem or row.word, 160)
    sent, least, most = map(_bytes, (row.tx_bytes, row.at_least_bytes, row.at_most_bytes))
    return f"{sent} sent in {count(row.steps, 'step')}, {row.word} {least} to {most}"


def _connections(value: Interfaces) -> str:
    used = sorted({*value.internode, *value.intranode})
    lacking = len(value.without_connection)
    shown = f"{count(value.pairs, 'pair')} over {', '.join(used) or 'no interface'}"
    return f"{shown}, {lacking} without a connection" if lacking else shown


LEADS: dict[str, Line] = {
    known.type.id: known
    for known in (
        line(execution.STATUS, _status),
        line(execution.PLANNED_STEPS, lambda steps: count(steps, "step")),
        line(execution.ATTEMPTS, lambda attempts: count(attempts, "attempt")),
        line(execution.EXECUTED_STEPS, _executed),
        line(execution.UPDATES, _updates),
        line(outside.TRAIN_RUNS, _train_runs),
        line(outside.RANKS, _ranks),
        line(outside.BATCHES, _batches),
        line(outside.SCRIPT_NAME, clipped),
        line(transport.BETWEEN, lambda value: f"{count(value.pairs, 'connection')} between ranks"),
        line(execution.PARAMETERS_WITHOUT_GRADIENT, _none_or("parameter")),
        line(execution.PARAMETERS_UNMOVED, _none_or("parameter")),
        line(execution.FAILURES, _none_or("failure")),
        line(execution.LEFTOVER_PROCESSES, _none_or("leftover")),
        line(execution.REFUSED_FILES, _none_or("file")),
        line(execution.SCHEDULE, _schedule),
        line(execution.DATA_ORDER, _data_order),
        line(execution.ROLL_CALLS, _roll_calls),
        line(execution.GRADIENT_ROLL_CALLS, _gradients),
        line(execution.REPLICAS, _replicas),
        line(execution.ROSTER, _roster),
        line(execution.STORAGE, _storage),
        line(learning.DATA, _data),
        line(learning.OVERLAP, _overlap),
        line(learning.PAIRED_CHANGE, _paired),
        line(learning.TRAIN_LOSS, _curve),
        line(performance.TOKENS_PER_SECOND, _throughput),
        line(performance.STEP_TIME, _step_time),
        line(performance.DATA_WAIT, lambda share: f"{percent(share)} of step time"),
        line(performance.CLOCKS, _clocks),
        line(performance.PEAK_MEMORY, _memory),
        line(performance.CHECKPOINT_TIME, _checkpoint_time),
        *(line(path, _path) for path in transport.PATH.values()),
        line(transport.HOSTS, _ranks_by_host),
        line(transport.INTERFACES, _connections),
        line(transport.BYTES, _wire),
        line(transport.BUSBW, lambda value: f"at least {figure(value.at_least_gb_per_s)} GB/s"),
        line(recovery.STATUS, _status),
        line(recovery.CHECKPOINTS, _checkpoints),
        line(recovery.RELOAD, _reload),
        line(environment.HOSTS, _hosts),
        line(environment.RUNTIME_ENV, _runtime),
    )
}
