"""One line for each well-known fact: what its value says. A value of another shape gets none."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from seatrial.report import tasks
from seatrial.report.reading import clipped, figure, number, percent, seconds, size


def lead(fact: str, value: Any, unit: str) -> str:
    """The line; empty where none is known or the value is not what it is known to be."""
    make = LEADS.get(fact) or tasks.line(fact)
    if make is None:
        found = number(value) if not isinstance(value, str) else None
        return f"{figure(found)} {clipped(unit, 60)}".strip() if found is not None and unit else ""
    try:
        return clipped(make(value), 400)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError):
        return ""


def says_all(fact: str, value: Any) -> bool:
    """Whether the line of a well-known fact leaves nothing of its value to show."""
    return fact in ("execution.status", "recovery.status", "execution.updates") or (
        fact in ("execution.roll_calls", "execution.replicas")
        and not value.get("wrong")
        and not value.get("differing_steps")
    )


def count(value: Any, noun: str) -> str:
    """`1 step`, `20 steps`, `3 processes`. Raises ValueError for what is no number."""
    found = _number(value)
    plural = noun + ("es" if noun.endswith(("s", "ch")) else "s")
    return f"{figure(found)} {noun if found == 1 else plural}"


def _number(value: Any) -> float:
    found = number(value)
    if found is None or isinstance(value, str):
        raise ValueError("not a number")
    return found


def _same(low: Any, high: Any) -> str:
    return figure(_number(low)) if low == high else f"{figure(_number(low))} to {figure(_number(high))}"


def _status(value: Any) -> str:
    return f"{value['status']}: {value['cause']}" if value["cause"] else str(value["status"])


def _executed(value: Any) -> str:
    steps = _same(value["min"], value["max"])
    return f"{steps} steps on each of {count(len(value['by_rank']), 'rank')}, {count(value['tokens'], 'token')}"


def _none_or(noun: str) -> Callable[[Any], str]:
    def made(value: list[Any]) -> str:
        return count(len(value), noun) if value else "none"

    return made


def _schedule(value: Any) -> str:
    off = len(value["off_schedule"])
    return f"{count(off, 'step')} off the schedule" if off else "every step on the schedule"


def _data_order(value: Any) -> str:
    shown = f"{figure(_number(value['matching']))} of {count(value['steps'], 'step')} as planned"
    first = value["first_difference"]
    return shown if first is None else f"{shown}, first difference at step {figure(_number(first))}"


def _complete(value: Any) -> str:
    wrong = len(value["wrong"])
    shown = f"{figure(_number(value['complete']))} of {figure(_number(value['planned']))} complete"
    return f"{shown}, {wrong} wrong" if wrong else shown


def _gradients(value: Any) -> str:
    if "worst_deviation" not in value:  # a script's: fitted, not compared
        return _complete(value)
    worst, limit = figure(_number(value["worst_deviation"])), figure(_number(value["tolerance"]))
    return f"{_complete(value)}, worst deviation {worst} (tolerance {limit})"


def _updates(value: Any) -> str:
    each = f" in each of {count(value['tensors'], 'tensor')}" if "tensors" in value else " on each rank"
    return f"{_same(value['min'], value['max'])} updates{each}"


def _train_runs(value: list[Any]) -> str:
    last = value[-1]
    where = f"{count(last['ranks'], 'rank')} on {count(last['hosts'], 'host')}"
    return f"{count(len(value), 'attempt')}, the last {clipped(last['status'], 20)} with {where}"


def _batches(value: Any) -> str:
    shown = f"{count(value['distinct'], 'batch')} on {count(len(value['by_rank']), 'rank')}"
    shared = f", {count(len(value['shared']), 'pair')} of ranks with the same ones" if value["shared"] else ""
    return shown + shared + (", a stream that began again" if value["began_again"] else "")


def _replicas(value: Any) -> str:
    differing = len(value["differing_steps"])
    shown = count(value["compared"], "comparison")
    return f"{shown}, {count(differing, 'step')} with a difference" if differing else f"{shown}, all equal"


def _roster(value: list[Any]) -> str:
    closed = sum(member["ended"] == "closed" for member in value)
    return f"{count(len(value), 'process')}, {closed} ended normally"


def _overlap(value: Any) -> str:
    windows, grams = len(value["suspect_windows"]), figure(_number(value["ngram"]))
    share, limit = percent(_number(value["share"])), percent(_number(value["limit"]))
    return f"{count(windows, 'window')} stand in the training data: {share} (limit {limit}), by {grams}-grams"


def _paired(value: Any) -> str:
    mean, low, high = (f"{_number(value[k]):+.3f}" for k in ("mean", "low", "high"))
    return f"{mean} nats/token, 95 % interval {low} to {high}, over {count(value['windows'], 'window')}"


def _curve(value: list[Any]) -> str:
    first, last = (
        f"{_number(loss):.3f} nats/token at step {figure(_number(step))}" for step, loss in (value[0], value[-1])
    )
    return f"{first}, {last}"


def _throughput(value: Any) -> str:
    window = f"{count(value['tokens'], 'token')} in {seconds(_number(value['seconds']))}"
    return f"{_number(value['tokens_per_second']):,.0f} tokens/s: {window}, {count(value['steps'], 'step')}"


def _step_time(value: Any) -> str:
    return ", ".join(f"{p} {seconds(_number(value[p]))}" for p in ("p50", "p95", "p99"))


def _clocks(value: Any) -> str:
    spread, limit = (percent(_number(value[key])) for key in ("relative_spread", "tolerance"))
    return f"ranks differ by {spread} (tolerance {limit})"


def _memory(value: Any) -> str:
    largest = max(v for v in map(number, value["by_process"].values()) if v is not None)
    return f"{size(largest)} in the largest process, {size(float(value['resident_at_once']))} at once"


def _checkpoint_time(value: list[Any]) -> str:
    longest = max(_number(taken) for _, taken in value)
    return f"{count(len(value), 'checkpoint')}, the slowest in {seconds(longest)}"


def _checkpoints(value: list[Any]) -> str:
    return f"{count(len(value), 'checkpoint')}, last at step {figure(max(_number(c['step']) for c in value))}"


def _reload(value: Any) -> str:
    equal = f"{figure(_number(value['equal']))} of {count(value['expected'], 'item')} equal"
    processes = "new processes" if value["new_processes"] is True else "the same processes"
    return f"step {figure(_number(value['step']))}: {equal}, in {processes}"


def _hosts(value: Any) -> str:
    agree = "same packages" if value["agree"] is True else "different packages"
    return f"{count(value['hosts'], 'host')}, {agree}"


def _runtime(value: Any) -> str:
    same = value["same_everywhere"] is True
    return f"{count(len(value['delta']), 'package')} changed" if same else "different from host to host"


def _storage(value: Any) -> str:
    return f"{figure(_number(value['ok']))} of {count(value['expected'], 'process')} could use it"


def _data(value: Any) -> str:
    dropped = f", {count(len(value['dropped']), 'file')} dropped" if value["dropped"] else ""
    train, windows = count(value["train_tokens"], "train token"), count(value["heldout_windows"], "held-out window")
    return f"{value['source']}: {train}, {windows}{dropped}"


def _path_line(value: Any) -> str:
    """`tcp over eth0, corroborated`, for the finding on one path."""
    path = value["path"]
    words = {True: "used", False: "not used", None: "not known"}
    shown = words[path] if path is None or isinstance(path, bool) else clipped(path, 60)
    over = ", ".join(clipped(name, 40) for name in value.get("interfaces", []))
    return ", ".join([shown + (f" over {over}" if over else ""), clipped(value["word"], 40)])


def _path(value: Any) -> str:
    return "; ".join([_path_line(value), *(clipped(why, 200) for why in value["reasons"])])


def _ranks_by_host(value: Any) -> str:
    hosts, ranks = len(value["by_host"]), sum(len(ranks) for ranks in value["by_host"].values())
    return f"{count(ranks, 'rank')} on {count(hosts, 'host')}, over {clipped(value['backend'], 40)}"


def _wire(value: Any) -> str:
    """The rows in words where they are few, else how many are within their band."""
    rows = value["by_interface"]
    if len(rows) > 4:
        return f"{sum(row['word'] == 'within' for row in rows)} of {count(len(rows), 'interface')} within the band"
    hosts = {row["host"] for row in rows}
    named = {host: f" of {clipped(host.partition('/')[0], 12)}" if len(hosts) > 1 else "" for host in hosts}
    return "; ".join(f"{row['interface']}{named[row['host']]}: {_against(row)}" for row in rows)


def _against(row: Any) -> str:
    if "tx_bytes" not in row:
        return clipped(row["problem"], 160)
    sent, least, most = (size(float(row[k])) for k in ("tx_bytes", "at_least_bytes", "at_most_bytes"))
    return f"{sent} sent in {count(row['steps'], 'step')}, {row['word']} {least} to {most}"


def _connections(value: Any) -> str:
    used = sorted({*value["internode"], *value["intranode"]})
    lacking = len(value["without_connection"])
    shown = f"{count(value['pairs'], 'pair')} over {', '.join(used) or 'no interface'}"
    return f"{shown}, {lacking} without a connection" if lacking else shown


LEADS: dict[str, Callable[[Any], str]] = {
    "execution.status": _status,
    "execution.planned_steps": lambda v: count(v, "step"),
    "execution.attempts": lambda v: count(v, "attempt"),
    "execution.executed_steps": _executed,
    "execution.updates": _updates,
    "execution.train_runs": _train_runs,
    "execution.ranks": lambda v: f"{v['asked']} asked for, {v['told']} by Ray Train, {v['watched']} watched by probes",
    "execution.batches": _batches,
    "execution.script": clipped,
    "transport.between": lambda v: f"{count(v['pairs'], 'connection')} between ranks",
    "execution.parameters_without_gradient": _none_or("parameter"),
    "execution.parameters_unmoved": _none_or("parameter"),
    "execution.failures": _none_or("failure"),
    "execution.leftover_processes": _none_or("leftover"),
    "execution.refused_files": _none_or("file"),
    "execution.schedule": _schedule,
    "execution.data_order": _data_order,
    "execution.roll_calls": _complete,
    "execution.gradient_roll_calls": _gradients,
    "execution.replicas": _replicas,
    "execution.roster": _roster,
    "execution.storage": _storage,
    "learning.data": _data,
    "learning.overlap": _overlap,
    "learning.heldout.paired_change": _paired,
    "learning.train_loss": _curve,
    "performance.tokens_per_second": _throughput,
    "performance.step_time": _step_time,
    "performance.data_wait": lambda v: f"{percent(_number(v))} of step time",
    "performance.clocks": _clocks,
    "performance.peak_memory": _memory,
    "performance.checkpoint_time": _checkpoint_time,
    **{f"transport.{question}.path": _path for question in ("internode", "intranode", "gpudirect")},
    "transport.hosts": _ranks_by_host,
    "transport.interfaces": _connections,
    "transport.bytes": _wire,
    "transport.busbw": lambda v: f"at least {figure(_number(v['at_least_gb_per_s']))} GB/s",
    "recovery.status": _status,
    "recovery.checkpoints": _checkpoints,
    "recovery.reload": _reload,
    "environment.hosts": _hosts,
    "environment.runtime_env": _runtime,
}


def change(before: Any, after: Any) -> str:
    """`7.80 → 4.72`; empty unless both are numbers."""
    a, b = number(before), number(after)
    return f"{a:.2f} → {b:.2f}" if a is not None and b is not None and math.isfinite(a - b) else ""
