"""Judges claims by facts. Pure: no table, no file, no clock; what it needs to know is a fact."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from seatrial.errors import EXIT_ENDED_EARLY, EXIT_NOT_ESTABLISHED, EXIT_OK, EXIT_REFUTED
from seatrial.evidence.facts import NOT_ESTABLISHED, REFUTED, SUPPORTED, Evidence, Verdict
from seatrial.evidence.look import Look, Missing
from seatrial.evidence.rules import JUDGES
from seatrial.trial.claims import REGISTRY


def judge(claims: Iterable[dict[str, Any]], evidence: Evidence) -> list[Verdict]:
    """A verdict for each claim, in order. Never raises: evidence that makes no sense establishes nothing."""
    return [_one(claim, evidence) for claim in claims]


def _one(claim: dict[str, Any], evidence: Evidence) -> Verdict:
    name = str(claim.get("claim", ""))
    asked = {k: v for k, v in claim.items() if k != "claim"}
    look = Look(evidence)
    if evidence.void:
        return Verdict(name, NOT_ESTABLISHED, "void", asked, evidence.void)
    decide = JUDGES.get(name)
    if decide is None:
        return Verdict(name, NOT_ESTABLISHED, "not-run", asked, _not_run(name))
    try:
        verdict, reason, seen = decide(asked, look)
    except Missing as missing:
        fact = missing.fact
        verdict, reason, seen = NOT_ESTABLISHED, fact.state, fact.reason or f"{fact.id} is {fact.state}"
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError) as error:
        verdict, reason, seen = (
            NOT_ESTABLISHED,
            "error",
            f"the evidence makes no sense: {type(error).__name__}: {error}",
        )
    return Verdict(name, verdict, reason, asked, seen, tuple(dict.fromkeys(look.used)))


def _not_run(name: str) -> str:
    entry = REGISTRY.get(name)
    return (
        f"established by a {entry.established_by}; this run has no such evidence" if entry else "no such claim is known"
    )


def exit_code(verdicts: Iterable[Verdict], *, ended_early: bool, kind: str = "run") -> int:
    """The exit code of a judged run: over the claims that this kind of run can establish (DESIGN, section 6)."""
    if ended_early:
        return EXIT_ENDED_EARLY
    counted = [v for v in verdicts if v.claim not in REGISTRY or REGISTRY[v.claim].established_by == kind]
    if any(v.verdict == REFUTED for v in counted):
        return EXIT_REFUTED
    return EXIT_OK if counted and all(v.verdict == SUPPORTED for v in counted) else EXIT_NOT_ESTABLISHED
