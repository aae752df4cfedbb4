"""Execution: planned, executed and updated steps from three different sources, and who took part."""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate, zip_longest
from typing import Any

from seatrial.events.schema import (
    CheckpointRemoved,
    DataAudited,
    DataOpened,
    GradientRollCall,
    Leftover,
    NonFinite,
    Parameters,
    Reloaded,
    RollCall,
    Step,
    StorageCanary,
)
from seatrial.evidence import script
from seatrial.evidence.facts import Fact, unknown
from seatrial.evidence.gather import Run
from seatrial.plan.order import chain, indices, step_digest
from seatrial.plan.schedule import learning_rate


def facts(run: Run) -> dict[str, Fact]:
    """All facts of this kind."""
    if run.script:
        return {fact.id: fact for fact in _of_a_script(run)}
    found = [
        *_status(run),
        _executed(run),
        *_updates(run),
        _moved(run),
        _rates(run),
        _data(run),
        _roll_calls(run),
        _gradients(run),
        _replicas(run),
        _storage(run),
    ]
    return {fact.id: fact for fact in found}


def _of_a_script(run: Run) -> list[Fact]:
    return [
        Fact("execution.script", value=run.script, witness="trial"),
        *(fact for fact in _status(run) if fact.id != "execution.attempts"),
        *script.train_runs(run),
        script.crew(run),
        script.told(run),
        _executed(run),
        script.updates(run),
        script.moved(run),
        script.samples(run),
        script.roll_calls(run),
        script.gradients(run),
        script.replicas(run),
    ]


def _status(run: Run) -> list[Fact]:
    plan, ended = run.plan, run.phase("train")
    lost = run.driver.why_incomplete() or "the driver wrote no plan"
    found = [
        unknown("execution.planned_steps", "the trial does not say how many: workload.steps", "trial")
        if plan and plan["steps"] is None
        else Fact("execution.planned_steps", value=plan["steps"], unit="steps", witness="trial")
        if plan
        else unknown("execution.planned_steps", lost),
        Fact("execution.status", value={"status": ended.status, "cause": ended.cause}, witness="driver")
        if ended
        else unknown("execution.status", lost, "driver"),
        Fact("execution.attempts", value=len({s.header.attempt for s in run.ranks if s.header}), witness="event files"),
        Fact("execution.roster", value=_roster(run), witness="event files"),
    ]
    if failures := run.failures():
        found.append(
            Fact(
                "execution.failures",
                value=[{"process": path, "error": error} for path, error in failures],
                witness="the processes",
            )
        )
    if run.refused:
        found.append(
            Fact(
                "execution.refused_files",
                value=list(run.refused),
                witness="reader",
                reason="not on the roster of this run",
            )
        )
    if leftover := [p for e in run.driver.all(Leftover) for p in e.processes]:
        found.append(Fact("execution.leftover_processes", value=leftover, witness="driver"))
    return found


def _roster(run: Run) -> list[dict[str, Any]]:
    """Every process that must have left a file, also those that did not, and the probes that did."""
    members: list[dict[str, Any]] = []
    for role, streams in (("rank", run.ranks), ("reload", run.reloads), ("probe", run.probes)):
        for position, stream in enumerate(streams):
            member = {
                "role": role,
                "rank": None if role == "probe" else position,
                "file": stream.path,
                "ended": stream.ended,
            }
            if header := stream.header:
                member |= {"host": header.host, "machine": header.machine, "pid": header.pid, "attempt": header.attempt}
            members.append(member)
    return members


def _executed(run: Run) -> Fact:
    name = "execution.executed_steps"
    if why := run.incomplete(run.ranks, "rank"):
        return unknown(name, why, "ranks")
    counts = {str(i): len({e.step for e in s.all(Step)}) for i, s in enumerate(run.ranks)}
    tokens = sum(e.tokens for s in run.ranks for e in s.all(Step))
    return Fact(
        name,
        value={"by_rank": counts, "min": min(counts.values()), "max": max(counts.values()), "tokens": tokens},
        unit="steps",
        witness="step events of each rank",
    )


def _updates(run: Run) -> list[Fact]:
    names = ("execution.updates", "execution.parameters_without_gradient")
    if why := run.incomplete(run.reloads, "reload"):
        return [unknown(n, why, "reload") for n in names]
    reloads = [e for s in run.reloads if (e := s.last(Reloaded))]
    if len(reloads) < len(run.reloads) or any(e.missing for e in reloads) or not reloads[0].updates:
        return [unknown(n, "the final checkpoint was not reloaded", "reload") for n in names]
    counts = [n for e in reloads for n in e.updates.values()]
    dead = sorted(set.intersection(*(set(e.dead) for e in reloads)))
    value = {"min": min(counts), "max": max(counts), "tensors": len(reloads[0].updates)}
    return [
        Fact(names[0], value=value, unit="updates", witness="optimizer state `step` of the reloaded checkpoint"),
        Fact(names[1], value=dead, witness="second moments of the reloaded checkpoint"),
    ]


