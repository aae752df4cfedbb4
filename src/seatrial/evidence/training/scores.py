"""Scores of items that a phase should have; or why it has not all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeVar

from seatrial.evidence.facts.fact import Fact, FactType

T = TypeVar("T")
Items = dict[int, tuple[float, int, int]]  # held-out window -> nats, tokens, bytes


@dataclass(frozen=True)
class Missing:
    """Why the scores of a phase are not whole; every fact that would be made of them has this reason."""

    state: Literal["unknown", "error"]
    reason: str
    witness: str

    def of(self, type: FactType[T]) -> Fact[T]:
        return Fact(type, self.state, None, self.witness, self.reason)
