"""Recovery of a script: its checkpoints are listed; nothing here can load them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seatrial.evidence.facts import recovery
from seatrial.evidence.facts.fact import Fact
from seatrial.evidence.run import Run
from seatrial.evidence.script.execution import checkpoints


def facts(run: Run) -> Iterator[Fact[Any]]:
    """All facts of this kind."""
    why = f"the checkpoints of {run.plan.script} are in a form of its own: nothing here loads them"
    yield checkpoints(run)
    yield recovery.STATUS.unknown(why)
    yield recovery.RELOAD.unknown(why)