def _moved(run: Run) -> Fact:
    """Trainable parameters whose shards are the same bytes after the last step as before the first, on every rank."""
    name = "execution.parameters_unmoved"
    if why := run.incomplete(run.ranks, "rank"):
        return unknown(name, why, "ranks")
    still: list[set[str]] = []
    for stream in run.ranks:
        seen = {e.step: e.digests for e in stream.all(Parameters)}
        first, last = seen.get(0), seen.get(run.plan.get("steps", -1))
        if first is None or last is None:
            return unknown(name, f"{stream.path} lacks the digests before or after", "ranks")
        still.append({n for n, value in first.items() if last.get(n) == value})
    return Fact(name, value=sorted(set.intersection(*still)), witness="parameter digests of each rank")


def _rates(run: Run) -> Fact:
    """Steps whose learning rate was not the schedule's."""
    name = "execution.schedule"
    if why := run.incomplete(run.ranks, "rank"):
        return unknown(name, why, "ranks")
    asked = run.plan.get("schedule")
    if not asked:
        return unknown(name, "the plan has no schedule", "driver")
    wrong = sorted(
        {
            e.step
            for s in run.ranks
            for e in s.all(Step)
            if e.lr is None or abs(e.lr - learning_rate(e.step, **asked)) > 1e-12
        }
    )
    return Fact(name, value={"off_schedule": wrong, "peak": asked["peak"]}, witness="step events against the schedule")


def _data(run: Run) -> Fact:
    """Samples given to forward against the planned ones, which the reload recomputed from the source."""
    name, witness = "execution.data_order", "sample digests of ranks against the reload's recomputation"
    if why := run.incomplete(run.ranks, "rank") or run.incomplete(run.reloads, "reload"):
        return unknown(name, why, "ranks, reload")
    audits = [e for s in run.reloads for e in s.all(DataAudited)]
    planned = [digest for audit in audits for digest in audit.steps]
    if not planned or [a.first for a in audits] != list(accumulate([1, *(len(a.steps) for a in audits[:-1])])):
        return unknown(name, "no process recomputed the planned data", "reload")
    value: dict[str, Any] = {"steps": len(planned), "matching": 0, "first_difference": 1, "misplaced": _misplaced(run)}
    manifests = {e.manifest for s in run.ranks if (e := s.last(DataOpened))} | {a.manifest for a in audits}
    if len(manifests) > 1:
        return Fact(
            name, value=value, unit="steps", witness=witness, reason="the data manifests of ranks and reload differ"
        )
    samples: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for stream in run.ranks:
        for event in stream.all(Step):
            samples[event.step] += event.samples
    executed = [step_digest(samples[n]) for n in sorted(samples)]
    divided = _wrongly_divided(run, [n for audit in audits for n in audit.counted])
    pairs = enumerate(zip_longest(executed, planned), start=1)
    different = [n for n, (a, b) in pairs if a != b or n in divided]
    value |= {
        "wrongly_divided": sorted(divided)[:20],
        "matching": len(planned) - len(different),
        "first_difference": different[0] if different else None,
        "executed": chain(executed),
        "planned": chain(planned),
    }
    return Fact(name, value=value, unit="steps", witness=witness)


def _wrongly_divided(run: Run, planned: list[int]) -> set[int]:
    """Steps in which a rank's loss was not the mean over the targets of all ranks that count, as the reload counts."""
    seen: dict[int, int] = defaultdict(int)
    wrong: set[int] = set()
    for stream in run.ranks:
        for event in stream.all(Step):
            seen[event.step] += event.counted or 0
            if event.divisor != (planned[event.step - 1] if event.step <= len(planned) else None):
                wrong.add(event.step)
    return wrong | {n for n, count in enumerate(planned, start=1) if seen[n] != count}


def _misplaced(run: Run) -> list[dict[str, int]]:
    """The first steps in which a rank read other indices than its own part of the batch."""
    plan, world = run.plan, len(run.ranks)
    batch = {"world_size": world, "micro_batch": plan["micro_batch"], "global_batch": plan["global_batch"]}
    wrong: list[dict[str, int]] = []
    for rank, stream in enumerate(run.ranks):
        for event in stream.all(Step):
            own = [i for micro in range(plan["micro_batches"]) for i in indices(event.step, rank, micro, **batch)]
            if [index for index, _ in event.samples] != own:
                wrong.append({"rank": rank, "step": event.step})
                break
    return wrong


