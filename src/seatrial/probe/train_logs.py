"""What Ray Train's own logs on a host say about a job: ranks by process, attempts, checkpoints.

They are there also where RAY_TRAIN_ENABLE_STATE_TRACKING is off: JSON lines below `logs/train` of Ray's session, in the
forms that `driver.ray_internals` lists.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WORKER_LOGS, CONTROLLER_LOGS = "ray-train-*-worker-*.log", "ray-train-sys-controller-*.log"
HEAD_BYTES, TAIL_BYTES, WHOLE_BYTES = 64 << 10, 512 << 10, 16 << 20
_STARTED = re.compile(r"^Started training worker group of size (\d+)")
_SAVED = re.compile(r"^Checkpoint successfully created at: Checkpoint\(filesystem=(\S+), path=(.+)\)$")


def ranks(logs: Path, job: str) -> dict[int, dict[str, Any]]:
    """By pid: world, local and node rank, run, and the Ray ids of each worker process of a job that logged here."""
    found: dict[int, dict[str, Any]] = {}
    for path in sorted((logs / "train").glob(WORKER_LOGS)):
        for line in _lines(_head(path)):
            if line.get("job_id") == job and isinstance(line.get("world_rank"), int) and _is_pid(line.get("process")):
                kept = ("world_rank", "local_rank", "node_rank", "run_name", "worker_id", "actor_id")
                found[line["process"]] = {name: line[name] for name in kept if name in line}
                break
    return found


def attempts(logs: Path, job: str) -> list[dict[str, Any]]:
    """Each group of workers that a controller of the job on this host has started: `{run, started_ns, workers}`."""
    found = [
        {"run": str(line.get("run_name")), "started_ns": str(line.get("timestamp_ns")), "workers": int(match[1])}
        for path in sorted((logs / "train").glob(CONTROLLER_LOGS))
        for line in _lines(_whole(path))
        if line.get("job_id") == job and (match := _STARTED.match(str(line.get("message"))))
    ]
    return sorted(found, key=lambda attempt: int(attempt["started_ns"]) if attempt["started_ns"].isdigit() else 0)


def checkpoint(logs: Path, job: str) -> dict[str, Any] | None:
    """The newest checkpoint that a worker of the job on this host reported: `{path, filesystem, age_s, run}`."""
    saved = [
        (int(line["timestamp_ns"]), match, line)
        for path in sorted((logs / "train").glob(WORKER_LOGS))
        for line in _lines(_tail(path))
        if line.get("job_id") == job and (match := _SAVED.match(str(line.get("message")))) and "timestamp_ns" in line
    ]
    if not saved:
        return None
    moment, match, line = max(saved, key=lambda each: each[0])
    age = max(0.0, time.time() - moment / 1e9)
    there = os.path.isdir(match[2]) if match[1] == "local" else None
    return {
        "path": match[2], "filesystem": match[1], "age_s": round(age, 1), "run": str(line.get("run_name")),
        "there": there,
    }  # fmt: skip


def _is_pid(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _lines(text: bytes) -> Iterator[dict[str, Any]]:
    """The whole lines of JSON; the others are another logger's, or cut."""
    for raw in text.splitlines():
        try:
            line = json.loads(raw)
        except ValueError:
            continue
        if isinstance(line, dict):
            yield line


def _head(path: Path) -> bytes:
    return _part(path, 0, HEAD_BYTES)


def _tail(path: Path) -> bytes:
    return _part(path, max(0, _size(path) - TAIL_BYTES), TAIL_BYTES)


def _whole(path: Path) -> bytes:
    """All of a log, or of a very long one its end."""
    return _part(path, max(0, _size(path) - WHOLE_BYTES), WHOLE_BYTES)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _part(path: Path, start: int, size: int) -> bytes:
    try:
        with path.open("rb") as handle:
            handle.seek(start)
            return handle.read(size)
    except OSError:
        return b""
