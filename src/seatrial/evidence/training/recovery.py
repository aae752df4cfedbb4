"""Recovery: what the final checkpoint gave back to new processes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from seatrial.events import Stream
from seatrial.events.schema import CheckpointSaved, Parameters, Reloaded
from seatrial.evidence.facts import recovery
from seatrial.evidence.facts.fact import Fact
from seatrial.evidence.facts.recovery import Checkpoint, Reload, ReloadEnded
from seatrial.evidence.run import Run
from seatrial.trial.kinds import RELOAD

SHOWN = 50


def facts(run: Run) -> Iterator[Fact[Any]]:
    """All facts of this kind."""
    yield _checkpoints(run)
    yield _status(run)
    yield _reload(run)


def _checkpoints(run: Run) -> Fact[list[Checkpoint]]:
    saved = [
        Checkpoint(path=e.path, step=e.step, manifest=e.manifest) for s in run.ranks[:1] for e in s.all(CheckpointSaved)
    ]
    if saved:
        return recovery.CHECKPOINTS.seen(saved, "rank 0")
    return recovery.CHECKPOINTS.unknown("no checkpoint was completed", "rank 0")


def _status(run: Run) -> Fact[ReloadEnded]:
    ended = run.phase(RELOAD.name)
    if ended is None:
        return recovery.STATUS.unknown(run.driver.why_incomplete() or "the reload was not started", "driver")
    value = ReloadEnded(ended.status, ended.cause, run.load_failed())
    return recovery.STATUS.seen(value, "driver, reload processes")


@dataclass
class _Compared:
    """What the ranks saved against what the reload processes hold, added up rank by rank."""

    step: int = 0
    equal: int = 0
    expected: int = 0
    tensors: int = 0
    missing: set[str] = field(default_factory=set)
    different: set[str] = field(default_factory=set)
    untrained: set[str] = field(default_factory=set)
    manifests: set[str] = field(default_factory=set)

    def add(self, rank: int, saved: CheckpointSaved, last: Parameters, after: Reloaded) -> None:
        names = {*saved.state, *after.state}
        differing = {name for name in names if saved.state.get(name) != after.state.get(name)}
        self.step = after.step
        self.tensors = max(self.tensors, len(names))
        self.expected += len(names)
        self.equal += len(names - differing)
        self.missing |= {*after.missing}
        self.different |= {f"rank {rank}: {name}" for name in differing}
        # What was saved must be what the rank held after its last step, not a copy from somewhere else.
        held = last.digests.items()
        self.untrained |= {f"rank {rank}: {name}" for name, d in held if after.state.get(f"model.{name}") != d}
        self.manifests |= {after.manifest, *([saved.manifest] if saved.manifest else [])}


def _reload(run: Run) -> Fact[Reload]:
    """Every parameter, moment, step, schedule, generator and cursor, rank by rank, saved against reloaded."""
    if why := run.incomplete(run.ranks, "rank"):
        return recovery.RELOAD.unknown(why, "ranks")
    reloads = [after for s in run.reloads if (after := s.last(Reloaded))]
    if not reloads or len(reloads) < len(run.reloads):
        why = run.incomplete(run.reloads, "reload") or "no process reloaded"
        return recovery.RELOAD.unknown(why, "reload")
    if len(reloads) != len(run.ranks):
        return recovery.RELOAD.unknown(f"{len(run.ranks)} ranks saved, {len(reloads)} processes reloaded", "reload")
    found = _Compared()
    for rank, (stream, after) in enumerate(zip(run.ranks, reloads, strict=True)):
        saved, last = stream.last(CheckpointSaved), stream.last(Parameters)
        if saved is None or last is None:
            return recovery.RELOAD.unknown(f"{stream.path} saved no checkpoint", "ranks")
        found.add(rank, saved, last, after)
    if why := run.incomplete(run.reloads, "reload"):
        return recovery.RELOAD.unknown(why, "reload")
    value = Reload(
        step=found.step,
        equal=found.equal,
        expected=found.expected,
        tensors=found.tensors,
        missing=sorted(found.missing)[:SHOWN],
        different=sorted(found.different)[:SHOWN],
        untrained=sorted(found.untrained)[:SHOWN],
        manifest_equal=len(found.manifests) == 1,
        new_processes=_processes(run.reloads).isdisjoint(_processes(run.ranks)),
    )
    return recovery.RELOAD.seen(value, "digests by the ranks that saved, against digests by new processes")


def _processes(streams: tuple[Stream, ...]) -> set[tuple[str, int]]:
    """Where each process ran, as its header says; every whole stream has one."""
    return {(s.header.host, s.header.pid) for s in streams if s.header}
