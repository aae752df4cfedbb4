"""The runs submitted from this machine: one small file each, with the cluster's address and no secrets."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from seatrial.errors import EvidenceError

SCHEMA = "seatrial.submitted/1"
PREFIX = "seatrial-"  # of submission ids


class NotSubmittedHere(EvidenceError):
    """This machine does not know the cluster of a run."""


@dataclass(frozen=True)
class Submission:
    """One submitted run: its submission id, the dashboard's address, the trial's name, and when (UTC)."""

    id: str
    address: str
    trial: str
    submitted: str


def folder() -> Path:
    """`$XDG_STATE_HOME/seatrial/runs`."""
    state = os.environ.get("XDG_STATE_HOME", "")
    return (Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state") / "seatrial" / "runs"


def keep(submission: Submission) -> Path:
    """Writes the file of a run. Raises OSError."""
    folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder() / f"{submission.id}.json"
    path.write_text(json.dumps({"schema": SCHEMA, **asdict(submission)}, indent=2) + "\n", encoding="utf-8")
    return path


def find(name: str) -> Submission:
    """The run that a user means: a submission id, its unique beginning, or `last`. Raises EvidenceError."""
    known = sorted(folder().glob("*.json"), key=lambda path: path.stat().st_mtime_ns) if folder().is_dir() else []
    if not known:
        raise NotSubmittedHere(f"{name}: no run was submitted from here ({folder()} holds none)")
    if name == "last":
        return _read(known[-1])
    meant = match_run(name, [path.stem for path in known], str(folder()))
    return _read(folder() / f"{meant}.json")


def match_run(name: str, known: list[str], where: str) -> str:
    """The id that `name` is, or the only one that begins with it, also without `seatrial-`. Raises EvidenceError."""
    if name in known:
        return name
    meant = [each for each in known if each.startswith((name, PREFIX + name))]
    if len(meant) != 1:
        said = f"{len(meant)} runs match" if meant else "no run matches"
        raise EvidenceError(f"{name}: {said} in {where}; known: {', '.join((meant or known)[-5:]) or 'none'}")
    return meant[0]


def _read(path: Path) -> Submission:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document.pop("schema") != SCHEMA:
            raise ValueError(SCHEMA)
        return Submission(**document)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise NotSubmittedHere(f"{path} is no file of a submitted run; remove it") from None
