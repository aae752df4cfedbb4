"""The environment layers that the driver sees: the code that runs, and the working tree it was started from."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from seatrial.events import Layout, Redactor
from seatrial.events.schema import Environment
from seatrial.probe.own import package_digest, seatrial_layer, travelling
from seatrial.trial.script import Script

__all__ = ["layers", "package_digest", "script_layer", "seatrial_layer", "travelling"]

MAX_DIFF = 256 << 10


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


def script_layer(work: Script) -> Environment:
    """The team's own script: its digest, arguments and variables."""
    path = Path(work.script)
    content: dict[str, Any] = {"name": path.name, "args": list(work.args), "env": dict(work.env)}
    try:
        content["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        content["unread"] = error.strerror
    return Environment(layer="script", content=content)


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
