"""Reads event files back, and says exactly how far each can be believed."""

from __future__ import annotations

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
    for sequence, line in enumerate(lines[:-1]):
        raw = line + b"\n"
        body = _body(line)
        if body is None or body.pop("prev", None) != previous or body.pop("seq", None) != sequence:
            ended = "gap"
            break
        moment = body.pop("utc", None)
        body.pop("mono", None)
        try:
            event = _ADAPTER.validate_python(body)
            datetime.fromisoformat(moment)
        except (TypeError, ValueError):  # pydantic's errors are ValueErrors too
            ended = "gap"
            break
        times.append(moment)
        events.append(event)
        previous = sha256(raw)
    else:
        if lines[-1]:
            ended = "torn"
        elif events and isinstance(events[-1], Closed):
            ended = "closed"
    return _own(Stream(name, tuple(events), tuple(times), ended), run)


def _body(line: bytes) -> dict[str, Any] | None:
    try:
        body = parse(line) if len(line) <= MAX_LINE else None
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _own(stream: Stream, run: str) -> Stream:
    """A file without a header of this run holds no evidence of it."""
    if stream.header is None or any(isinstance(e, Opened) for e in stream.events[1:]):
        return Stream(stream.path, (), (), "unreadable")
    if stream.header.run != run:
        return Stream(stream.path, (), (), "foreign")
    return stream
