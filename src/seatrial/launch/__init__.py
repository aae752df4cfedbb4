"""Starts a trial and follows it: on this machine, or with `launch.jobs` on an existing Ray cluster."""

from seatrial.launch.local import SealedRun, run

__all__ = ["SealedRun", "run"]
