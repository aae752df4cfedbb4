"""Judges of a team's own script, where it has other evidence than the built-in training."""

from __future__ import annotations

from seatrial.evidence.facts import execution, outside
from seatrial.evidence.facts.learning import HELDOUT
from seatrial.evidence.facts.reasons import Reason
from seatrial.evidence.judges.execution import FINISHED, differing_replicas
from seatrial.evidence.judges.learning import FORMS, compared, of_random_tokens
from seatrial.evidence.judges.look import Answer, Judge, Look, count, not_established, refuted, supported
from seatrial.trial.claims import Claim

ENDED_WELL = "FINISHED"  # in Ray Train's words


def finished(_: Claim, look: Look) -> Answer:
    """Whether the job came to its end on as many ranks as were asked for: by the driver, Ray Train and the probes."""
    status, runs = look.value(execution.STATUS), look.fact(outside.TRAIN_RUNS)
    if status.status != FINISHED:
        if runs.known and all(run.run_status == ENDED_WELL for run in runs.value):
            said = f"Ray Train says {ENDED_WELL}, but {status.said}"
            return not_established(Reason.CONTRADICTION, said)
        return refuted(Reason(status.status), status.said)
    told = look.known(runs)
    if off := [run for run in told if run.run_status != ENDED_WELL]:
        said = f"the script ended with 0, but Ray Train says {off[0].run_status} of {off[0].name}"
        return not_established(Reason.CONTRADICTION, f"{said}: {off[0].detail}" if off[0].detail else said)
    ranks = look.value(outside.RANKS)
    if ranks.told != ranks.asked:
        said = f"the trial asks for {ranks.asked} ranks, the script trained with {ranks.told}"
        return refuted(Reason.RANKS, said)
    if ranks.watched < ranks.told:
        said = f"Ray Train names {ranks.told} ranks, the probes watched {ranks.watched} of them"
        why = f"{said}: the training was too short to be looked at, or not there"
        return not_established(Reason.UNCORROBORATED, why)
    tries = look.value(execution.ATTEMPTS)
    again = f", {tries} attempts" if tries > 1 else ""
    hosts = count(told[-1].hosts, "host")
    return supported(f"the script ended with 0, Ray Train says {ENDED_WELL}: {ranks.told} ranks on {hosts}{again}")


def completed(asked: Claim, look: Look) -> Answer:
    """Planned = executed = updates, by the ranks' own account, on top of a job that finished.

    What the planned data was only the script knows; a stream of batches that began again is asked about.
    """
    ended = finished(asked, look)
    if not ended.supports:
        return ended
    planned, steps = look.value(execution.PLANNED_STEPS), look.value(execution.EXECUTED_STEPS)
    if not steps.min == steps.max == planned:
        return refuted(Reason.STEPS, f"{planned} steps planned, ranks executed {steps.min} to {steps.max}")
    updates = look.value(execution.UPDATES)
    if not updates.min == updates.max == planned:
        took = f"{updates.min} to {updates.max}"
        said = f"{planned} steps planned and executed, the optimizer stepped {took} times"
        return refuted(Reason.UPDATES, said)
    if still := look.value(execution.PARAMETERS_UNMOVED):
        return refuted(Reason.UPDATES, f"the parameters never changed: {', '.join(still[:4])}")
    if again := look.value(outside.BATCHES).began_again:
        first = again[0]
        said = f"the batches of rank {first.rank} began again at step {first.step} within one pass over the data"
        why = f"{said}; if that is meant, call trial.batches(loader) once for each pass"
        return not_established(Reason.DATA, why)
    return supported(f"{planned} steps planned = executed = updates of the optimizer, on every rank")


def participated(_: Claim, look: Look) -> Answer:
    """Whether every rank's work is in the result: roll calls, gradients, replicas, and batches of its own."""
    calls, gradients = look.value(execution.ROLL_CALLS), look.value(execution.GRADIENT_ROLL_CALLS)
    if calls.wrong:
        first = calls.wrong[0]
        return refuted(Reason.ROLL_CALL, f"roll call at {first.at} counted {first.counts}")
    if gradients.wrong:
        return refuted(Reason.GRADIENTS, str(gradients.wrong[0]))
    ranks, asked = len(look.value(execution.EXECUTED_STEPS).by_rank), look.value(outside.RANKS).asked
    if ranks != asked:
        return refuted(Reason.RANKS, f"the trial asks for {asked} ranks, {ranks} took part")
    if step := differing_replicas(look):
        return refuted(Reason.REPLICAS, f"replicas differ at step {step}")
    if shared := look.value(outside.BATCHES).shared:
        a, b = shared[0].ranks
        said = f"ranks {a} and {b} were given {shared[0].batches} batches that are the same"
        why = f"{said}: the work of one is the work of the other (a DistributedSampler is missing?)"
        return refuted(Reason.DATA, why)
    if gradients.unclear:
        return not_established(Reason.UNCLEAR, str(gradients.unclear[0]))
    if not (calls.all_complete and gradients.all_complete):
        return refuted(Reason.ROLL_CALL, f"roll calls {calls}, gradients {gradients}")
    return supported(f"roll calls {calls}, gradients of all {ranks} ranks in {gradients}, batches of their own")


def heldout(metric: str) -> Judge:
    """The judge of a held-out claim by the script's own evaluation: one witness, which cannot speak for itself."""
    scores, form = HELDOUT[metric], FORMS[metric]

    def decide(asked: Claim, look: Look) -> Answer:
        if answer := of_random_tokens(look, "whatever the loss did"):
            return answer
        if (last := look.fact(scores.of(phase="after"))).state == "error":
            return refuted(Reason.NON_FINITE, f"held-out after training: {last.reason}")
        before, after = look.value(scores.of(phase="before")), look.value(scores.of(phase="after"))
        found = compared(asked, before, after, look, form)
        if not found.enough:
            return refuted(Reason.VALUE, f"{found.shown}{found.needed}, by the script's own evaluation")
        return not_established(Reason.UNCORROBORATED, f"{found.shown}, by the script's own evaluation alone")

    return decide
