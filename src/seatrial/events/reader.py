"""Reads event files back, and says exactly how far each can be believed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from seatrial.canon import parse, sha256
from seatrial.events.base import Event
from seatrial.events.schema import AnyEvent, Closed, Opened, Step
from seatrial.events.writer import GENESIS

_ADAPTER: TypeAdapter[Any] = TypeAdapter(AnyEvent)
E = TypeVar("E", bound=Event)
MAX_LINE = 64 << 20
DEEPEST = 100  # lists and objects in each other; whoever walks through a value goes one call deeper for each
_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


@dataclass(frozen=True)
class Stream:
    """The believable part of one file. `ended`: closed, open, torn, gap, unreadable, foreign or absent."""

    path: str
    events: tuple[Event, ...]
    times: tuple[str, ...]  # UTC per event
    ended: str

    @property
    def header(self) -> Opened | None:
        return self.events[0] if self.events and isinstance(self.events[0], Opened) else None

    @property
    def closed(self) -> bool:
        return self.ended == "closed"

    def all(self, kind: type[E]) -> Iterator[E]:
        """The events of one type, in order."""
        return (e for e in self.events if isinstance(e, kind))

    def dated(self, kind: type[E]) -> Iterator[tuple[E, str]]:
        """The events of one type with their UTC times."""
        return ((e, t) for e, t in zip(self.events, self.times, strict=True) if isinstance(e, kind))

    def last(self, kind: type[E]) -> E | None:
        """The last event of one type."""
        return next((e for e in reversed(self.events) if isinstance(e, kind)), None)

    def why_incomplete(self) -> str:
        """Empty if this process closed its file, else where its evidence ends."""
        if self.closed:
            return ""
        if self.ended in ("absent", "foreign", "unreadable"):
            return f"{self.path} is {self.ended}"
        step = self.last(Step)
        return f"evidence of {self.path} ends {f'at step {step.step}' if step else 'before step 1'} ({self.ended})"


def read(path: Path, name: str, run: str) -> Stream:
    """The stream in a file, up to the first line that does not continue the chain."""
    events: list[Event] = []
    times: list[str] = []
    ended = "open"
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return Stream(name, (), (), "absent")
    except OSError:
        return Stream(name, (), (), "unreadable")
    previous = GENESIS
    for sequence, text in enumerate(lines[:-1]):
        line = parsed_line(text)
        if line is None or line.previous != previous or line.sequence != sequence:
            ended = "gap"
            break
        times.append(line.utc)
        events.append(line.event)
        previous = sha256(text + b"\n")
    else:
        if lines[-1]:
            ended = "torn"
        elif events and isinstance(events[-1], Closed):
            ended = "closed"
    return own(Stream(name, tuple(events), tuple(times), ended), run)


@dataclass(frozen=True)
class EventLine:
    """One line: its event, when it was written, and its place in the chain as the line states it."""

    event: Event
    utc: str
    previous: Any
    sequence: Any


def parsed_line(text: bytes) -> EventLine | None:
    """The line without its newline; None for what no writer wrote."""
    try:
        body = parse(text) if len(text) <= MAX_LINE else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict) or (text.count(b"[") + text.count(b"{") > DEEPEST and _depth(body) > DEEPEST):
        return None
    previous, sequence, moment = (body.pop(name, None) for name in ("prev", "seq", "utc"))
    body.pop("mono", None)
    try:
        if not _UTC.fullmatch(moment):
            return None
        datetime.fromisoformat(moment)
        return EventLine(_ADAPTER.validate_python(body), moment, previous, sequence)
    except (TypeError, ValueError):  # pydantic's errors are ValueErrors too
        return None


def _depth(value: Any) -> int:
    """How deep lists and objects lie in each other."""
    depth, layer = 0, [value]
    while layer := [each for each in layer if isinstance(each, dict | list)]:
        depth += 1
        layer = [inner for each in layer for inner in (each.values() if isinstance(each, dict) else each)]
    return depth


def own(stream: Stream, run: str) -> Stream:
    """A file without a header of this run holds no evidence of it."""
    if stream.header is None or any(isinstance(e, Opened) for e in stream.events[1:]):
        return Stream(stream.path, (), (), "unreadable")
    if stream.header.run != run:
        return Stream(stream.path, (), (), "foreign")
    return stream
