"""The judge of `recovery.checkpoint_reloads`."""

from __future__ import annotations

from seatrial.evidence.facts import execution, recovery
from seatrial.evidence.facts.reasons import Reason
from seatrial.evidence.facts.recovery import Reload
from seatrial.evidence.judges.look import Answer, Look, count, not_established, refuted, supported
from seatrial.trial.claims import Claim


def reloads(_: Claim, look: Look) -> Answer:
    """Whether new processes got back everything that the ranks held after their last step."""
    status = look.fact(recovery.STATUS)
    if not status.known:
        return not_established(Reason.NOT_RUN, status.reason)
    planned, ended = look.value(execution.PLANNED_STEPS), status.value
    if ended.load_failed:
        return refuted(Reason.RELOAD, f"the checkpoint does not load: {ended.load_failed}")
    if ended.status != "finished":
        return not_established(Reason.NOT_RUN, f"the reload {ended.status}: {ended.cause}")
    seen = look.value(recovery.RELOAD)
    if difference := _difference(seen, planned):
        return difference
    if not seen.new_processes or seen.equal != seen.expected or not seen.tensors:
        return not_established(Reason.UNKNOWN, "the reload was not in new processes, or compared nothing")
    return supported(f"step {seen.step} reloaded in new processes, {seen.tensors} items equal")


def _difference(seen: Reload, planned: int) -> Answer | None:
    if seen.missing:
        said = f"the checkpoint lacks {count(len(seen.missing), 'item')}, first {seen.missing[0]}"
        return refuted(Reason.MISSING, said)
    if seen.different:
        said = f"{count(len(seen.different), 'item')} differ after the reload, first {seen.different[0]}"
        return refuted(Reason.DIFFERENT, said)
    if seen.untrained:
        said = f"the checkpoint does not hold what was trained, first {seen.untrained[0]}"
        return refuted(Reason.DIFFERENT, said)
    if seen.step != planned:
        return refuted(Reason.STEP, f"step {seen.step} was reloaded, the last step is {planned}")
    if not seen.manifest_equal:
        return refuted(Reason.DIFFERENT, "the manifest that was reloaded is not the one that was written")
    return None
