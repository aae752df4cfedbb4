"""After the run: ends leftover processes, copies logs through the redactor, then seals."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from seatrial.events import Layout, Redactor
from seatrial.probe import processes
from seatrial.record import seal

DRIVER_LOG = "driver.log"  # in the session folder: the run directory never holds raw output
LOG_TAIL_BYTES = 2 << 20
GRACE_S = 5.0
STILL_S = 2.0
LONGEST_S = 30.0
CLOSED_BYTES = 256  # the line `closed` is shorter


def end_leftovers(root: Path, session: str, grace: float = GRACE_S, kept: Collection[int] = ()) -> list[str]:
    """Waits for the run's processes on this host to end, then kills the rest, except the pids in `kept`.

    Returns the processes that had to be killed.
    """

    def left() -> list[processes.HostProcess]:
        return [process for process in processes.of_run(root, session) if process.pid not in kept]

    return [str(process) for process in processes.end(left, grace)]


def wait_until_closed(layout: Layout) -> None:
    """Waits until every host's probe has closed its event file, or nothing writes events any more."""
    if not all(closed(path) for path in layout.events.glob("a*/probe-*.jsonl")):
        wait_until_still(layout)


def closed(path: Path) -> bool:
    """Whether the last event of a file is `closed`: its process writes no more."""
    try:
        with path.open("rb") as handle:
            handle.seek(max(0, handle.seek(0, os.SEEK_END) - CLOSED_BYTES))
            return b'"event":"closed"' in handle.read()
    except FileNotFoundError:
        return False


def wait_until_still(layout: Layout) -> None:
    """Waits until no event file grows. Processes on other hosts cannot be seen from here, but their files can."""
    sizes, still, deadline = _sizes(layout), time.monotonic(), time.monotonic() + LONGEST_S
    while time.monotonic() - still < STILL_S and time.monotonic() < deadline:
        time.sleep(processes.POLL_S)
        if (now := _sizes(layout)) != sizes:
            sizes, still = now, time.monotonic()


def _sizes(layout: Layout) -> dict[Path, int]:
    return {path: path.stat().st_size for path in layout.events.rglob("*.jsonl")}


def collect_logs(layout: Layout, temporary: Path, environments: tuple[Mapping[str, str], ...]) -> None:
    """Copies the logs of the driver and of its private Ray into the run directory, then removes that Ray's session."""
    redactor = Redactor(os.environ, *environments)
    for log in sorted((temporary / DRIVER_LOG, *temporary.glob("session_2*/logs/**/*"))):
        name = log.relative_to(temporary).as_posix()
        _copy(log, layout.logs / (f"ray/{name.split('/logs/', 1)[1]}" if "/" in name else name), redactor)
    for session in temporary.glob("session_2*"):  # raw logs must not outlive the run
        shutil.rmtree(session, ignore_errors=True)


def collect_job_logs(logs: Path, target: Path, job: str, *environments: Mapping[str, str]) -> None:
    """Copies the logs of one Ray job's workers on this host. `logs` is Ray's own folder, and is not changed."""
    redactor = Redactor(os.environ, *environments)
    own = sorted(logs.glob(f"worker-*-{job}-*"))
    workers = {log.name.split("-")[1] for log in own}
    for log in (*own, *sorted(logs.glob("python-core-worker-*"))):
        if log in own or log.name.removeprefix("python-core-worker-").partition("_")[0] in workers:
            _copy(log, target / log.name, redactor)


def collect_own_log(layout: Layout, *environments: Mapping[str, str]) -> None:
    """Copies the output of this process, if Ray's job manager keeps it in a file."""
    output = Path("/proc/self/fd/1").resolve()
    if output.name.startswith("job-driver-"):
        sys.stdout.flush()
        _copy(output, layout.driver_log, Redactor(os.environ, *environments))


def _copy(log: Path, target: Path, redactor: Redactor) -> None:
    """Copies a log through the redactor, a long one only from its tail. Skips what is empty or not a plain file."""
    if log.is_file() and not log.is_symlink() and (text := _tail(log)):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(redactor.text(text), encoding="utf-8", errors="backslashreplace")


def _tail(path: Path) -> str:
    size = path.stat().st_size
    with path.open("rb") as handle:
        handle.seek(max(0, size - LOG_TAIL_BYTES))
        text = handle.read().decode("utf-8", "backslashreplace")
    return text if size <= LOG_TAIL_BYTES else f"[the first {size - LOG_TAIL_BYTES} bytes are left out]\n{text}"


def seal_run(layout: Layout) -> tuple[Path, dict[str, Any]]:
    """Frees the reserved space and seals. Raises OSError if even that space is not enough."""
    layout.reserve.unlink(missing_ok=True)
    for empty in layout.logs.glob("stack-*.txt"):
        if not empty.stat().st_size:
            empty.unlink()
    return seal(layout.root)
