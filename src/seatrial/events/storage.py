"""Whether a process can use a folder as a run's storage."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def problem_with(folder: Path) -> str:
    """Empty if `folder` does all five, else what failed and how."""
    name = f".canary-{socket.gethostname()}-{os.getpid()}"
    first, second = folder / name, folder / f"{name}.renamed"
    doing = "create the folder"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        doing = "write"
        first.write_bytes(b"seatrial")
        doing = "read back"
        if first.read_bytes() != b"seatrial":
            return f"what was written to {first} reads back differently"
        doing = "list"
        if name not in os.listdir(folder):
            return f"{first} was written but is not listed in its folder"
        doing = "rename"
        first.rename(second)
        doing = "delete"
        second.unlink()
    except OSError as error:
        return f"cannot {doing} in {folder}: {error.strerror or error}"
    return ""
