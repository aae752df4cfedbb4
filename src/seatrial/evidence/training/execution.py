"""Execution: planned, executed and updated steps from three different sources, and how the run ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seatrial.events.schema import (
    CheckpointRemoved,
    Leftover,
    Parameters,
    Reloaded,
    Step,
    StorageCanary,
)
from seatrial.evidence.facts import execution
from seatrial.evidence.facts.execution import Ended, ExecutedSteps, Failure, RosterMember, Schedule, StorageUse, Updates
from seatrial.evidence.facts.fact import Fact
from seatrial.evidence.run import Run
from seatrial.evidence.training import participation
from seatrial.evidence.training.data import data_order
from seatrial.plan.batches import learning_rate

RATE_ERROR = 1e-12  # between a rate as the optimizer had it and as the schedule has it


def facts(run: Run) -> Iterator[Fact[Any]]:
    """All facts of this kind."""
    yield from ended(run)
    yield execution.ATTEMPTS.seen(len({s.header.attempt for s in run.ranks if s.header}), "event files")
    yield tolerances(run)
    yield executed(run)
    yield from _updates(run)
    yield _unmoved(run)
    yield _rates(run)
    yield data_order(run)
    yield participation.roll_calls(run)
    yield participation.gradients(run)
    yield participation.replicas(run)
    yield _storage(run)


def ended(run: Run) -> Iterator[Fact[Any]]:
    """What was planned, how the driver saw the end, and what is wrong with the processes' files."""
    plan, phase = run.plan, run.phase("train")
    lost = run.driver.why_incomplete() or "the driver wrote no plan"
    if not plan.known:
        yield execution.PLANNED_STEPS.unknown(lost)
    elif plan.steps is None:
        yield execution.PLANNED_STEPS.unknown("the trial does not say how many: workload.steps", "trial")
    else:
        yield execution.PLANNED_STEPS.seen(plan.steps, "trial")
    if phase is None:
        yield execution.STATUS.unknown(lost, "driver")
    else:
        yield execution.STATUS.seen(Ended(phase.status, phase.cause), "driver")
    yield execution.ROSTER.seen(_roster(run), "event files")
    if failures := run.failures():
        yield execution.FAILURES.seen([Failure(path, error) for path, error in failures], "the processes")
    if run.refused:
        yield execution.REFUSED_FILES.seen(list(run.refused), "reader", "not on the roster of this run")
    if leftover := [process for event in run.driver.all(Leftover) for process in event.processes]:
        yield execution.LEFTOVER_PROCESSES.seen(leftover, "driver")


def tolerances(run: Run) -> Fact[Any]:
    """The tolerances as they were written before step 0; none of them where there is no plan."""
    return execution.TOLERANCES.seen(run.tolerances, "driver, before step 0")


def _roster(run: Run) -> list[RosterMember]:
    """Every process that must have left a file, also those that did not, and the probes that did."""
    members = []
    for role, streams in (("rank", run.ranks), ("reload", run.reloads), ("probe", run.probes)):
        for position, stream in enumerate(streams):
            header = stream.header
            members.append(
                RosterMember(
                    role=role,
                    rank=None if role == "probe" else position,
                    file=stream.path,
                    ended=stream.ended,
                    host=header.host if header else None,
                    machine=header.machine if header else None,
                    pid=header.pid if header else None,
                    attempt=header.attempt if header else None,
                )
            )
    return members


def executed(run: Run) -> Fact[ExecutedSteps]:
    """Distinct steps of each rank; the same step told twice counts once."""
    if why := run.incomplete(run.ranks, "rank"):
        return execution.EXECUTED_STEPS.unknown(why, "ranks")
    counts = {str(rank): len({e.step for e in s.all(Step)}) for rank, s in enumerate(run.ranks)}
    tokens = sum(e.tokens for s in run.ranks for e in s.all(Step))
    value = ExecutedSteps(by_rank=counts, min=min(counts.values()), max=max(counts.values()), tokens=tokens)
    return execution.EXECUTED_STEPS.seen(value, "step events of each rank")


def _updates(run: Run) -> Iterator[Fact[Any]]:
    types = (execution.UPDATES, execution.PARAMETERS_WITHOUT_GRADIENT)
    if why := run.incomplete(run.reloads, "reload"):
        yield from (type.unknown(why, "reload") for type in types)
        return
    reloads = [e for s in run.reloads if (e := s.last(Reloaded))]
    if len(reloads) < len(run.reloads) or any(e.missing for e in reloads) or not reloads[0].updates:
        yield from (type.unknown("the final checkpoint was not reloaded", "reload") for type in types)
        return
    counts = [n for e in reloads for n in e.updates.values()]
    value = Updates(min=min(counts), max=max(counts), tensors=len(reloads[0].updates))
    yield execution.UPDATES.seen(value, "optimizer state `step` of the reloaded checkpoint")
    dead = sorted(set.intersection(*(set(e.dead) for e in reloads)))
    yield execution.PARAMETERS_WITHOUT_GRADIENT.seen(dead, "second moments of the reloaded checkpoint")


def _unmoved(run: Run) -> Fact[list[str]]:
    """Trainable parameters whose shards are the same bytes after the last step as before the first, on every rank."""
    if why := run.incomplete(run.ranks, "rank"):
        return execution.PARAMETERS_UNMOVED.unknown(why, "ranks")
    still: list[set[str]] = []
    for stream in run.ranks:
        seen = {e.step: e.digests for e in stream.all(Parameters)}
        first, last = seen.get(0), seen.get(run.plan.steps or -1)
        if first is None or last is None:
            return execution.PARAMETERS_UNMOVED.unknown(f"{stream.path} lacks the digests before or after", "ranks")
        still.append({n for n, value in first.items() if last.get(n) == value})
    return execution.PARAMETERS_UNMOVED.seen(sorted(set.intersection(*still)), "parameter digests of each rank")


def _rates(run: Run) -> Fact[Schedule]:
    """Steps whose learning rate was not the schedule's."""
    if why := run.incomplete(run.ranks, "rank"):
        return execution.SCHEDULE.unknown(why, "ranks")
    asked = run.plan.schedule
    if asked is None:
        return execution.SCHEDULE.unknown("the plan has no schedule", "driver")

    def right(event: Step) -> bool:
        rate = learning_rate(event.step, peak=asked.peak, warmup_steps=asked.warmup_steps, steps=asked.steps)
        return event.lr is not None and abs(event.lr - rate) <= RATE_ERROR

    wrong = sorted({e.step for s in run.ranks for e in s.all(Step) if not right(e)})
    return execution.SCHEDULE.seen(Schedule(wrong, asked.peak), "step events against the schedule")


def _storage(run: Run) -> Fact[StorageUse]:
    canaries = [(s.path, e) for s in (run.driver, *run.ranks) for e in s.all(StorageCanary)]
    value = StorageUse(
        ok=sum(e.ok for _, e in canaries),
        expected=len(run.ranks) + 1,
        problems=[f"{path}: {e.problem}" for path, e in canaries if not e.ok],
        retired_checkpoints=sorted({e.path for s in run.ranks for e in s.all(CheckpointRemoved)}),
    )
    return execution.STORAGE.seen(value, "write, read, list, rename and delete by driver and ranks")
