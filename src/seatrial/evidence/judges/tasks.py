"""The judge of `learning.task.accuracy`: what was measured must hold by both witnesses, and not by chance."""

from __future__ import annotations

from dataclasses import replace

from seatrial.evidence.facts import execution
from seatrial.evidence.facts.learning import (
    TASK_AGREEMENT,
    TASK_CHANGE,
    TASK_FILE,
    TASK_OVERLAP,
    TASK_SCORE,
    Paired,
    TaskChange,
)
from seatrial.evidence.facts.reasons import Reason
from seatrial.evidence.judges.learning import of_random_tokens
from seatrial.evidence.judges.look import Answer, Look, count, not_established, refuted, supported
from seatrial.evidence.witness.statistics import items_for
from seatrial.trial.claims import Claim

ROUNDING = 1e-12  # of a difference of shares that are exact in decimal


def accuracy(asked: Claim, look: Look) -> Answer:
    """The verdict, with the task in front of what was seen: claims on several tasks have one name."""
    task = str(asked.task)
    answer = _accuracy(task, asked, look)
    return replace(answer, seen=f"{task}: {answer.seen}")


def _accuracy(task: str, asked: Claim, look: Look) -> Answer:
    if answer := of_random_tokens(look, "whatever it answers"):
        return answer
    after_type = TASK_SCORE.of(task=task, phase="after")
    if (last := look.fact(after_type)).state == "error":
        return refuted(Reason.NON_FINITE, f"after training, {last.reason}")
    if doubt := _learnt_by_heart(task, look) or _doubt(task, asked, look):
        return doubt
    after, again = look.value(after_type), look.value(TASK_SCORE.of(task=task, phase="reload"))
    if asked.min is not None:
        worse = min(after, again, key=lambda seen: seen.accuracy)
        shown = f"{worse} right (claimed: at least {asked.min:.1%})"
        return supported(shown) if worse.accuracy >= asked.min else refuted(Reason.VALUE, shown)
    shown = f"{look.value(TASK_SCORE.of(task=task, phase='before'))} → {after} right"
    change = look.value(TASK_CHANGE.of(task=task))
    if asked.improves_by is not None:
        return _improved(asked.improves_by, change, shown)
    return _kept(asked.number("max_drop"), change, shown)


def _learnt_by_heart(task: str, look: Look) -> Answer | None:
    """Items that stand in the training text, if that is the text that was trained on."""
    found = look.fact(TASK_OVERLAP.of(task=task))
    if found.state == "not-applicable":
        return None
    overlap, data = look.known(found), look.value(execution.DATA_ORDER)
    if overlap.share >= overlap.limit:
        said = f"{overlap.found} of {overlap.compared} items ({overlap.share:.0%}) stand in the training data"
        return not_established(Reason.CONTAMINATED, said)
    if not data.as_planned:
        first = data.first_difference
        said = f"the data that ranks trained on is not what the items were compared with, from step {first}"
        return not_established(Reason.CONTRADICTION, said)
    return None


def _doubt(task: str, asked: Claim, look: Look) -> Answer | None:
    """Witnesses that disagree: about the items themselves, or about how they were answered."""
    if not (file := look.value(TASK_FILE.of(task=task))).same:
        digests = {phase: [digest[:19] for digest in found] for phase, found in file.digests.items()}
        told = ", ".join(f"{phase} {' and '.join(found)}" for phase, found in digests.items())
        return not_established(Reason.CONTRADICTION, f"the items were not the same throughout: {told}")
    agreement = look.value(TASK_AGREEMENT.of(task=task))
    differing = {"after": agreement.after, "before": agreement.before}
    for phase in ("after", "before") if asked.over is not None else ("after",):
        if differing[phase] > agreement.limit * agreement.items:
            again = "reload" if phase == "after" else "base"
            mine, other = (look.value(TASK_SCORE.of(task=task, phase=each)) for each in (phase, again))
            said = f"{phase} training, ranks scored {mine} right, the reload processes {other}"
            why = f"{said}; they differ on {differing[phase]} of {agreement.items} items"
            return not_established(Reason.CONTRADICTION, why)
    return None


def _improved(wanted: float, change: TaskChange, arrow: str) -> Answer:
    """Enough, and not by chance."""
    tests = (change.ranks, change.reload)
    least = min(tests, key=lambda test: test.change)
    shown = f"{arrow} (claimed: {_points(wanted)} better than base); {_moved(least)}"
    if least.change < wanted - ROUNDING:
        return refuted(Reason.VALUE, f"{shown}; it gained {_points(least.change)}")
    if any(_by_chance(test, change.chance_p) for test in tests):
        return not_established(Reason.UNSTABLE, f"{shown}; chance alone can do that with {least.items} items")
    return supported(shown)


def _by_chance(test: Paired, limit: float) -> bool:
    """Whether no change at all would explain what was seen."""
    return test.low <= 0 <= test.high if test.p is None else test.p >= limit


def _kept(margin: float, change: TaskChange, arrow: str) -> Answer:
    """The drop is within the margin, and so is the end of its 95 % interval."""
    tests = (change.ranks, change.reload)
    worst = min(tests, key=lambda test: test.change)
    reach = max(-test.low for test in tests)
    shown = f"{arrow} (claimed: at most {_points(margin)} worse than base); {_moved(worst)}"
    if -worst.change > margin + ROUNDING:
        return refuted(Reason.VALUE, f"{shown}; it lost {_points(-worst.change)}")
    if reach > margin:
        least = items_for(margin)
        more = f"; even without a change it takes {least} items" if worst.items < least else ""
        return not_established(Reason.UNSTABLE, f"{shown}; a drop of {_points(reach)} is not ruled out{more}")
    return supported(shown)


def _points(share: float) -> str:
    return f"{100 * share:.1f} points"


def _moved(test: Paired) -> str:
    """`21 items gained, 2 lost, p = 6.6e-05`."""
    items = f"{count(test.gained, 'item')} gained, {test.lost} lost"
    if test.p is None:
        return f"{items}, 95 % interval {100 * test.low:.1f} to {100 * test.high:.1f} points"
    return f"{items}, p = {test.p:.2g}"
