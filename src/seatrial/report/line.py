"""The line of a fact: its type, and what says a value of that type in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from seatrial.evidence.facts import FactType

T = TypeVar("T")


@dataclass(frozen=True)
class Line:
    """Made by `line`, so that `text` takes the values of `type`. It raises nothing for any of them."""

    type: FactType[Any]
    text: Callable[[Any], str]


def line(type: FactType[T], text: Callable[[T], str]) -> Line:
    """A line for a type of fact."""
    return Line(type, text)
