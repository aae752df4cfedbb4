"""What events are made of: the base of every event, and numbers with the bounds within which sums stay finite."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

LARGEST = 1e150  # of a number that was measured: the squares of a million of them can be added up
SHORTEST = 1e-100  # of a time that is not zero: what is divided by it stays finite

Count = Annotated[int, Field(ge=0, le=1 << 100)]
Decimal = Annotated[str, Field(pattern=r"^[0-9]{1,40}$")]  # a counter or a size: it may pass 2⁵³


def _summable(value: float) -> float:
    if math.isfinite(value) and abs(value) > LARGEST:
        raise ValueError(f"{value} is beyond ±{LARGEST:g}")
    return value


def _dividing(seconds: float) -> float:
    if 0 < seconds < SHORTEST:
        raise ValueError(f"{seconds} s is shorter than any clock tells")
    return seconds


Seconds = Annotated[float, Field(ge=0, le=1e12), AfterValidator(_dividing)]
# One that is not finite may be written: the file then has a NonFinite in its place, and never the number.
Number = Annotated[float, AfterValidator(_summable)]


class Event(BaseModel):
    """What every event is: frozen, nothing extra. `TEXT` names the fields that can hold free text, and so a secret."""

    TEXT: ClassVar[tuple[str, ...]] = ()
    model_config = ConfigDict(frozen=True, extra="forbid")


class NonFinite(BaseModel):
    """Stands where a number should be and was not finite."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    state: Literal["error"] = "error"
    reason: Literal["non-finite"] = "non-finite"
    text: str


Measured = Number | NonFinite


class Nonsense(ValueError):
    """Events that no sound writer wrote: each is well formed, and together they cannot be. Says what is wrong."""
