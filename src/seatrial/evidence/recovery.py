"""Recovery: what the final checkpoint gave back to new processes."""

from __future__ import annotations

from typing import Any

from seatrial.events.schema import CheckpointSaved, Parameters, Reloaded
from seatrial.evidence import script
from seatrial.evidence.facts import Fact, unknown
from seatrial.evidence.gather import Run


def facts(run: Run) -> dict[str, Fact]:
    """All facts of this kind."""
    if run.script:
        why = f"the checkpoints of {run.script} are in a form of its own: nothing here loads them"
        found = [script.checkpoints(run), unknown("recovery.status", why), unknown("recovery.reload", why)]
    else:
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
    value = {"status": ended.status, "cause": ended.cause, "load_failed": run.load_failed()}
    return Fact("recovery.status", value=value, witness="driver, reload processes")


def _reload(run: Run) -> Fact:
    """Every parameter, moment, step, schedule, generator and cursor, rank by rank, saved against reloaded."""
    name = "recovery.reload"
    if why := run.incomplete(run.ranks, "rank"):
        return unknown(name, why, "ranks")
    reloads = [s.last(Reloaded) for s in run.reloads]
    if not reloads or any(e is None for e in reloads):
        return unknown(name, run.incomplete(run.reloads, "reload") or "no process reloaded", "reload")
    trained = {(s.header.host, s.header.pid) for s in run.ranks if s.header}
    value: dict[str, Any] = {
        "step": 0,
        "equal": 0,
        "expected": 0,
        "tensors": 0,
        "missing": [],
        "different": [],
        "untrained": [],
    }
    manifests: set[str] = set()
    fresh = True
    for rank, (stream, again, after) in enumerate(zip(run.ranks, run.reloads, reloads, strict=True)):
        saved, last = stream.last(CheckpointSaved), stream.last(Parameters)
        if saved is None or after is None or last is None:
            return unknown(name, f"{stream.path} saved no checkpoint", "ranks")
        names = {*saved.state, *after.state}
        value["step"] = after.step
        value["tensors"] = max(value["tensors"], len(names))
        value["expected"] += len(names)
        value["equal"] += sum(saved.state.get(n) == after.state.get(n) for n in names)
        value["missing"] += after.missing
        value["different"] += [f"rank {rank}: {n}" for n in sorted(names) if saved.state.get(n) != after.state.get(n)]
        # What was saved must be what the rank held after its last step, not a copy from somewhere else.
        held = last.digests.items()
        value["untrained"] += [f"rank {rank}: {n}" for n, d in held if after.state.get(f"model.{n}") != d]
        manifests |= {after.manifest, *([saved.manifest] if saved.manifest else [])}
        fresh = fresh and again.header is not None and (again.header.host, again.header.pid) not in trained
    if why := run.incomplete(run.reloads, "reload"):
        return unknown(name, why, "reload")
    value |= {"manifest_equal": len(manifests) == 1, "new_processes": fresh}
    value |= {key: sorted(set(value[key]))[:50] for key in ("missing", "different", "untrained")}
    return Fact(name, value=value, witness="digests by the ranks that saved, against digests by new processes")
