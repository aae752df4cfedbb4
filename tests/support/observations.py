"""What an observer of a host says, made up: two hosts with a rank each, DDP over gloo, all over eth0."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from seatrial.launch.inspect.write import Inspection, InspectionDirectory

MiB = 1 << 20
TORCH = {"file": "/x/site-packages/torch/lib/libtorch_cpu.so", "version": "2.13.0", "from": "package torch"}
NCCL = {"file": "/x/libnccl.so.2.29.7", "version": "2.29.7", "from": "the file's name"}


def counters(sent: int, device: str = "net/eth0") -> dict[str, dict[str, str]]:
    return {device: {"tx_bytes": str(sent), "rx_bytes": str(sent)}}


def process(rank: int | None, **changes: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "started": "1000",
        "title": "ray::RayTrainWorker",
        "python": "3.13",
        "executable": "/usr/bin/python3.13",
        "libraries": {"torch": TORCH},
        "devices": [],
        "nccl_threads": [],
        "settings": {},
        "packages": "sha256:same",
        "rank": None if rank is None else {"world_rank": rank},
    }
    return {**told, **changes}


def host(number: int, carried: int = 100 * MiB, moved: int = 104 * MiB, **changes: Any) -> dict[str, Any]:
    """Host 1 or 2 with rank 0 or 1, whose connection to the other sent `carried` and whose eth0 `moved` bytes."""
    own, other = (f"10.0.0.{n}:{4000 + n}" for n in (number, 3 - number))
    told: dict[str, Any] = {
        "host": f"node{number}/net:{number}",
        "machine": "node:m",
        "name": f"pod-{number}",
        "hardware": {},
        "network": {"interfaces": {"eth0": {"addresses": [f"10.0.0.{number}"]}, "lo": {"addresses": ["127.0.0.1"]}}},
        "processes": {str(100 + number): process(number - 1)},
        "packages": {},
        "not_there": [],
        "window": {
            "from": "2026-01-01T00:00:00.000000Z",
            "until": "2026-01-01T00:00:20.000000Z",
            "seconds": 20.0,
            "looks": 21,
            "counters": [counters(1000), counters(1000 + moved)],
            "backwards": [],
            "connections": {str(100 + number): [[own, other, str(carried), str(carried)]]} if carried else {},
            "gone": {},
        },
        "attempts": [],
        "checkpoint": None,
        "gpus": {"unknown": "this host has no nvidia-smi"},
    }
    return {**told, **changes}


def window(told: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**told, "window": {**told["window"], **changes}}


def with_process(told: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**told, "processes": {pid: {**each, **changes} for pid, each in told["processes"].items()}}


def look(*hosts: dict[str, Any], claims: list[dict[str, Any]] | None = None, **changes: Any) -> Inspection:
    told = {
        "job": {"job_id": "02000000", "submission_id": "their-job", "status": "RUNNING"},
        "train": {"unknown": "Ray Train keeps no state"},
        "hosts": {f"node{number + 1}": each for number, each in enumerate(hosts)},
    }
    return Inspection(name="their-job", asked={}, claims=claims or [], **{**told, **changes})


def sealed(found: Inspection, storage: Path) -> tuple[Path, dict[str, Any]]:
    storage.mkdir(exist_ok=True)
    return InspectionDirectory(found, storage).finish()
