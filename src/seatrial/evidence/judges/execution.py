"""Judges of execution for the built-in training."""

from __future__ import annotations

from seatrial.evidence.facts import execution
from seatrial.evidence.facts.execution import Updates
from seatrial.evidence.facts.reasons import Reason
from seatrial.evidence.judges.look import Answer, Look, count, not_established, refuted, supported
from seatrial.trial.claims import Claim

FINISHED = "finished"


def finished(_: Claim, look: Look) -> Answer:
    """Whether the job came to its end: by the driver, and by ranks that closed their files."""
    status = look.value(execution.STATUS)
    ranks = look.value(execution.EXECUTED_STEPS).by_rank
    if status.status != FINISHED:
        return refuted(Reason(status.status), status.said)
    return supported(f"the driver saw the end, {len(ranks)} ranks closed their files")


def completed(_: Claim, look: Look) -> Answer:
    """Planned = executed = updates, with the planned learning rates, on the planned data."""
    status, planned = look.value(execution.STATUS), look.value(execution.PLANNED_STEPS)
    executed = look.fact(execution.EXECUTED_STEPS)
    whole = executed.known and executed.value.min == executed.value.max == planned
    if status.status != FINISHED:
        if whole:
            said = f"every rank ended after {planned} steps, but the driver saw {status.cause or status.status}"
            return not_established(Reason.CONTRADICTION, said)
        return refuted(Reason(status.status), status.said)
    steps = look.known(executed)
    if not whole:
        return refuted(Reason.STEPS, f"{planned} steps planned, ranks executed {steps.min} to {steps.max}")
    schedule = look.value(execution.SCHEDULE)
    if off := schedule.off_schedule:
        said = f"{len(off)} steps were off the learning-rate schedule, first step {off[0]}"
        return refuted(Reason.SCHEDULE, said)
    # With a peak of 0 nothing is to be learnt, and parameters stay as they are.
    if schedule.peak > 0 and (still := look.value(execution.PARAMETERS_UNMOVED)):
        return refuted(Reason.UPDATES, f"{count(len(still), 'parameter')} never changed, first {still[0]}")
    return _updated(planned, look) or _on_planned_data(planned, look)


def _updated(planned: int, look: Look) -> Answer | None:
    """Why the optimizer did not update every parameter as often as planned, if so."""
    updates = look.value(execution.UPDATES)
    if not updates.min == updates.max == planned:
        said = f"{planned} steps planned and executed, the optimizer counts {_span(updates)} updates"
        return refuted(Reason.UPDATES, said)
    if dead := look.value(execution.PARAMETERS_WITHOUT_GRADIENT):
        said = f"{len(dead)} of {updates.tensors} parameters never received a gradient, first {dead[0]}"
        return refuted(Reason.UPDATES, said)
    return None


def _on_planned_data(planned: int, look: Look) -> Answer:
    data = look.value(execution.DATA_ORDER)
    if data.matching != planned or data.steps != planned:
        said = (
            f"data as planned in {data.matching} of {planned} steps, first difference at step {data.first_difference}"
        )
        return refuted(Reason.DATA, said)
    attempts = look.value(execution.ATTEMPTS)
    return supported(f"{planned} steps planned = executed = updates, {count(attempts, 'attempt')}")


def _span(updates: Updates) -> str:
    return str(updates.min) if updates.min == updates.max else f"{updates.min} to {updates.max}"


def participated(_: Claim, look: Look) -> Answer:
    """Whether every rank's work is in the result: roll calls, gradients, replicas, and each rank's own data."""
    calls, gradients = look.value(execution.ROLL_CALLS), look.value(execution.GRADIENT_ROLL_CALLS)
    if calls.wrong:
        first = calls.wrong[0]
        return refuted(Reason.ROLL_CALL, f"roll call at {first.at} (step {first.step}) counted {first.counts}")
    if gradients.wrong:
        return refuted(Reason.GRADIENTS, str(gradients.wrong[0]))
    if gradients.unclear:
        return not_established(Reason.UNCLEAR, str(gradients.unclear[0]))
    if not (calls.all_complete and gradients.all_complete):
        return refuted(Reason.ROLL_CALL, f"roll calls {calls}, gradients {gradients}")
    if step := differing_replicas(look):
        return refuted(Reason.REPLICAS, f"replicas of a shard differ at step {step}")
    data = look.value(execution.DATA_ORDER)
    if data.misplaced:
        lost = data.misplaced[0]
        said = f"rank {lost.rank} did not read its own part of the data at step {lost.step}"
        return refuted(Reason.DATA, said)
    if not data.as_planned:
        said = f"ranks did not read their own part of the data from step {data.first_difference} on"
        return refuted(Reason.DATA, said)
    ranks = len(look.value(execution.EXECUTED_STEPS).by_rank)
    who = "both ranks" if ranks == 2 else f"all {ranks} ranks"
    return supported(f"roll calls {calls}, gradients of {who} in {gradients}")


def differing_replicas(look: Look) -> int:
    """The first step at which replicas of a shard differ; 0 where they are equal, or no shard has any.

    Raises MissingFact where they were not compared.
    """
    replicas = look.fact(execution.REPLICAS)
    if replicas.state == "not-applicable":
        return 0
    return next(iter(look.known(replicas).differing_steps), 0)
