"""Execution of a job that was looked at: the job, its processes and its attempts; and what looking cannot show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seatrial.evidence.facts import execution, outside
from seatrial.evidence.facts.fact import Fact
from seatrial.evidence.facts.outside import AttemptsSeen, ObservedProcess, Processes
from seatrial.evidence.observed.look import Seen

BY_RAY = "Ray's dashboard"
NOBODY = "nobody"
PLANS = "what a script plans is in the script: `workload: {script: …}` runs it as a trial"
ROLL_CALLS = "a roll call is made by the ranks: `seatrial.observe` in the script does it"
GRADIENTS = "gradients are compared by the ranks: `seatrial.observe` in the script does it"


def facts(seen: Seen) -> Iterator[Fact[Any]]:
    """All facts of this kind."""
    yield execution.STATUS.unknown("how a job ends cannot be seen while it runs", NOBODY)
    yield execution.PLANNED_STEPS.unknown(PLANS, NOBODY)
    yield execution.ROLL_CALLS.unknown(ROLL_CALLS, NOBODY)
    yield execution.GRADIENT_ROLL_CALLS.unknown(GRADIENTS, NOBODY)
    yield _job(seen)
    yield _processes(seen)
    yield _attempts(seen)


def _job(seen: Seen) -> Fact[dict[str, Any]]:
    if not seen.job.status:
        return outside.JOB.unknown(seen.job.unknown or "Ray's dashboard was not asked", BY_RAY)
    shown = {key: value for key, value in seen.job_document.items() if key not in ("problems", "cut_short")}
    return outside.JOB.seen(shown, BY_RAY)


def _processes(seen: Seen) -> Fact[Processes]:
    """Which rank runs where. A rank's number is Ray Train's word, by its state or in its log; the process was seen."""
    witness = "observers of the hosts (processes), Ray Train (their ranks)"
    if not seen.processes:
        why = next(iter(seen.problems.values()), "no host was watched")
        return outside.PROCESSES.unknown(f"no training process was seen: {why}", witness)
    value = Processes(
        processes=len(seen.processes),
        hosts=len({process.host for process in seen.processes}),
        by_rank=[
            ObservedProcess(
                rank=process.rank,
                host=process.name,
                node=process.node,
                pid=process.pid,
                machine=seen.hosts[process.node].machine,
                gone=process.gone or None,
            )
            for process in seen.processes
        ],
        rank_unknown=sum(process.rank is None for process in seen.processes),
        listed_by_ray_but_not_there={t.name: list(t.not_there) for t in seen.hosts.values() if t.not_there},
        hosts_not_watched=seen.problems,
    )
    return outside.PROCESSES.seen(value, witness)


def _attempts(seen: Seen) -> Fact[list[AttemptsSeen]]:
    """By Ray Train's state where it is kept, else by what its controllers wrote into logs on the hosts watched."""
    if seen.train.runs is not None:
        by_state = [AttemptsSeen(run.name, run.status, [a.status for a in run.attempts]) for run in seen.train.runs]
        return outside.ATTEMPTS_SEEN.seen(by_state, "Ray Train's state")
    logged = [attempt for told in (*seen.hosts.values(), *seen.others) for attempt in told.attempts]
    if logged:
        runs = sorted({attempt.run for attempt in logged})
        sizes = {run: [attempt.workers for attempt in logged if attempt.run == run] for run in runs}
        by_log = [AttemptsSeen(run, attempts=len(each), workers_of_each=each) for run, each in sizes.items()]
        return outside.ATTEMPTS_SEEN.seen(by_log, "the log of Ray Train's controller")
    why = seen.train.unknown or "Ray Train was not asked"
    said = f"{why}; and no controller's log was found on the hosts watched"
    return outside.ATTEMPTS_SEEN.unknown(said, "Ray Train")
