"""How busy the GPUs of a host are, by NVIDIA's own tool where the host has it."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

_FIELDS = ("index", "uuid", "name", "utilization.gpu", "memory.used", "memory.total")
_TIMEOUT_S = 10.0


def utilization() -> dict[str, Any]:
    """Now: `{gpus: [{index, uuid, name, utilization_percent, memory_used_mib, …}]}`, or `{unknown: why}`."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return {"unknown": "this host has no nvidia-smi"}
    query = [tool, f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S)
    except (OSError, subprocess.SubprocessError) as error:
        return {"unknown": f"nvidia-smi: {type(error).__name__}"}
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines() or ["it said nothing"]
        return {"unknown": f"nvidia-smi ended with {done.returncode}: {said[-1][:160]}"}
    return read(done.stdout)


def read(text: str) -> dict[str, Any]:
    """What nvidia-smi printed; a figure that it does not know stays out."""
    names = ("index", "uuid", "name", "utilization_percent", "memory_used_mib", "memory_total_mib")
    rows = [[field.strip() for field in line.split(",")] for line in text.splitlines() if line.strip()]
    if not rows or any(len(row) != len(names) for row in rows):
        return {"unknown": "nvidia-smi printed another form than it was asked for"}
    numeric = names[:1] + names[3:]
    return {
        "gpus": [
            {
                name: int(value) if name in numeric else value
                for name, value in zip(names, row, strict=True)
                if name not in numeric or value.isdigit()
            }
            for row in rows
        ]
    }
