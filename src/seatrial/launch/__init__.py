"""Starts a trial somewhere and follows it: this machine."""

from seatrial.launch.local import Outcome, run

__all__ = ["Outcome", "run"]
