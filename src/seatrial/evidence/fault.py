"""Errors of seatrial's own: where each happened, in one line."""

from __future__ import annotations

import traceback
from pathlib import PurePath
from types import FrameType

from seatrial.errors import clean
from seatrial.evidence.facts.fact import Fault

PACKAGE = "seatrial"


def fault(about: str, error: Exception) -> Fault:
    """The fault that an exception is, with the innermost line of this package that it came through."""
    lines = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if _is_own(frame)]
    where = f"{_place(lines[-1][0])}:{lines[-1][1]}" if lines else PACKAGE
    return Fault(about, where, clean(f"{type(error).__name__}: {error}", 300))


def _module(frame: FrameType) -> list[str]:
    return str(frame.f_globals.get("__name__", "")).split(".")


def _is_own(frame: FrameType) -> bool:
    """By the module's name: the package may lie in a zip, and dependencies below a folder of the same name."""
    return _module(frame)[0] == PACKAGE


def _place(frame: FrameType) -> str:
    """The file by its place in the package: a record must not tell where the package lay."""
    file, module = PurePath(frame.f_code.co_filename).name, _module(frame)
    return "/".join([*(module if file == "__init__.py" else module[:-1]), file])
