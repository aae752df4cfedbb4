"""GPUs and their peak rates, the reference for MFU and for shares of bandwidth."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from seatrial.hardware.table import rows


@dataclass(frozen=True)
class Gpu:
    """One GPU model, of the form that the instances have (SXM for H100 and H200)."""

    name: str  # "L4", as in `Instance.gpu`
    bf16_dense_tflops: float | None  # without sparsity: half of what many datasheets print first
    memory_gb_per_s: int | None
    trap: str  # the figure or name that is often mistaken for this one; empty: none known
    source: str
    unverified: tuple[str, ...]


@cache
def gpus() -> tuple[Gpu, ...]:
    """Every known GPU."""
    return tuple(Gpu(**row) for row in rows("gpus.json"))


def gpu(name: str) -> Gpu | None:
    """The GPU with exactly this name; None if it is unknown."""
    return next((entry for entry in gpus() if entry.name == name), None)
