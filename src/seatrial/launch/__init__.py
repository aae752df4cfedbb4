"""Starts a trial somewhere and follows it: this machine, or with `launch.jobs` a Ray cluster that is there already."""

from seatrial.launch.local import SealedRun, run

__all__ = ["SealedRun", "run"]
