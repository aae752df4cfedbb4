"""Judges claims by facts: one function a claim and kind of run. A fact that is not known never counts for a claim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from seatrial.errors import EXIT_ENDED_EARLY, EXIT_INTERNAL, EXIT_NOT_ESTABLISHED, EXIT_OK, EXIT_REFUTED
from seatrial.evidence.facts.fact import Evidence, Fault
from seatrial.evidence.facts.reasons import Reason
from seatrial.evidence.fault import fault
from seatrial.evidence.judges import environment, execution, learning, performance, recovery, script, tasks, transport
from seatrial.evidence.judges.look import (
    NOT_ESTABLISHED,
    REFUTED,
    SUPPORTED,
    Answer,
    Judge,
    Look,
    MissingFact,
    Verdict,
    not_established,
)
from seatrial.trial.claims import REGISTRY, Claim
from seatrial.trial.kinds import RUN, SCRIPT, RunKind

__all__ = ["JUDGES", "NOT_ESTABLISHED", "REFUTED", "SUPPORTED", "Judgement", "Verdict", "exit_code", "judge"]

# A claim is judged by the entry of the run's kind, else by that of the built-in training: of a job that was looked at,
# the same facts are asked for, and those that looking cannot show say why.
JUDGES: Mapping[str, Mapping[str, Judge]] = {
    RUN.name: {
        "execution.finished": execution.finished,
        "execution.completed": execution.completed,
        "execution.all_ranks_participated": execution.participated,
        "transport.internode": transport.path("internode"),
        "transport.intranode": transport.path("intranode"),
        "transport.gpudirect": transport.path("gpudirect"),
        "transport.min_busbw": transport.busbw,
        "performance.tokens_per_second": performance.throughput,
        "performance.step_time_p95": performance.step_time,
        "learning.heldout.loss": learning.heldout("loss"),
        "learning.heldout.bits_per_byte": learning.heldout("bits_per_byte"),
        "learning.task.accuracy": tasks.accuracy,
        "recovery.checkpoint_reloads": recovery.reloads,
        "environment.image_ran": environment.image_ran,
        "environment.hosts_agree": environment.hosts_agree,
    },
    SCRIPT.name: {
        "execution.finished": script.finished,
        "execution.completed": script.completed,
        "execution.all_ranks_participated": script.participated,
        "learning.heldout.loss": script.heldout("loss"),
        "learning.heldout.bits_per_byte": script.heldout("bits_per_byte"),
    },
}


class Judgement(tuple[Verdict, ...]):
    """The verdicts in the claims' order, and `faults`: errors of seatrial's own on the way to them."""

    faults: tuple[Fault, ...] = ()


def judge(claims: Iterable[dict[str, Any]], evidence: Evidence) -> Judgement:
    """A verdict for each claim, in order. An error of a judge's own is a fault, and that claim's verdict says so."""
    verdicts: list[Verdict] = []
    faults = list(evidence.faults)
    for claim in claims:
        try:
            verdicts.append(_verdict(claim, evidence))
        except Exception as error:  # a bug of ours must not keep the record from being sealed, nor pass for evidence
            name = str(claim.get("claim", ""))
            faults.append(fault(name, error))
            verdicts.append(Verdict(name, not_established(Reason.INTERNAL, str(faults[-1])), _asked(claim)))
    judgement = Judgement(verdicts)
    judgement.faults = tuple(faults)
    return judgement


def _verdict(claim: dict[str, Any], evidence: Evidence) -> Verdict:
    name = str(claim.get("claim", ""))
    if evidence.void:
        return Verdict(name, not_established(Reason.VOID, evidence.void), _asked(claim))
    decide = JUDGES.get(evidence.kind.name, {}).get(name) or JUDGES[RUN.name].get(name)
    if decide is None:
        return Verdict(name, not_established(Reason.NOT_RUN, _not_run(name)), _asked(claim))
    look = Look(evidence)
    answer = _answer(decide, claim, look)
    return Verdict(name, answer, _asked(claim), tuple(dict.fromkeys(look.used)))


def _answer(decide: Judge, claim: dict[str, Any], look: Look) -> Answer:
    try:
        asked = Claim.model_validate(claim)
    except ValidationError as error:
        return not_established(Reason.ERROR, f"the claim makes no sense: {error.errors()[0]['msg']}")
    try:
        return decide(asked, look)
    except MissingFact as missing:
        return missing.answer()


def _asked(claim: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in claim.items() if name != "claim"}


def _not_run(name: str) -> str:
    entry = REGISTRY.get(name)
    return (
        f"established by a {entry.established_by}; this run has no such evidence" if entry else "no such claim is known"
    )


def exit_code(
    verdicts: Iterable[Verdict], *, ended_early: bool, kind: RunKind = RUN, faults: Iterable[Fault] = ()
) -> int:
    """The exit code of a judged run: over the claims that its kind can establish (DESIGN, section 6)."""
    if any(faults):
        return EXIT_INTERNAL
    if ended_early:
        return EXIT_ENDED_EARLY
    counted = [v for v in verdicts if v.claim not in REGISTRY or REGISTRY[v.claim].established_by == kind.establishes]
    if any(v.verdict == REFUTED for v in counted):
        return EXIT_REFUTED
    return EXIT_OK if counted and all(v.verdict == SUPPORTED for v in counted) else EXIT_NOT_ESTABLISHED
