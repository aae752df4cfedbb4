"""What can be known of a run: every fact with the type of its value, its unit and its meaning, and every reason.

Makers (`evidence.training`, `.script`, `.observed`) and judges (`evidence.judges`) use the same types, so that a
difference between what one makes and the other reads is an error of the type checker.
"""

from seatrial.evidence.facts import environment, execution, learning, outside, performance, recovery, transport
from seatrial.evidence.facts.fact import FACTS, FAMILIES, Evidence, Fact, FactType, Family, Fault, State
from seatrial.evidence.facts.reasons import Reason, meaning

__all__ = [
    "FACTS",
    "FAMILIES",
    "Evidence",
    "Fact",
    "FactType",
    "Family",
    "Fault",
    "Reason",
    "State",
    "environment",
    "execution",
    "learning",
    "meaning",
    "outside",
    "performance",
    "recovery",
    "transport",
]
