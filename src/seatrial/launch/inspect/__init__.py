"""`seatrial inspect`: looks at a training job that already runs, and seals what it saw. Read-only."""

from seatrial.launch.inspect.inspection import InspectRequest, SealedInspection, inspect

__all__ = ["InspectRequest", "SealedInspection", "inspect"]
