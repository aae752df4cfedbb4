"""Ends a run that makes no progress: a hung training thread is invisible to Ray, whose health check runs beside it."""

from __future__ import annotations

import time
from pathlib import Path

from seatrial.canon import parse
from seatrial.events import Layout, Stream, read
from seatrial.events.schema import (
    CheckpointSaved,
    DataOpened,
    Evaluated,
    GradientRollCall,
    Parameters,
    Reloaded,
    RollCall,
    Stalled,
    Step,
    StorageCanary,
)
from seatrial.events.script import TrainAttempt
from seatrial.trial.workload import Timeout

# What every rank writes, step by step; the first of a host or of all has more to say, and is no further for that.
EVERY_RANK = (
    StorageCanary,
    RollCall,
    DataOpened,
    Parameters,
    Evaluated,
    Step,
    GradientRollCall,
    CheckpointSaved,
    Reloaded,
)
STACKS_S = 4.0  # what they are given: a probe looks once a second


class Watchdog:
    """Follows one phase by the sizes of its event files."""

    def __init__(self, layout: Layout, role: str, ranks: int, steps: int, limits: Timeout):
        self._run, self._role, self._steps, self._limits = layout.root.name, role, steps, limits
        self._files = [layout.process(1, f"{role}-{rank}") for rank in range(ranks)]
        self._began = self._changed = time.monotonic()
        self._sizes: list[int] = []
        self._stepping = False

    def check(self) -> Stalled | None:
        """What has expired, if something has: no first step within `start`, or no progress within `step`."""
        now, sizes = time.monotonic(), [_size(f) for f in self._files]
        if sizes != self._sizes:
            self._sizes, self._changed = sizes, now
            self._stepping = self._stepping or (self._role == "rank" and all(_has_stepped(f) for f in self._files))
        # Until the first step, ranks are given `start` in all; a reload is given it from one sign of life to the next.
        name = "step" if self._stepping else "start"
        since = self._began if self._role == "rank" and not self._stepping else self._changed
        allowed = float(getattr(self._limits, name))
        if now - since <= allowed:
            return None
        expired = self._expire(name, allowed)
        # The last step is followed by an evaluation, which says nothing until it is done.
        evaluating = (
            self._stepping and expired.last_step >= self._steps and now - since <= max(allowed, self._limits.start)
        )
        if evaluating:
            return None
        return expired

    def _expire(self, name: str, allowed: float) -> Stalled:
        streams = self._streams()
        steps = [e.step if (e := s.last(Step)) else 0 for s in streams]
        said = [sum(isinstance(e, EVERY_RANK) for e in s.events) for s in streams]
        behind = [rank for rank, count in enumerate(said) if count < max(said)] or list(range(len(streams)))
        return Stalled(limit=f"workload.timeout.{name}", seconds=allowed, last_step=min(steps), waiting_for=behind)

    def _streams(self) -> list[Stream]:
        return [read(f, f.name, self._run) for f in self._files]

    def explain(self, expired: Stalled) -> str:
        """One line for the record."""
        what = f"no progress after step {expired.last_step}" if self._stepping else "no first step"
        behind, ranks = expired.waiting_for, len(self._files)
        who = f"rank {', '.join(map(str, behind[:8]))} behind" if len(behind) < ranks else "no rank moves"
        return f"{what} within {expired.limit} = {expired.seconds:g} s; {who}; stacks are in logs/stack-*.txt"


class ScriptWatchdog:
    """Follows a team's own script. Its ranks must be there within `start`, and observed steps within `step`.

    Once its ranks are there, a script that does not observe may take as long as it likes.
    """

    def __init__(self, layout: Layout, ranks: int, limits: Timeout):
        self._layout, self._ranks, self._limits = layout, ranks, limits
        self._began = self._changed = time.monotonic()
        self._sizes: dict[Path, int] = {}
        self._there = self._stepping = False

    def hear(self, attempt: TrainAttempt) -> None:
        """Notes what Ray Train says of an attempt."""
        self._there = self._there or bool(attempt.workers)
        self._changed = time.monotonic()

    def check(self) -> Stalled | None:
        """What has expired, if something has."""
        now = time.monotonic()
        sizes = {path: _size(path) for path in self._layout.events.glob("a*/rank-*.jsonl")}
        if sizes != self._sizes:
            self._sizes, self._changed = sizes, now
            self._there = True
            self._stepping = self._stepping or any(_has_stepped(path) for path in sizes)
        if self._stepping:
            limit, since = "step", self._changed
        elif not self._there:
            limit, since = "start", self._began
        else:
            return None
        allowed = float(getattr(self._limits, limit))
        if now - since <= allowed:
            return None
        last = [read(path, path.name, self._layout.root.name).last(Step) for path in sizes]
        steps = [step.step if step else 0 for step in last] or [0]
        waiting = [rank for rank, step in enumerate(steps) if step < max(steps)] or list(range(self._ranks))
        return Stalled(limit=f"workload.timeout.{limit}", seconds=allowed, last_step=min(steps), waiting_for=waiting)

    def explain(self, expired: Stalled) -> str:
        """One line for the record."""
        if self._stepping:
            return f"no progress after step {expired.last_step} within {expired.limit} = {expired.seconds:g} s"
        return f"no rank of the script was there within {expired.limit} = {expired.seconds:g} s"


def stack_file(layout: Layout, role: str, rank: int) -> Path:
    """Where a rank writes its stacks when it is asked to."""
    return Path(layout.logs, f"stack-{role}-{rank}.txt")


def wait_for_stacks(layout: Layout, role: str, ranks: int) -> None:
    """Waits until every rank has written its stacks, or for STACKS_S: a process that is stopped never does.

    The probe of a host asks its ranks once it has read the driver's `stalled`.
    """
    deadline = time.monotonic() + STACKS_S
    files = [stack_file(layout, role, rank) for rank in range(ranks)]
    while not all(_size(file) for file in files) and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(0.2)  # the last one is being written


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
