"""WHAT FOLLOWS from a trial: pure arithmetic."""

from seatrial.plan.batches import Plan, plan

__all__ = ["Plan", "plan"]
