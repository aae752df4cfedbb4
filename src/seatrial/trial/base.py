"""The shape every section shares: frozen, nothing extra, no silent conversion."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of a trial. Strict: `"2"` is not 2, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Misfit(ValueError):
    """A value that does not go together with others of its section; `keys` lead to the one to point at, if one is."""

    def __init__(self, message: str, *keys: str | int):
        super().__init__(message)
        self.keys = tuple(key for key in keys if key != "")
