"""Events about tasks that the model is scored on."""

from __future__ import annotations

from typing import ClassVar, Literal

from seatrial.events.base import Count, Event, Measured

SAID = 200  # characters of an answer that are kept


class TaskOverlap(Event):
    """Items of a task that stand in the training tokens, by this process; those that are too short are not compared."""

    TEXT: ClassVar[tuple[str, ...]] = ("suspect",)
    event: Literal["task_overlap"] = "task_overlap"
    task: str
    digest: str  # of the file that was compared
    compared: Count
    too_short: Count
    found: Count
    suspect: list[str]  # ids, the first of them


class TaskScored(Event):
    """A part of the items of one task that this process scored: `[index, id, score, answer, log-probabilities]`.

    A score is 1 for right, 0 for wrong, or between for a graded metric. The answer is what was generated, clipped, or
    the index of the choice; log-probabilities (nats) are of the choices. Phases are those of `Evaluated`.
    """

    TEXT: ClassVar[tuple[str, ...]] = ("items",)
    event: Literal["task_scored"] = "task_scored"
    task: str
    metric: str
    phase: Literal["before", "after", "base", "reload"]
    step: int
    digest: str  # of what the items were read from, by this process, in this phase
    total: Count  # items of the task over all processes
    part: int  # counted from 1
    parts: int
    items: list[tuple[int, str, Measured, str, list[Measured]]]
