"""The report's words for tasks: a heading for each task, and a line for each of its facts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seatrial.report.reading import clipped, number, percent

PREFIX = "learning.task."


def _share(value: Any) -> str:
    right = f"{value['right']} of {value['items']} right, " if "right" in value else f"{value['items']} items, "
    return right + percent(float(value["accuracy"]))


def _change(value: Any) -> str:
    """Of the ranks; the reload's own is in the table."""
    seen = value["ranks"]
    points, low, high = (100 * float(seen[key]) for key in ("change", "low", "high"))
    p = number(seen["p"])
    chance = "" if p is None else f", p = {p:.2g}"
    gained, lost, method = seen["gained"], seen["lost"], clipped(seen["method"], 60)
    return f"{points:+.1f} points ({low:.1f} to {high:.1f}); {gained} gained, {lost} lost{chance}; {method}"


def _file(value: Any) -> str:
    return "the same in every phase" if value["same"] is True else "not the same in every phase"


def _agreement(value: Any) -> str:
    return f"before: {value['before']}, after: {value['after']} of {value['items']} items scored differently"


def _overlap(value: Any) -> str:
    return f"{value['found']} of {value['compared']} items compared; {value['too_short']} too short to compare"


def _items(value: Any) -> str:
    return f"{value['changed']} of {value['items']} items changed, {len(value['shown'])} shown"


# Last part of a fact's id -> (title, line), in the order of the report.
FACTS: dict[str, tuple[str, Callable[[Any], str] | None]] = {
    "asked": ("As asked for", None),
    "before": ("Before training", _share),
    "after": ("After training", _share),
    "base": ("Base, by the reload processes", _share),
    "reload": ("Reloaded from the checkpoint", _share),
    "change": ("Change, item by item", _change),
    "agreement": ("Ranks against reload", _agreement),
    "overlap": ("Items in the training text", _overlap),
    "file": ("What the items were read from", _file),
    "items": ("Items", _items),
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
    return FACTS[found[1]][0] if found else ""


def group(fact: str) -> str:
    """The heading that it stands under; empty for any other fact."""
    found = parts(fact)
    return f"Task {found[0]}" if found else ""


def line(fact: str) -> Callable[[Any], str] | None:
    """What makes its line."""
    found = parts(fact)
    return FACTS[found[1]][1] if found else None


def place(fact: str) -> int:
    """Where it stands among the facts of its task."""
    found = parts(fact)
    return list(FACTS).index(found[1]) if found else 0
