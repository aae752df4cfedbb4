"""`seatrial inspect`: observes a training job that already runs, read-only, and seals what it saw."""

from seatrial.launch.inspect.inspection import InspectRequest, SealedInspection, inspect

__all__ = ["InspectRequest", "SealedInspection", "inspect"]
