"""What every event is."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class Event(BaseModel):
    """What every event is: frozen, nothing extra. `TEXT` names the fields that can hold free text, and so a secret."""

    TEXT: ClassVar[tuple[str, ...]] = ()
    model_config = ConfigDict(frozen=True, extra="forbid")
