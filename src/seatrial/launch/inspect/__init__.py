"""`seatrial inspect`: looks at a training job that already runs, and seals what it saw. Read-only."""

from seatrial.launch.inspect.look import Asked, Outcome, inspect

__all__ = ["Asked", "Outcome", "inspect"]
