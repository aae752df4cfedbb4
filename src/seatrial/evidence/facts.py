"""Facts and verdicts as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

State = Literal["value", "not-applicable", "unknown", "error"]
SUPPORTED, REFUTED, NOT_ESTABLISHED = "supported", "refuted", "not-established"


@dataclass(frozen=True)
class Fact:
    """One observed value with its witness. `reason` says why there is none where `state` is not `value`."""

    id: str
    state: State = "value"
    value: Any = None
    unit: str = ""
    witness: str = ""
    reason: str = ""

    @property
    def known(self) -> bool:
        return self.state == "value"

    def json(self) -> dict[str, Any]:
        """Without the fields that say nothing."""
        shown: dict[str, Any] = {"id": self.id, "state": self.state}
        if self.state == "value":
            shown["value"] = self.value
        return shown | {k: v for k, v in (("unit", self.unit), ("witness", self.witness), ("reason", self.reason)) if v}


def unknown(name: str, reason: str, witness: str = "") -> Fact:
    """A fact that could not be seen."""
    return Fact(name, "unknown", reason=reason, witness=witness)


@dataclass(frozen=True)
class Evidence:
    """The facts of a run by kind. `void` says why no claim can be judged at all."""

    facts: dict[str, dict[str, Fact]]
    void: str = ""

    def get(self, name: str) -> Fact:
        """The fact, or an unknown one if nobody looked."""
        return self.facts.get(name.partition(".")[0], {}).get(name) or unknown(name, "no such evidence in this run")

    def json(self) -> dict[str, Any]:
        return {kind: {name: fact.json() for name, fact in facts.items()} for kind, facts in self.facts.items()}


@dataclass(frozen=True)
class Verdict:
    """What became of one claim."""

    claim: str
    verdict: str
    reason: str
    asked: dict[str, Any]
    seen: str
    evidence: tuple[str, ...] = field(default=())

    def json(self) -> dict[str, Any]:
        return {
            "claim": self.claim,
            "verdict": self.verdict,
            "reason": self.reason,
            "asked": self.asked,
            "seen": self.seen,
            "evidence": list(self.evidence),
        }
