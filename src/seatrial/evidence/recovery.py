"""Recovery: what the final checkpoint gave back to new processes."""

from __future__ import annotations

from typing import Any

from seatrial.events.schema import CheckpointSaved, Reloaded
from seatrial.evidence.facts import Fact, unknown
from seatrial.evidence.gather import Run


def facts(run: Run) -> dict[str, Fact]:
    """All facts of this kind."""
    found = [_saved(run), _phase(run), _reload(run)]
    return {fact.id: fact for fact in found}


def _saved(run: Run) -> Fact:
    name = "recovery.checkpoints"
    saved = [
        {"step": e.step, "path": e.path, "manifest": e.manifest} for s in run.ranks[:1] for e in s.all(CheckpointSaved)
    ]
    return (
        Fact(name, value=saved, witness="rank 0") if saved else unknown(name, "no checkpoint was completed", "rank 0")
    )


def _phase(run: Run) -> Fact:
    ended = run.phase("reload")
    if ended is None:
        return unknown("recovery.status", run.driver.why_incomplete() or "the reload was not started", "driver")
    return Fact("recovery.status", value={"status": ended.status, "cause": ended.cause}, witness="driver")


def _reload(run: Run) -> Fact:
    """Every parameter, moment, step, schedule, generator and cursor, rank by rank, saved against reloaded."""
    name = "recovery.reload"
    if why := run.incomplete(run.ranks, "rank"):
        return unknown(name, why, "ranks")
    reloads = [s.last(Reloaded) for s in run.reloads]
    if not reloads or any(e is None for e in reloads):
        return unknown(name, run.incomplete(run.reloads, "reload") or "no process reloaded", "reload")
    value: dict[str, Any] = {"step": 0, "equal": 0, "tensors": 0, "missing": [], "different": [], "new_processes": True}
    trained = {(s.header.host, s.header.pid) for s in run.ranks if s.header}
    for rank, (stream, before, after) in enumerate(zip(run.ranks, run.reloads, reloads, strict=False)):
        saved = stream.last(CheckpointSaved)
        if saved is None or after is None:
            return unknown(name, f"{stream.path} saved no checkpoint", "ranks")
        value["step"] = after.step
        value["missing"] += after.missing
        names = {*saved.state, *after.state}
        value["tensors"] = max(value["tensors"], len(names))
        value["equal"] += sum(saved.state.get(n) == after.state.get(n) for n in names)
        value["different"] += [f"rank {rank}: {n}" for n in sorted(names) if saved.state.get(n) != after.state.get(n)]
        value["new_processes"] &= before.header is not None and (before.header.host, before.header.pid) not in trained
        value["expected"] = value.get("expected", 0) + len(names)
    value["manifest_equal"] = (
        len({e.manifest for e in reloads if e} | {e.manifest for s in run.ranks[:1] if (e := s.last(CheckpointSaved))})
        == 1
    )
    value["missing"], value["different"] = sorted(set(value["missing"]))[:50], value["different"][:50]
    if why := run.incomplete(run.reloads, "reload"):
        return unknown(name, why, "reload")
    return Fact(name, value=value, witness="digests by the ranks that saved, against digests by new processes")
