"""Judges of the transport claims: a reader's word becomes a verdict (DESIGN, section 5)."""

from __future__ import annotations

from typing import Any

from seatrial.evidence.facts import NOT_ESTABLISHED, REFUTED, SUPPORTED, Fact
from seatrial.evidence.look import Answer, Judge, Look, Missing

_ASIDE = {"log-only": "uncorroborated", "witnesses-disagree": "contradiction", "insufficient": "unknown"}
_BETWEEN = {"internode": "between hosts", "intranode": "within a host", "gpudirect": "GPUDirect RDMA"}


def _path(question: str) -> Judge:
    def decide(asked: dict[str, Any], look: Look) -> Answer:
        fact = look.fact(f"transport.{question}.path")
        if fact.state == "not-applicable":
            return NOT_ESTABLISHED, "unknown", fact.reason
        if not fact.known:
            raise Missing(fact)
        seen, word = fact.value["path"], fact.value["word"]
        why = "; ".join(fact.value["reasons"])
        # One whole line that says otherwise refutes, whatever else is missing; a witness that disagrees does not.
        said = [path for path in fact.value.get("saying", []) if path != asked["equals"]]
        if said and word in ("log-only", "insufficient"):
            shown = (
                f"{_BETWEEN[question]}: {', '.join(map(_word, said))} by the log (claimed: {_word(asked['equals'])})"
            )
            return REFUTED, "different", shown
        if word in _ASIDE:
            return NOT_ESTABLISHED, _ASIDE[word], why or f"{_shown(question, fact)}, by one witness alone"
        shown = f"{_shown(question, fact)} (claimed: {_word(asked['equals'])})" + (f"; {why}" if why else "")
        if seen is None or seen == "" or word not in ("corroborated", "refuted"):
            return NOT_ESTABLISHED, "unknown", shown
        if seen != asked["equals"]:
            return REFUTED, "different", shown
        return (SUPPORTED, "", shown) if word == "corroborated" else (NOT_ESTABLISHED, "contradiction", shown)

    return decide


def _word(value: Any) -> str:
    return {True: "used", False: "not used"}[value] if isinstance(value, bool) else str(value)


def _shown(question: str, fact: Fact) -> str:
    """`between hosts: tcp over eth0`."""
    over = ", ".join(fact.value.get("interfaces", []))
    return f"{_BETWEEN[question]}: {_word(fact.value['path'])}" + (f" over {over}" if over else "")


def _busbw(asked: dict[str, Any], look: Look) -> Answer:
    """A lower bound can support, and never refute. Bytes that did not go where the plan has them support nothing."""
    least = float(look.value("transport.busbw")["at_least_gb_per_s"])
    shown = f"at least {least:.3g} GB/s, by the time of whole steps (claimed: at least {asked['min']:g})"
    # The slower of the paths that a collective takes is the one between hosts, where there are several.
    question = "internode" if look.fact("transport.internode.path").state != "not-applicable" else "intranode"
    fact = look.fact(f"transport.{question}.path")
    if not fact.known:
        raise Missing(fact)
    if fact.value["word"] != "corroborated":
        word = _ASIDE.get(fact.value["word"], "unknown")
        return NOT_ESTABLISHED, word, f"{_BETWEEN[question]}: {fact.value['word']}; {shown}"
    if least >= asked["min"]:
        return SUPPORTED, "", shown
    return NOT_ESTABLISHED, "unknown", f"{shown}; single collectives are not timed"


def beside(look: Look) -> str:
    """The path that stands beside every throughput: shown with it, never judged by it."""
    said = []
    for question in ("internode", "intranode"):
        fact = look.aside(f"transport.{question}.path")
        if fact.state == "not-applicable":
            continue
        if fact.known:
            said.append(f"{_shown(question, fact)}, {fact.value['word']}")
        else:
            said.append(f"{_BETWEEN[question]}: {fact.reason}")
    return f"path of the bytes: {'; '.join(said)}" if said else "path of the bytes: one rank sends none"


JUDGES: dict[str, Judge] = {
    "transport.internode": _path("internode"),
    "transport.intranode": _path("intranode"),
    "transport.gpudirect": _path("gpudirect"),
    "transport.min_busbw": _busbw,
}
