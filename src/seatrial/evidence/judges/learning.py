"""Judges of the held-out claims: what the ranks scored must be what other processes score."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from seatrial.evidence.facts import execution, learning
from seatrial.evidence.facts.fact import Family
from seatrial.evidence.facts.learning import BASELINE, HELDOUT
from seatrial.evidence.facts.reasons import Reason
from seatrial.evidence.judges.look import Answer, Judge, Look, not_established, refuted, supported
from seatrial.trial.claims import Claim

Form = Callable[[float], str]
FORMS: dict[str, Form] = {"loss": lambda v: f"{v:.3f}", "bits_per_byte": lambda v: f"{v:.2f}"}


@dataclass(frozen=True)
class Comparison:
    """What was seen, what would have been needed, and whether it is enough."""

    shown: str
    needed: str
    enough: bool


def of_random_tokens(look: Look, whatever: str) -> Answer | None:
    """What every learning claim is on random tokens, declared or measured; None where they are none."""
    if not look.value(learning.DATA).synthetic:
        return None
    return not_established(Reason.SYNTHETIC_DATA, f"random tokens: nothing can be learnt from them, {whatever}")


def heldout(metric: str) -> Judge:
    """The judge of a claim on one metric of the held-out windows."""
    scores, form = HELDOUT[metric], FORMS[metric]

    def decide(asked: Claim, look: Look) -> Answer:
        if answer := of_random_tokens(look, "whatever the loss did"):
            return answer
        if (last := look.fact(scores.of(phase="after"))).state == "error":
            said = f"held-out {metric.replace('_', ' ')} after training: {last.reason}"
            return refuted(Reason.NON_FINITE, said)
        before, after = look.value(scores.of(phase="before")), look.value(scores.of(phase="after"))
        if doubt := _contaminated(look) or _uncorroborated(scores, asked, look, form):
            return doubt
        found = compared(asked, before, after, look, form)
        data = look.value(learning.DATA)
        windows, wanted = data.heldout_windows, data.heldout_windows_asked
        fewer = f"; {windows} of {wanted} windows" if windows != wanted else ""
        if not found.enough:
            return refuted(Reason.VALUE, f"{found.shown}{found.needed}{fewer}")
        apart = look.value(learning.ISOLATION)
        if apart.leak > apart.limit * apart.effect:
            leak = f"{apart.leak:.2g} nats of {apart.effect:.2g}"
            return not_established(Reason.CONTAMINATED, f"{found.shown}, with documents that saw each other: {leak}")
        return supported(found.shown + fewer)

    return decide


def _contaminated(look: Look) -> Answer | None:
    """Held-out windows that stand in the training data, or data that is not what they were compared with."""
    overlap = look.value(learning.OVERLAP)
    if overlap.share >= overlap.limit:
        found = len(overlap.suspect_windows)
        said = f"{found} held-out windows ({overlap.share:.0%}) stand in the training data"
        return not_established(Reason.CONTAMINATED, said)
    data = look.value(execution.DATA_ORDER)
    if not data.as_planned:
        said = (
            f"the data that ranks trained on is not what was compared with held-out, from step {data.first_difference}"
        )
        return not_established(Reason.CONTRADICTION, said)
    return None


def _uncorroborated(scores: Family[float], asked: Claim, look: Look, form: Form) -> Answer | None:
    """None if the reload processes scored the same, whichever way it speaks; else why the claim is not established."""
    tolerance = look.value(execution.TOLERANCES).evaluation_relative
    if tolerance is None:
        return not_established(Reason.UNKNOWN, "no tolerance between two evaluations was set before step 0")
    pairs = [("after", "reload"), *([("before", "base")] if asked.improves_by is not None else [])]
    for phase, witness in pairs:
        said, again = look.value(scores.of(phase=phase)), look.fact(scores.of(phase=witness))
        if not again.known:
            alone = f"{form(said)} {phase} training by the ranks alone: {again.reason}"
            return not_established(Reason.UNCORROBORATED, alone)
        if not math.isclose(again.value, said, rel_tol=tolerance):
            differ = f"ranks scored {form(said)} {phase} training, the reload processes {form(again.value)}"
            return not_established(Reason.CONTRADICTION, differ)
    return None


def compared(asked: Claim, before: float, after: float, look: Look, form: Form) -> Comparison:
    """A claim's level against what was scored. Of forms that a held-out claim may have there are three."""
    arrow = f"{form(before)} → {form(after)}"
    if asked.max is not None:
        return Comparison(f"{arrow} (claimed: at most {form(asked.max)})", "", after <= asked.max)
    if asked.improves_by is not None:
        gained, wanted = before - after, asked.improves_by
        shown = f"{arrow} (claimed: {form(wanted)} better than base)"
        return Comparison(shown, f"; it gained {form(gained)}", gained >= wanted)
    mark, by = asked.below, asked.by or 0.0
    level = look.value(BASELINE.of(table=mark)) if isinstance(mark, str) else asked.number("below")
    name = f"{mark} {form(level)}" if isinstance(mark, str) else form(level)
    claimed = f"claimed: {by:g} below it" if by else "claimed: below it"
    return Comparison(f"{arrow}; {name} ({claimed})", f"; needed {form(level - by)}", after <= level - by)
