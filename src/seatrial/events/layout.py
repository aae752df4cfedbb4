"""The run directory: where each thing lies, what the record does not list, and whether a storage can hold one."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Layout:
    """Paths of one run under `root`."""

    root: Path

    trial = property(lambda self: self.root / "trial.json")
    claims = property(lambda self: self.root / "claims.json")
    record = property(lambda self: self.root / "record.json")
    seal = property(lambda self: self.root / "record.sha256")
    events = property(lambda self: self.root / "events")
    driver_events = property(lambda self: self.root / "events" / "driver.jsonl")
    logs = property(lambda self: self.root / "logs")
    driver_log = property(lambda self: self.root / "logs" / "driver.log")
    checkpoints = property(lambda self: self.root / "checkpoints")
    reserve = property(lambda self: self.root / ".reserve")
    seals = property(lambda self: self.root.parent / "seals.jsonl")

    def process(self, attempt: int, name: str) -> Path:
        """The event file of one process of an attempt; `name` as in `rank-0`, `reload-1`, `probe-ab12`."""
        return self.root / "events" / f"a{attempt}" / f"{name}.jsonl"

    def relative(self, path: Path) -> str:
        """`path` as the record writes it: relative to the run directory, with forward slashes."""
        return path.relative_to(self.root).as_posix()

    def make(self) -> None:
        """Creates the folders. Raises OSError."""
        for folder in (self.root, self.events, self.logs, self.checkpoints):
            folder.mkdir(parents=True, exist_ok=True)


def is_unlisted_by_design(root: Path, relative: str) -> bool:
    """Files that a record does not list: itself, reports, and shards of checkpoints whose manifest is listed."""
    name = relative.rsplit("/", 1)[-1]
    if "/" not in relative and name.startswith(("record.", "report.")):
        return True
    manifest = (root / relative).with_name("manifest.json")
    return relative.startswith("checkpoints/") and name != "manifest.json" and manifest.is_file()


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
