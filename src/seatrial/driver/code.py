"""The environment layers that the driver sees: the code that runs, and the working tree it was started from."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import seatrial
from seatrial.canon import digest
from seatrial.events import Layout, Redactor
from seatrial.events.schema import Environment

MAX_DIFF = 256 << 10


def layers(layout: Layout, settings: dict[str, Any]) -> Iterator[Environment]:
    """seatrial's own code, the git state of the working directory, and the workload's settings."""
    yield Environment(layer="seatrial", content={"version": seatrial.__version__, "files": package_digest()})
    if repository := _git("rev-parse", "--show-toplevel"):
        yield Environment(layer="code", content=_working_tree(layout, repository))
    yield Environment(layer="settings", content=settings)


def package_digest() -> str:
    """One digest over every file of the installed package that is code."""
    root = Path(seatrial.__file__).parent
    return digest(
        {p.relative_to(root).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(root.rglob("*.py"))}
    )


def _working_tree(layout: Layout, repository: str) -> dict[str, Any]:
    """Commit and uncommitted changes; the diff itself is kept beside the record, redacted."""
    diff = _git("diff", "HEAD", "--no-ext-diff", "--no-color")
    content: dict[str, Any] = {
        "repository": Path(repository).name,
        "commit": _git("rev-parse", "HEAD"),
        "dirty": bool(diff),
        "untracked": _git("ls-files", "--others", "--exclude-standard").splitlines()[:100],
    }
    if diff:
        text = Redactor().text(diff)
        content["diff"] = "sha256:" + hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
        kept = text if len(text) <= MAX_DIFF else text[:MAX_DIFF] + f"\n[{len(text) - MAX_DIFF} characters left out]\n"
        (layout.root / "code.diff").write_text(kept, encoding="utf-8", errors="backslashreplace")
    return content


def _git(*arguments: str) -> str:
    """What git says about the working directory; empty without git, a repository or a commit."""
    try:
        done = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, errors="backslashreplace", timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