def _roll_calls(run: Run) -> Fact:
    name = "execution.roll_calls"
    if why := run.incomplete(run.ranks, "rank"):
        return unknown(name, why, "ranks")
    ones = [1] * len(run.ranks)
    by_rank = [{(e.at, e.step) for e in s.all(RollCall) if e.counts == ones} for s in run.ranks]
    wrong = [
        {"rank": rank, "at": e.at, "step": e.step, "counts": e.counts}
        for rank, s in enumerate(run.ranks)
        for e in s.all(RollCall)
        if e.counts != ones
    ]
    value = {
        "complete": len(set.intersection(*by_rank)),
        "planned": run.plan.get("roll_calls"),
        "wrong": wrong[:20],
    }
    return Fact(name, value=value, witness="all-reduced one-hot vectors, by each rank")


def _gradients(run: Run) -> Fact:
    """Shares that are zero or do not add up are wrong; what is not finite, or too coarse to tell, is unclear."""
    name = "execution.gradient_roll_calls"
    if why := run.incomplete(run.ranks, "rank"):
        return unknown(name, why, "ranks")
    plan, planned = run.plan, set(run.plan.get("gradient_roll_calls", []))
    limit = plan.get("tolerances", {}).get(f"gradient_deviation_{plan.get('reduce_dtype')}")
    if limit is None:
        return unknown(name, "the plan has no tolerance for it", "driver")
    # One micro-batch of one rank among all of them must be more than what the tolerance forgives.
    resolved = min(limit, 0.5 / (len(run.ranks) * plan["micro_batches"]))
    value: dict[str, Any] = {
        "planned": len(planned),
        "tolerance": limit,
        "resolved": resolved,
        "wrong": [],
        "unclear": [],
    }
    good: list[set[int]] = []
    worst = 0.0
    for rank, stream in enumerate(run.ranks):
        mine: set[int] = set()
        for event in stream.all(GradientRollCall):
            kind, problem = _gradient_problem(event, limit, resolved)
            if kind:
                value[kind].append({"rank": rank, "step": event.step, "problem": problem})
            else:
                mine.add(event.step)
                worst = max(worst, float(event.deviation))  # type: ignore[arg-type]
        good.append(mine & planned)
    value |= {"complete": len(set.intersection(*good)), "worst_deviation": worst}
    value["wrong"], value["unclear"] = value["wrong"][:20], value["unclear"][:20]
    return Fact(name, value=value, witness="unreduced gradients, summed apart, against the sharded backward")


def _gradient_problem(event: GradientRollCall, limit: float, resolved: float) -> tuple[str, str]:
    if isinstance(event.share, NonFinite) or isinstance(event.deviation, NonFinite):
        return "unclear", "the gradient is not finite"
    if event.deviation is None:
        return "unclear", event.unclear or "nothing was compared"
    if event.share == 0:
        return "wrong", "this rank's share is zero"
    said = f"the reduced gradient is off by {event.deviation:.1e} of its largest element"
    if event.deviation > limit:
        return "wrong", said
    return ("unclear", said) if event.deviation > resolved else ("", "")


def _replicas(run: Run) -> Fact:
    """Ranks that hold the same shard must hold the same bytes."""
    name = "execution.replicas"
    if why := run.incomplete(run.ranks, "rank"):
        return unknown(name, why, "ranks")
    held: dict[tuple[int, int], set[str]] = defaultdict(set)
    members: dict[tuple[int, int], int] = defaultdict(int)
    for stream in run.ranks:
        for event in stream.all(GradientRollCall):
            held[event.step, event.shard].add(event.replica)
            members[event.step, event.shard] += 1
    if all(n < 2 for n in members.values()):
        return Fact(name, "not-applicable", reason="no shard has more than one replica")
    differing = sorted({step for (step, _), digests in held.items() if len(digests) > 1})
    return Fact(
        name,
        value={"compared": sum(n > 1 for n in members.values()), "differing_steps": differing},
        witness="shard digests of each rank",
    )


def _storage(run: Run) -> Fact:
    name = "execution.storage"
    canaries = [(s.path, e) for s in (run.driver, *run.ranks) for e in s.all(StorageCanary)]
    removed = sorted({e.path for s in run.ranks for e in s.all(CheckpointRemoved)})
    value = {
        "ok": sum(e.ok for _, e in canaries),
        "expected": len(run.ranks) + 1,
        "problems": [f"{p}: {e.problem}" for p, e in canaries if not e.ok],
        "retired_checkpoints": removed,
    }
    return Fact(name, value=value, witness="write, read, list, rename and delete by driver and ranks")
