"""The report's words for tasks: a heading for each task, and a line for each of its facts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from seatrial.evidence.facts import Family, learning
from seatrial.evidence.facts.learning import Agreement, Score, TaskChange, TaskDigests, TaskItems, TaskOverlap
from seatrial.report.line import Line
from seatrial.report.reading import clipped, percent

T = TypeVar("T")
PREFIX = learning.TASK_SCORE.pattern.partition("{")[0]


def _share(value: Score) -> str:
    right = f"{value.items} items, " if value.right is None else f"{value.right} of {value.items} right, "
    return right + percent(value.accuracy)


def _change(value: TaskChange) -> str:
    """Of the ranks; the reload's own is in the table."""
    seen = value.ranks
    points, low, high = (100 * share for share in (seen.change, seen.low, seen.high))
    chance = "" if seen.p is None else f", p = {seen.p:.2g}"
    changed = f"{seen.gained} gained, {seen.lost} lost{chance}; {clipped(seen.method, 60)}"
    return f"{points:+.1f} points ({low:.1f} to {high:.1f}); {changed}"


def _file(value: TaskDigests) -> str:
    return "the same in every phase" if value.same else "not the same in every phase"


def _agreement(value: Agreement) -> str:
    return f"before: {value.before}, after: {value.after} of {value.items} items scored differently"


def _overlap(value: TaskOverlap) -> str:
    return f"{value.found} of {value.compared} items compared; {value.too_short} too short to compare"


def _items(value: TaskItems) -> str:
    return f"{value.changed} of {value.items} items changed, {len(value.shown)} shown"


@dataclass(frozen=True)
class TaskFact:
    """A kind of fact that each task has; one without a text is shown as it is."""

    family: Family[Any]
    title: str
    text: Callable[[Any], str] | None = None


def _said(family: Family[T], title: str, text: Callable[[T], str]) -> TaskFact:
    return TaskFact(family, title, text)


# Last part of a fact's id -> what it is, in the order of the report.
FACTS: dict[str, TaskFact] = {
    fact.family.pattern.rpartition(".")[2].format(phase=phase): fact
    for phase, fact in (
        ("", TaskFact(learning.TASK_ASKED, "As asked for")),
        ("before", _said(learning.TASK_SCORE, "Before training", _share)),
        ("after", _said(learning.TASK_SCORE, "After training", _share)),
        ("base", _said(learning.TASK_SCORE, "Base, by the reload processes", _share)),
        ("reload", _said(learning.TASK_SCORE, "Reloaded from the checkpoint", _share)),
        ("", _said(learning.TASK_CHANGE, "Change, item by item", _change)),
        ("", _said(learning.TASK_AGREEMENT, "Ranks against reload", _agreement)),
        ("", _said(learning.TASK_OVERLAP, "Items in the training text", _overlap)),
        ("", _said(learning.TASK_FILE, "What the items were read from", _file)),
        ("", _said(learning.TASK_ITEMS, "Items", _items)),
    )
}


def parts(fact: str) -> tuple[str, str] | None:
    """`(task, last part)` of a fact about a task, else None."""
    if not fact.startswith(PREFIX):
        return None
    task, _, last = fact.removeprefix(PREFIX).rpartition(".")
    return (task, last) if task and last in FACTS else None


def title(fact: str) -> str:
    """The title of a fact about a task; empty for any other."""
    found = parts(fact)
    return FACTS[found[1]].title if found else ""


def group(fact: str) -> str:
    """The heading that it stands under; empty for any other fact."""
    found = parts(fact)
    return f"Task {found[0]}" if found else ""


def line(fact: str) -> Line | None:
    """Its line."""
    found = parts(fact)
    if not found or (text := FACTS[found[1]].text) is None:
        return None
    return Line(FACTS[found[1]].family.of(task=found[0], phase=found[1]), text)


def place(fact: str) -> int:
    """Where it stands among the facts of its task."""
    found = parts(fact)
    return list(FACTS).index(found[1]) if found else 0
