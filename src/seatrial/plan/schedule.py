"""Learning rate as a pure function of the step: linear warm-up, then cosine to a tenth."""

from __future__ import annotations

import math

FLOOR = 0.1


def learning_rate(step: int, *, peak: float, warmup_steps: int, steps: int) -> float:
    """The rate of 1-based `step`; reaches `peak` at `warmup_steps`, and `FLOOR * peak` at `steps`."""
    if step <= warmup_steps:
        return peak * step / warmup_steps
    progress = (step - warmup_steps) / max(1, steps - warmup_steps)
    return peak * (FLOOR + (1 - FLOOR) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))
