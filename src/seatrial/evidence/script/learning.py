"""Learning of a script: its own evaluation is one witness; whether its tokens look random is seen beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seatrial.events.observed import Observing
from seatrial.events.schema import Evaluated, NonFinite
from seatrial.evidence.facts import learning
from seatrial.evidence.facts.fact import Fact
from seatrial.evidence.facts.learning import PHASES, TrainingData
from seatrial.evidence.run import Run
from seatrial.evidence.script.execution import tokens
from seatrial.evidence.training.learning import curve, heldout, overlap
from seatrial.evidence.training.scores import Items, Missing


def facts(run: Run) -> Iterator[Fact[Any]]:
    """All facts of this kind."""
    seen = tokens(run)
    yield _data(run, seen)
    yield from heldout({phase: _items(run, phase) for phase in PHASES}, doubt="")
    yield overlap(run)
    yield curve(run)
    yield seen


def _data(run: Run, seen: Fact[learning.Tokens]) -> Fact[TrainingData]:
    random = seen.value.random if seen.known else None
    value = TrainingData(source=run.plan.script, synthetic=bool(run.plan.synthetic) or random)
    return learning.DATA.seen(value, f"trial; {seen.witness}")


def _items(run: Run, phase: str) -> Items | Missing:
    """What a script's own evaluation said, item by item; every item once over all ranks."""
    if phase in ("base", "reload"):
        return Missing("unknown", "no other process evaluates a script's model", "reload")
    if why := run.incomplete(run.ranks, "rank"):
        return Missing("unknown", why, "ranks")
    items: Items = {}
    for event in (e for s in run.ranks for e in s.all(Evaluated) if e.phase == phase):
        for item, nats, count, size in event.items:
            if isinstance(nats, NonFinite):
                return Missing("error", f"non-finite: item {item} is {nats.text}", "ranks")
            if item in items:
                return Missing("unknown", f"item {item} was scored twice", "ranks")
            items[item] = (nats, count, size)
    return items or Missing("unknown", _untold(run, phase), "ranks")


def _untold(run: Run, phase: str) -> str:
    by = next((e.by for s in run.ranks if (e := s.last(Observing))), "observe")
    if by != "observe":
        return f"{by}'s callback is told no held-out scores item by item"
    return f"the script tells no held-out scores: `trial.evaluated({phase!r}, nats=…, tokens=…)`"
