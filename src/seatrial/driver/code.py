"""The environment layers that the driver sees: the code that runs, and the working tree it was started from."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import seatrial
from seatrial.canon import digest
from seatrial.events import Layout, Redactor
from seatrial.events.schema import Environment

MAX_DIFF = 256 << 10
# What runs beside Ray, and travels where it is not installed: modules and data tables of these rooms.
ROOMS = ("trial", "hardware", "events", "plan", "probe", "train", "evidence", "record", "driver")
SUFFIXES = (".py", ".json")
CLIENT_ONLY = ("trial/loader.py", "trial/source.py")  # they read YAML


def layers(layout: Layout, settings: dict[str, Any], redactor: Redactor) -> Iterator[Environment]:
    """seatrial's own code, the git state of the working directory, and the workload's settings."""
    yield seatrial_layer()
    try:
        code = _working_tree(layout, redactor)
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        code = {"unknown": f"git could not tell: {said[0] if said else type(error).__name__}"}
    yield Environment(layer="code", content=code)
    yield Environment(layer="settings", content=settings)


def seatrial_layer() -> Environment:
    """The code that this process runs, by version and digest."""
    return Environment(layer="seatrial", content={"version": seatrial.__version__, "files": package_digest()})


def travelling() -> dict[str, bytes]:
    """The files that a run needs, by their path in the package; the same from a folder and from a zip."""
    root = files("seatrial")
    found = {entry.name: entry.read_bytes() for entry in root.iterdir() if entry.name.endswith(SUFFIXES)}
    for room in ROOMS:
        found |= _below(root / room, f"{room}/")
    return {name: found[name] for name in sorted(found) if name not in CLIENT_ONLY}


def _below(folder: Traversable, prefix: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for entry in folder.iterdir():
        if entry.is_dir():
            found |= _below(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(SUFFIXES):
            found[f"{prefix}{entry.name}"] = entry.read_bytes()
    return found


def package_digest() -> str:
    """One digest over every file that a run needs."""
    return digest({name: hashlib.sha256(data).hexdigest() for name, data in travelling().items()})


def _working_tree(layout: Layout, redactor: Redactor) -> dict[str, Any]:
    """Commit and uncommitted changes; the diff itself is kept beside the record, redacted.

    Raises OSError or SubprocessError if git cannot tell: no git, no repository, no commit.
    """
    repository, commit = _git("rev-parse", "--show-toplevel"), _git("rev-parse", "HEAD")
    diff = _git("diff", "HEAD", "--no-ext-diff", "--no-color")
    untracked = _git("ls-files", "--others", "--exclude-standard").splitlines()
    content: dict[str, Any] = {
        "repository": Path(repository).name,
        "commit": commit,
        "dirty": bool(diff or untracked),
        "untracked": untracked[:100],
    }
    if diff:
        text = redactor.text(diff)
        content["diff"] = "sha256:" + hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
        kept = text if len(text) <= MAX_DIFF else text[:MAX_DIFF] + f"\n[{len(text) - MAX_DIFF} characters left out]\n"
        (layout.root / "code.diff").write_text(kept, encoding="utf-8", errors="backslashreplace")
    return content


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], capture_output=True, text=True, errors="backslashreplace", timeout=20, check=True
    )
    return done.stdout.strip()
