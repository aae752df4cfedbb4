"""Errors of seatrial's own: where each happened, in one line."""

from __future__ import annotations

import traceback
from pathlib import PurePath

from seatrial.errors import clean
from seatrial.evidence.facts.fact import Fault

PACKAGE = "seatrial"


def fault(about: str, error: Exception) -> Fault:
    """The fault that an exception is, with the innermost line of this package that it came through."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if PACKAGE in PurePath(f.filename).parts]
    where = f"{_within(frames[-1].filename)}:{frames[-1].lineno}" if frames else "seatrial"
    return Fault(about, where, clean(f"{type(error).__name__}: {error}", 300))


def _within(filename: str) -> str:
    """A file by its place in the package: a record must not tell where the package lay."""
    parts = PurePath(filename).parts
    return "/".join(parts[len(parts) - parts[::-1].index(PACKAGE) - 1 :])
