"""The frame of a line: who wrote it, behind whatever a launcher or a log driver put in front.

Frames are `host:pid:tid [device] NCCL INFO message`, for warnings `host:pid:tid [device] file:line NCCL WARN message`
(2.8 to 2.29) and `… file:line (function) NCCL WARN message` (from 2.30); a timestamp of NCCL's own stands before the
host. The anchor is searched, not matched, so that no wrapper has to be known for a line to be understood.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

INFO = b" NCCL INFO "
_HEAD = re.compile(rb"([^\s:]+):(\d{1,12}):(\d+) \[(-?\d+)\]$")
ANCHOR = re.compile(
    rb"([^\s:]+):(\d{1,12}):(\d+) \[(-?\d+)\] (?:([\w./-]+:\d+)(?: \(\w+\))? )?NCCL (INFO|WARN) ",
)
ANSI = re.compile(rb"\x1b\[[0-9;]*m")
REPEATED = re.compile(rb" ?\[repeated (\d{1,12})x across cluster\].*$")
# What tells writers apart that share host name and pid: Ray's worker, mpirun's and torchrun's rank.
_TAG = re.compile(rb"\((?:\w+ )?(pid=\d+(?:, ip=[^)]+)?)\) |^\[(\d+,\d+)\]<|^\[(?:rank|default)(\d+)\]:")
_CRI = re.compile(rb"^\S+ (stdout|stderr) ([FP]) ")


@dataclass(frozen=True)
class LogWriter:
    """A process as its lines name it; `host` is cut at the first point by NCCL itself."""

    host: str
    pid: int
    tag: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}" + (f" ({self.tag})" if self.tag else "")


def writer(head: bytes) -> LogWriter | None:
    """Who wrote a line, from what stands before ` NCCL INFO `; None where that is torn."""
    clean = ANSI.sub(b"", head) if b"\x1b" in head else head
    found = _HEAD.search(clean)
    return _named(found[1], found[2], clean[: found.start()]) if found else None


def _named(host: bytes, pid: bytes, before: bytes) -> LogWriter:
    tags = [next(part for part in found.groups() if part) for found in _TAG.finditer(before)]
    # A worker's own line comes through its parent in nested prefixes: the innermost is the writer.
    return LogWriter(host.decode("utf-8", "replace"), int(pid), tags[-1].decode("utf-8", "replace") if tags else "")


@dataclass(frozen=True)
class Piece:
    """One message out of a line. `whole` is false for what was cut or interleaved: never evidence."""

    writer: LogWriter | None
    level: str
    message: bytes
    whole: bool
    repeated: int = 0


def pieces(line: bytes) -> Iterator[Piece]:
    """The messages in a line: one, or several where processes wrote into each other's lines."""
    text = ANSI.sub(b"", line) if b"\x1b" in line else line
    text = text.rstrip(b"\r")
    repeated = REPEATED.search(text)
    if repeated:
        text = text[: repeated.start()]
    times = int(repeated[1]) if repeated else 0
    found = list(ANCHOR.finditer(text))
    for position, anchor in enumerate(found):
        last = position == len(found) - 1
        end = len(text) if last else found[position + 1].start()
        who = _named(anchor[1], anchor[2], text[: anchor.start()])
        # Of interleaved ones the first is cut where the second begins, and the second may go on in the first's tail.
        yield Piece(who, anchor[6].decode(), text[anchor.end() : end], len(found) == 1, times)


def kind_of(sample: Iterable[bytes]) -> str:
    """`cri`, `json` or `plain`: how a log driver keeps lines, from a few of them."""
    lines = [line for line in sample if line.strip()]
    if lines and all(_CRI.match(line) for line in lines):
        return "cri"
    return "json" if lines and all(line.startswith(b'{"') and b'"log"' in line for line in lines) else "plain"


class Unwrapper:
    """Lines as the process wrote them, from a container runtime's file (CRI, with partial lines) or JSON records."""

    def __init__(self, kind: str):
        self._kind = kind
        self._partial: dict[bytes, bytes] = {}

    def lines(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """What lies in each line; parts of a line are held until its end is there."""
        for line in lines:
            if self._kind == "cri":
                yield from self._cri(line)
            elif self._kind == "json":
                yield from self._json(line)
            else:
                yield line

    def _cri(self, line: bytes) -> Iterator[bytes]:
        found = _CRI.match(line)
        if found is None:
            yield line
            return
        text = self._partial.pop(found[1], b"") + line[found.end() :]
        if found[2] == b"P":
            self._partial[found[1]] = text
        else:
            yield text

    def _json(self, line: bytes) -> Iterator[bytes]:
        try:
            record = json.loads(line)
            text, stream = str(record["log"]).encode(), str(record.get("stream", "")).encode()
        except (ValueError, KeyError, TypeError, AttributeError):
            yield line
            return
        text = self._partial.pop(stream, b"") + text
        if text.endswith(b"\n"):
            yield from text[:-1].split(b"\n")
        else:
            self._partial[stream] = text

    @property
    def unfinished(self) -> int:
        """Lines whose end never came."""
        return len(self._partial)
