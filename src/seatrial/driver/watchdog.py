"""Ends a run that makes no progress: a hung training thread is invisible to Ray, whose health check runs beside it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from seatrial.canon import parse
from seatrial.events import Layout, Stream, read
from seatrial.events.schema import Step, TimedOut
from seatrial.events.writer import host_identity
from seatrial.trial.workload import Timeout

STACKS = signal.SIGUSR2  # members write their stacks when they get it


class Watchdog:
    """Follows the event files of one phase by their sizes."""

    def __init__(self, layout: Layout, role: str, ranks: int, limits: Timeout):
        self._run, self._role, self._limits = layout.root.name, role, limits
        self._files = [layout.process(1, f"{role}-{rank}") for rank in range(ranks)]
        self._began = self._changed = time.monotonic()
        self._sizes: list[int] = []
        self._stepping = False

    def check(self) -> TimedOut | None:
        """What has expired, if something has: no first step within `start`, or no progress within `step`."""
        now, sizes = time.monotonic(), [_size(f) for f in self._files]
        if sizes != self._sizes:
            self._sizes, self._changed = sizes, now
            self._stepping = self._stepping or (self._role == "rank" and all(_has_stepped(f) for f in self._files))
        name, since = ("step", self._changed) if self._stepping else ("start", self._began)
        allowed = float(getattr(self._limits, name))
        return self._expire(name, allowed) if now - since > allowed else None

    def _expire(self, name: str, allowed: float) -> TimedOut:
        streams = [read(f, f.name, self._run) for f in self._files]
        steps = [e.step if (e := s.last(Step)) else 0 for s in streams]
        said = [len(s.events) for s in streams]
        behind = [rank for rank, count in enumerate(said) if count < max(said)] or list(range(len(streams)))
        ask_for_stacks(streams)
        return TimedOut(limit=f"workload.timeout.{name}", seconds=allowed, last_step=min(steps), waiting_for=behind)

    def explain(self, expired: TimedOut) -> str:
        """One line for the record."""
        what = f"no progress after step {expired.last_step}" if self._stepping else "no first step"
        behind, ranks = expired.waiting_for, len(self._files)
        who = f"rank {', '.join(map(str, behind[:8]))} behind" if len(behind) < ranks else "no rank moves"
        return f"{what} within {expired.limit} = {expired.seconds:g} s; {who}; stacks are in logs/stack-*.txt"


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
