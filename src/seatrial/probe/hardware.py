"""The hardware of this host, as its own kernel reports it."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any


def describe() -> dict[str, Any]:
    """CPU, memory, kernel and GPUs. What cannot be read is left out, never guessed."""
    found: dict[str, Any] = {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
    }
    model = _field(Path("/proc/cpuinfo"), "model name")
    memory = _field(Path("/proc/meminfo"), "MemTotal")
    found |= {k: v for k, v in (("cpu", model), ("memory", memory)) if v}
    driver = Path("/proc/driver/nvidia/version")
    if driver.is_file():
        found["nvidia_driver"] = driver.read_text(errors="replace").splitlines()[0]
        found["gpus"] = sorted(_field(p, "Model") for p in Path("/proc/driver/nvidia/gpus").glob("*/information"))
    return found


def _field(path: Path, name: str) -> str:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == name), "")
