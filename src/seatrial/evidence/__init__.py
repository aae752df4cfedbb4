"""Facts from events, one module for each kind, and the judge."""

from pathlib import Path

from seatrial.evidence import (
    environment,
    execution,
    learning,
    observed,
    performance,
    recovery,
    script_transport,
    transport,
)
from seatrial.evidence.facts import Evidence, Fact, Verdict
from seatrial.evidence.gather import Run, gather
from seatrial.evidence.judge import exit_code, judge

__all__ = ["Evidence", "Fact", "Run", "Verdict", "exit_code", "gather", "judge", "observe", "read_evidence"]


def observe(run: Run) -> Evidence:
    """The evidence of a run, kinds apart; of a job that was only looked at, what its observers saw."""
    if observed.is_observed(run):
        return Evidence(observed.facts(run), run.void)
    kinds = {
        "execution": execution,
        "transport": script_transport if run.script else transport,
        "performance": performance,
        "learning": learning,
        "recovery": recovery,
        "environment": environment,
    }
    facts: dict[str, dict[str, Fact]] = {}
    for kind, module in kinds.items():
        try:
            facts[kind] = module.facts(run)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # Events that a sound writer never wrote: the kind establishes nothing, the others are still judged.
            reason = f"the events make no sense: {type(error).__name__}: {error}"
            facts[kind] = {f"{kind}.error": Fact(f"{kind}.error", "error", reason=reason)}
    facts["execution"]["execution.tolerances"] = Fact(
        "execution.tolerances", value=run.plan.get("tolerances", {}), witness="driver, before step 0"
    )
    return Evidence(facts, run.void)


def read_evidence(root: Path) -> tuple[Run, Evidence]:
    """A run directory and its evidence. Raises EvidenceError if it is no run directory."""
    run = gather(root)
    return run, observe(run)
