"""From events to verdicts: `facts` says what can be known, each kind of run makes its own, `judge` judges claims."""

from __future__ import annotations

from pathlib import Path

from seatrial.evidence.facts import Evidence, Fact, Fault
from seatrial.evidence.judges import Judgement, Verdict, exit_code, judge
from seatrial.evidence.makers import observe
from seatrial.evidence.run import Run, gather

__all__ = [
    "Evidence",
    "Fact",
    "Fault",
    "Judgement",
    "Run",
    "Verdict",
    "exit_code",
    "gather",
    "judge",
    "observe",
    "read_evidence",
]


def read_evidence(root: Path) -> tuple[Run, Evidence]:
    """A run directory and its evidence. Raises EvidenceError if it is no run directory."""
    run = gather(root)
    return run, observe(run)
