"""Who makes the facts of each kind of evidence, for each kind of run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from seatrial.events.base import Nonsense
from seatrial.evidence.facts.fact import FACTS, Evidence, Fact, Fault
from seatrial.evidence.fault import fault
from seatrial.evidence.observed import environment as observed_environment
from seatrial.evidence.observed import execution as observed_execution
from seatrial.evidence.observed import look, others
from seatrial.evidence.observed import transport as observed_transport
from seatrial.evidence.run import Run
from seatrial.evidence.script import execution as script_execution
from seatrial.evidence.script import learning as script_learning
from seatrial.evidence.script import recovery as script_recovery
from seatrial.evidence.script import transport as script_transport
from seatrial.evidence.training import environment, execution, learning, performance, recovery, transport
from seatrial.trial.kinds import OBSERVED, RUN, SCRIPT

Maker = Callable[[Run], Iterable[Fact[Any]]]


def _of_a_look(make: Callable[[look.Seen], Iterable[Fact[Any]]]) -> Maker:
    return lambda run: make(look.read(run))


MAKERS: Mapping[str, Mapping[str, Maker]] = {
    RUN.name: {
        "execution": execution.facts,
        "transport": transport.facts,
        "performance": performance.facts,
        "learning": learning.facts,
        "recovery": recovery.facts,
        "environment": environment.facts,
    },
    SCRIPT.name: {
        "execution": script_execution.facts,
        "transport": script_transport.facts,
        "performance": performance.facts,
        "learning": script_learning.facts,
        "recovery": script_recovery.facts,
        "environment": environment.facts,
    },
    OBSERVED.name: {
        "execution": _of_a_look(observed_execution.facts),
        "transport": _of_a_look(observed_transport.facts),
        "performance": _of_a_look(others.of_performance),
        "learning": _of_a_look(others.of_learning),
        "recovery": _of_a_look(others.of_recovery),
        "environment": _of_a_look(observed_environment.facts),
    },
}


def observe(run: Run) -> Evidence:
    """The evidence of a run, kinds apart. Never raises.

    Events that make no sense together establish nothing of that kind, and the others are still judged. An error of
    seatrial's own is a fault: the facts of that kind are missing, and no claim that needs them is judged.
    """
    facts: dict[str, dict[str, Fact[Any]]] = {}
    faults: list[Fault] = []
    for kind, make in MAKERS[run.kind.name].items():
        try:
            facts[kind] = {fact.id: fact for fact in make(run)}
        except Nonsense as error:
            type = FACTS[f"{kind}.error"]
            facts[kind] = {type.id: type.error(f"the events make no sense: {error}")}
        except Exception as error:  # a bug of ours must not keep the record from being sealed, nor pass for evidence
            facts[kind] = {}
            faults.append(fault(kind, error))
    return Evidence(facts, run.kind, run.void, tuple(faults))
