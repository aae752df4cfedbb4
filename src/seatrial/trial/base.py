"""The base of every section: frozen, no unknown keys, no silent conversion."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of a trial. Strict: `"2"` is not 2, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class SectionError(ValueError):
    """A mistake in a section. `keys` lead from the section to the wrong value; without them the section is meant."""

    def __init__(self, message: str, *keys: str | int):
        super().__init__(message)
        self.keys = tuple(key for key in keys if key != "")
