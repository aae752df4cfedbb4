"""What a judge sees and what it answers. Pure: no table, no file, no clock; what it needs to know is a fact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from seatrial.evidence.facts.fact import Evidence, Fact, FactType, Fault
from seatrial.evidence.facts.reasons import Reason
from seatrial.trial.claims import Claim
from seatrial.trial.kinds import RunKind

T = TypeVar("T")
Word = Literal["supported", "refuted", "not-established"]
SUPPORTED: Word = "supported"
REFUTED: Word = "refuted"
NOT_ESTABLISHED: Word = "not-established"


@dataclass(frozen=True)
class Answer:
    """What a judge says of a claim: the verdict, the reason where it is not supported, and what was seen."""

    verdict: Word
    reason: Reason | None
    seen: str

    @property
    def supports(self) -> bool:
        return self.verdict == SUPPORTED


def supported(seen: str) -> Answer:
    """The evidence shows the claim, and a second witness agrees."""
    return Answer(SUPPORTED, None, seen)


def refuted(reason: Reason, seen: str) -> Answer:
    """The evidence shows that the claim does not hold."""
    return Answer(REFUTED, reason, seen)


def not_established(reason: Reason, seen: str) -> Answer:
    """Neither."""
    return Answer(NOT_ESTABLISHED, reason, seen)


@dataclass(frozen=True)
class Verdict:
    """What became of one claim. `evidence` names the facts that were looked at."""

    claim: str
    answer: Answer
    asked: dict[str, Any]
    evidence: tuple[str, ...] = field(default=())

    @property
    def verdict(self) -> Word:
        return self.answer.verdict

    @property
    def reason(self) -> str:
        return str(self.answer.reason or "")

    @property
    def seen(self) -> str:
        return self.answer.seen

    def json(self) -> dict[str, Any]:
        return {
            "claim": self.claim,
            "verdict": self.verdict,
            "reason": self.reason,
            "asked": self.asked,
            "seen": self.seen,
            "evidence": list(self.evidence),
        }


class MissingFact(Exception):
    """A fact that the judge needs is not known. `fault` is there if seatrial's own error kept it from being made."""

    def __init__(self, fact: Fact[Any], fault: Fault | None):
        self.fact, self.fault = fact, fault
        super().__init__(fact.id)

    def answer(self) -> Answer:
        """What that makes of the claim."""
        if self.fault:
            return not_established(Reason.INTERNAL, str(self.fault))
        fact = self.fact
        return not_established(Reason(fact.state), fact.reason or f"{fact.id} is {fact.state}")


class Look:
    """The evidence as one judge sees it; remembers what was looked at."""

    def __init__(self, evidence: Evidence):
        self._evidence = evidence
        self.used: list[str] = []

    @property
    def kind(self) -> RunKind:
        return self._evidence.kind

    def fact(self, type: FactType[T]) -> Fact[T]:
        """The fact, known or not. Raises MissingFact where an error of seatrial's own is why it is not."""
        self.used.append(type.id)
        found = self._evidence.get(type)
        if not found.known and (fault := self._evidence.faulty(type)):
            raise MissingFact(found, fault)
        return found

    def aside(self, type: FactType[T]) -> Fact[T]:
        """The fact, to be shown beside what is judged: the verdict does not rest on it."""
        return self._evidence.get(type)

    def value(self, type: FactType[T]) -> T:
        """The value of a known fact. Raises MissingFact otherwise."""
        return self.known(self.fact(type))

    def known(self, fact: Fact[T]) -> T:
        """The value of a fact that was looked at already. Raises MissingFact if it has none."""
        if not fact.known:
            raise MissingFact(fact, None)
        return fact.value


Judge = Callable[[Claim, Look], Answer]


def count(number: int, noun: str) -> str:
    """`1 step`, `20 steps`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
