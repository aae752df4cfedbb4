"""The events that close a script's run: Ray Train's last state, the event files that count, the checkpoints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from seatrial.canon import exact, utc
from seatrial.driver.ray_internals import SNAPSHOT
from seatrial.events import Layout, read
from seatrial.events.base import Event
from seatrial.events.schema import Roster
from seatrial.events.script import CheckpointFound, ScriptEnded, TrainAttempt

if TYPE_CHECKING:
    from seatrial.driver.script import ScriptGroup

MOST_CHECKPOINTS = 100


def account(group: ScriptGroup, layout: Layout, ranks: int) -> Iterator[Event]:
    """Everything that is known once the script has ended, whatever it ended with."""
    yield from group.changed()
    attempts = group.state.attempts
    code = group.exit_code
    files = _files(layout, ranks, attempts)
    yield ScriptEnded(
        exit_code=-1 if code is None else code,
        said=group.said,
        observed=bool(files),
        state_seen=group.state.seen,
    )
    for number, names in files.items():
        yield Roster(phase="train", attempt=number, files=names)
    for storage in dict.fromkeys(attempt.storage for attempt in attempts if attempt.storage):
        yield from _checkpoints(Path(storage))


def _files(layout: Layout, ranks: int, attempts: list[TrainAttempt]) -> dict[int, list[str]]:
    """Event files by attempt: of as many ranks as Ray Train had, else as the trial asks for, written or not.

    The observing ranks number their attempts themselves; that of an attempt of Ray Train's is found by its pids.
    """
    found: dict[int, list[str]] = {}
    for folder in sorted(layout.events.glob("a*/"), key=lambda folder: int(folder.name[1:])):
        written = sorted(folder.glob("rank-*.jsonl"))
        if not written:
            continue
        pids = {header.pid for path in written if (header := read(path, path.name, layout.root.name).header)}
        told = next((a for a in attempts if pids & {worker.pid for worker in a.workers}), None)
        number = int(folder.name[1:])
        count = len(told.workers) if told else max(ranks, len(written))
        found[number] = [layout.relative(layout.process(number, f"rank-{rank}")) for rank in range(count)]
    return found


def _checkpoints(storage: Path) -> Iterator[CheckpointFound]:
    """Those in Ray Train's list, with their files. Nothing where this host does not see the storage."""
    try:
        listed = json.loads((storage / SNAPSHOT).read_text())["checkpoint_results"]
    except (OSError, ValueError, KeyError):
        return
    for entry in listed[-MOST_CHECKPOINTS:]:
        folder = storage / str(entry.get("checkpoint_dir_name", ""))
        parts = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
        newest = max((path.stat().st_mtime for path in parts), default=0.0)
        yield CheckpointFound(
            path=str(folder),
            files=len(parts),
            bytes=exact(sum(path.stat().st_size for path in parts)),
            modified=utc(newest) if newest else "",
        )
