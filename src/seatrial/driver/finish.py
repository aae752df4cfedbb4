"""After the run: nothing left behind, logs through the redactor, then the seal."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seatrial.events import Layout, Redactor
from seatrial.probe import processes
from seatrial.record import seal

DRIVER_LOG = "driver.log"  # in the session folder: raw output never lies in the run directory
LOG_TAIL_BYTES = 2 << 20
GRACE_S = 5.0


def end_leftovers(root: Path, session: str, grace: float = GRACE_S) -> list[str]:
    """Waits for the processes of a run to go, then ends those that have not. Returns what had to be ended."""
    left = _wait(root, session, grace)
    for process in left:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, signal.SIGKILL)
    if left:
        _wait(root, session, GRACE_S)  # a file must not grow while it is hashed
    return [str(process) for process in left]


def _wait(root: Path, session: str, seconds: float) -> list[processes.Process]:
    deadline = time.monotonic() + seconds
    while (left := list(processes.of_run(root, session))) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def collect_logs(layout: Layout, temporary: Path, environments: tuple[Mapping[str, str], ...]) -> None:
    """Copies the driver's and Ray's logs into the run directory through the redactor, long ones by their tail."""
    redactor = Redactor(os.environ, *environments)
    for log in sorted((temporary / DRIVER_LOG, *temporary.glob("session_2*/logs/**/*"))):
        if not log.is_file() or log.is_symlink() or not (text := _tail(log)):
            continue
        name = log.relative_to(temporary).as_posix()
        target = layout.logs / (f"ray/{name.split('/logs/', 1)[1]}" if "/" in name else name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(redactor.text(text), encoding="utf-8", errors="backslashreplace")
    for session in temporary.glob("session_2*"):  # raw logs do not outlive the run, whoever is there to tidy up
        shutil.rmtree(session, ignore_errors=True)


def _tail(path: Path) -> str:
    size = path.stat().st_size
    with path.open("rb") as handle:
        handle.seek(max(0, size - LOG_TAIL_BYTES))
        text = handle.read().decode("utf-8", "backslashreplace")
    return text if size <= LOG_TAIL_BYTES else f"[the first {size - LOG_TAIL_BYTES} bytes are left out]\n{text}"


def seal_run(layout: Layout) -> tuple[Path, dict[str, Any]]:
    """Gives the reserve back and seals. Raises OSError if even that space is not enough."""
    layout.reserve.unlink(missing_ok=True)
    for empty in layout.logs.glob("stack-*.txt"):
        if not empty.stat().st_size:
            empty.unlink()
    return seal(layout.root)
