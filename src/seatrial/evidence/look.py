"""The evidence as one judge sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seatrial.evidence.facts import NOT_ESTABLISHED, Evidence, Fact

Answer = tuple[str, str, str]
Judge = Callable[[dict[str, Any], "Look"], Answer]


class Missing(Exception):
    """A fact that the judge needs is not known."""

    def __init__(self, fact: Fact):
        self.fact = fact


class Look:
    """The evidence as one judge sees it; remembers what was looked at."""

    def __init__(self, evidence: Evidence):
        self._evidence = evidence
        self.used: list[str] = []

    def fact(self, name: str) -> Fact:
        """The fact, known or not."""
        self.used.append(name)
        return self._evidence.get(name)

    def aside(self, name: str) -> Fact:
        """The fact, to be shown beside what is judged: the verdict does not rest on it."""
        return self._evidence.get(name)

    def value(self, name: str) -> Any:
        """The value of a known fact. Raises Missing otherwise."""
        fact = self.fact(name)
        if not fact.known:
            raise Missing(fact)
        return fact.value


def of_random_tokens(look: Look, whatever: str) -> Answer | None:
    """What every learning claim is on random tokens, declared or measured; None where they are none."""
    if not look.value("learning.data")["synthetic"]:
        return None
    return NOT_ESTABLISHED, "synthetic-data", f"random tokens: nothing can be learnt from them, {whatever}"
