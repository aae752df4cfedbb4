"""What the kernel says about processes: which belong to a run, what they have open. Linux only; elsewhere none.

A host is a network namespace, as in `events.writer.host_identity`: processes of another one are another host's, also
where hosts share a machine and see each other's.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
RUN_VARIABLE = "SEATRIAL_RUN_DIR"  # the absolute run directory; set for the driver, inherited by all that it starts
MEMBER_VARIABLE = "SEATRIAL_MEMBER_OF"  # the same, for the ranks alone and what they start
ROLE_VARIABLE, SCRIPT_ROLE = "SEATRIAL_ROLE", "script"  # set for a team's own script itself, not for its workers
# In the titles of Ray Train's processes; `driver.ray_internals` says at which version of Ray.
TRAIN_WORKER, TRAIN_CONTROLLER = "TrainWorker", "TrainController"
STACKS = signal.SIGUSR2  # ranks write their stacks when they get it
POLL_S = 0.1


@dataclass(frozen=True)
class HostProcess:
    """One live process of a run."""

    pid: int
    command: str

    def __str__(self) -> str:
        return f"{self.pid} {self.command}"


def of_run(root: Path, session: str = "", variable: str = RUN_VARIABLE) -> Iterator[HostProcess]:
    """Live processes of a run: with its directory in their environment, or their output in its Ray session.

    One mark is not enough: a Ray worker's title is written over its command line, and may reach into its environment.
    """
    marker = f"{variable}={root.resolve()}".encode()
    for folder in _processes():
        try:
            command = (folder / "cmdline").read_bytes()
            if not command:
                continue  # a zombie holds nothing and cannot be ended
            mine = marker in (folder / "environ").read_bytes().split(b"\x00")
            if mine or (session and any(_target(folder / "fd" / n).startswith(session) for n in ("1", "2"))):
                yield HostProcess(int(folder.name), _readable(command))
        except OSError:
            continue  # gone meanwhile, or another user's


def of_module(name: str) -> Iterator[HostProcess]:
    """Live processes that were started as `python -m NAME`, but for this one."""
    for folder in _processes():
        try:
            words = (folder / "cmdline").read_bytes().split(b"\x00")
        except OSError:
            continue
        if (b"-m", name.encode()) in itertools.pairwise(words):
            yield HostProcess(int(folder.name), _readable(b" ".join(words)))


def with_pids(pids: Collection[int]) -> Iterator[HostProcess]:
    """Those live processes that have one of these pids."""
    for folder in _processes():
        try:
            if int(folder.name) in pids and (command := (folder / "cmdline").read_bytes()):
                yield HostProcess(int(folder.name), _readable(command))
        except OSError:
            continue


def holding(root: Path) -> Iterator[HostProcess]:
    """Live processes, but for this one, that have a file below `root` open."""
    below = f"{root.resolve()}/"
    for folder in _processes():
        try:
            if any(_target(link).startswith(below) for link in (folder / "fd").iterdir()):
                yield HostProcess(int(folder.name), _readable((folder / "cmdline").read_bytes()))
        except OSError:
            continue


def end(find: Callable[[], list[HostProcess]], grace: float) -> list[HostProcess]:
    """Waits until nothing is found any more, at most `grace` seconds, then kills what is. Returns what was killed."""
    left = _wait(find, grace)
    for process in left:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, signal.SIGKILL)
    if left:
        _wait(find, grace or POLL_S)  # a file must not grow while it is hashed
    return left


def _wait(find: Callable[[], list[HostProcess]], seconds: float) -> list[HostProcess]:
    deadline = time.monotonic() + seconds
    while (left := find()) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return left


def _processes() -> Iterator[Path]:
    """Of this host, but for this process."""
    here = _namespace(PROC / "self")
    for folder in PROC.iterdir() if PROC.is_dir() else ():
        if folder.name.isdigit() and int(folder.name) != os.getpid() and (not here or _namespace(folder) == here):
            yield folder


def _namespace(folder: Path) -> int:
    """The inode of a process's network namespace, 0 if it cannot be seen."""
    try:
        return os.stat(folder / "ns/net").st_ino
    except OSError:
        return 0


def _readable(command: bytes) -> str:
    return command.replace(b"\x00", b" ").decode("utf-8", "replace").strip()[:120]


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except FileNotFoundError:
        return ""


def status(pid: int) -> dict[str, int]:
    """Byte figures of `/proc/PID/status`: VmHWM (peak resident), VmRSS, RssAnon; empty if the process is gone."""
    try:
        lines = (PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return {}
    found: dict[str, int] = {}
    for line in lines:
        name, _, rest = line.partition(":")
        if name in ("VmHWM", "VmRSS", "RssAnon"):
            found[name] = int(rest.split()[0]) * 1024
    return found


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal, by `SigCgt` of its status; one that has none may be ended by it."""
    try:
        lines = (PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return False
    mask = next((int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:")), 0)
    return bool(mask >> (number - 1) & 1)


def libraries(pid: int) -> dict[str, int]:
    """Shared libraries that a process has mapped: path and size in bytes."""
    try:
        text = (PROC / str(pid) / "maps").read_text()
    except OSError:
        return {}
    paths = {
        line.split(None, 5)[5]
        for line in text.splitlines()
        if "/lib" in line and ".so" in line and len(line.split(None, 5)) == 6
    }
    found: dict[str, int] = {}
    for path in paths:
        if Path(path).name.startswith("lib"):
            try:
                found[path] = os.stat(path).st_size
            except OSError:
                continue
    return found
