"""Judges of the transport claims: a reader's word becomes a verdict (DESIGN, section 5)."""

from __future__ import annotations

from seatrial.evidence.facts import transport
from seatrial.evidence.facts.reasons import Reason
from seatrial.evidence.facts.transport import CORROBORATED, DISAGREE, INSUFFICIENT, LOG_ONLY, PATH, REFUTED, PathFinding
from seatrial.evidence.judges.look import Answer, Judge, Look, not_established, refuted, supported
from seatrial.trial.claims import Claim

ASIDE = {LOG_ONLY: Reason.UNCORROBORATED, DISAGREE: Reason.CONTRADICTION, INSUFFICIENT: Reason.UNKNOWN}
BETWEEN = {"internode": "between hosts", "intranode": "within a host", "gpudirect": "GPUDirect RDMA"}


def path(question: str) -> Judge:
    """The judge of one question: which path, by witnesses that agree."""

    def decide(asked: Claim, look: Look) -> Answer:
        fact = look.fact(PATH[question])
        if fact.state == "not-applicable":
            return not_established(Reason.UNKNOWN, fact.reason)
        finding = look.known(fact)
        wanted, why = asked.equals, "; ".join(finding.reasons)
        # One whole line that says otherwise refutes, whatever else is missing; a witness that disagrees does not.
        said = [path for path in finding.saying or () if path != wanted]
        if said and finding.word in (LOG_ONLY, INSUFFICIENT):
            paths = ", ".join(map(_word, said))
            shown = f"{BETWEEN[question]}: {paths} by the log (claimed: {_word(wanted)})"
            return refuted(Reason.DIFFERENT, shown)
        if finding.word in ASIDE:
            return not_established(ASIDE[finding.word], why or f"{_shown(question, finding)}, by one witness alone")
        shown = f"{_shown(question, finding)} (claimed: {_word(wanted)})" + (f"; {why}" if why else "")
        if finding.path in (None, "") or finding.word not in (CORROBORATED, REFUTED):
            return not_established(Reason.UNKNOWN, shown)
        if finding.path != wanted:
            return refuted(Reason.DIFFERENT, shown)
        return supported(shown) if finding.word == CORROBORATED else not_established(Reason.CONTRADICTION, shown)

    return decide


def _word(value: object) -> str:
    return {True: "used", False: "not used"}[value] if isinstance(value, bool) else str(value)


def _shown(question: str, finding: PathFinding) -> str:
    """`between hosts: tcp over eth0`."""
    over = ", ".join(finding.interfaces or ())
    return f"{BETWEEN[question]}: {_word(finding.path)}" + (f" over {over}" if over else "")


def busbw(asked: Claim, look: Look) -> Answer:
    """A lower bound can support, and never refute. Bytes that did not go where the plan has them support nothing."""
    least, wanted = look.value(transport.BUSBW).at_least_gb_per_s, asked.number("min")
    shown = f"at least {least:.3g} GB/s, by the time of whole steps (claimed: at least {wanted:g})"
    # The slower of the paths that a collective takes is the one between hosts, where there are several.
    question = "internode" if look.fact(transport.INTERNODE).state != "not-applicable" else "intranode"
    finding = look.value(PATH[question])
    if finding.word != CORROBORATED:
        reason = ASIDE.get(finding.word, Reason.UNKNOWN)
        return not_established(reason, f"{BETWEEN[question]}: {finding.word}; {shown}")
    if least >= wanted:
        return supported(shown)
    return not_established(Reason.UNKNOWN, f"{shown}; single collectives are not timed")


def beside(look: Look) -> str:
    """The path that stands beside every throughput: shown with it, never judged by it."""
    said = []
    for question in ("internode", "intranode"):
        fact = look.aside(PATH[question])
        if fact.state == "not-applicable":
            continue
        if fact.known:
            said.append(f"{_shown(question, fact.value)}, {fact.value.word}")
        else:
            said.append(f"{BETWEEN[question]}: {fact.reason}")
    return f"path of the bytes: {'; '.join(said)}" if said else "path of the bytes: one rank sends none"
