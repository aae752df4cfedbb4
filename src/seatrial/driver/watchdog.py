"""Ends a run that makes no progress: a hung training thread is invisible to Ray, whose health check runs beside it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from seatrial.canon import parse
from seatrial.events import Layout, Stream, Writer, read
from seatrial.events.schema import Step, TimedOut
from seatrial.events.writer import host_identity
from seatrial.trial.workload import Timeout

POLL_S = 0.5
STACKS = signal.SIGUSR2  # members write their stacks when they get it


@dataclass(frozen=True)
class Limits:
    """Seconds until the first step, and without progress after it. A reload has only the first."""

    start: float
    step: float

    @classmethod
    def of(cls, timeout: Timeout) -> Limits:
        return cls(timeout.start, timeout.step)


class Watchdog:
    """Follows the event files of one phase; calls `fire` once, from its thread, when a limit has passed."""

    def __init__(
        self, layout: Layout, role: str, ranks: int, limits: Limits, events: Writer, fire: Callable[[str], None]
    ):
        self._layout, self._role, self._limits, self._events, self._fire = layout, role, limits, events, fire
        self._files = [layout.process(1, f"{role}-{rank}") for rank in range(ranks)]
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _watch(self) -> None:
        began = changed = time.monotonic()
        sizes: list[int] = []
        stepping = False
        while not self._stopping.wait(POLL_S):
            now, seen = time.monotonic(), [_size(f) for f in self._files]
            if seen != sizes:
                sizes, changed = seen, now
                stepping = stepping or (self._role == "rank" and all(_has_stepped(f) for f in self._files))
            limit = "step" if stepping else "start"
            allowed = self._limits.step if stepping else self._limits.start
            if now - (changed if stepping else began) > allowed:
                self._expire(limit, allowed)
                return

    def _expire(self, limit: str, allowed: float) -> None:
        streams = [read(f, f.name, self._layout.root.name) for f in self._files]
        steps = [e.step if (e := s.last(Step)) else 0 for s in streams]
        last = [len(s.events) for s in streams]
        behind = [rank for rank, count in enumerate(last) if count < max(last, default=0)] or list(range(len(streams)))
        self._events.write(
            TimedOut(
                limit=f"workload.timeout.{limit}", seconds=allowed, last_step=min(steps, default=0), waiting_for=behind
            )
        )
        ask_for_stacks(streams)
        what = "no first step" if limit == "start" else f"no progress after step {min(steps, default=0)}"
        who = f"rank {behind[0]} is behind" if len(behind) == 1 and len(streams) > 1 else "no rank moves"
        self._fire(f"{what} within workload.timeout.{limit} = {allowed:g} s; {who}")


def ask_for_stacks(streams: list[Stream]) -> None:
    """Has the ranks on this host write where they stand, into `logs/stack-*.txt`."""
    for stream in streams:
        if stream.header and stream.header.host == host_identity():
            try:
                os.kill(stream.header.pid, STACKS)
            except ProcessLookupError:
                continue
    time.sleep(0.5)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _has_stepped(path: Path) -> bool:
    try:
        return any(
            parse(line).get("event") == "step" for line in path.read_bytes().splitlines() if b'"event":"step"' in line
        )
    except (OSError, ValueError):
        return False
