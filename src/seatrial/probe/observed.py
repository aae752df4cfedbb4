"""One host of a running job, watched for a window: nothing is written, and its processes are left alone.

A process is its pid *and* when it started: a pid that has been given to another process meanwhile is another process.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seatrial.canon import digest, exact, plain, utc
from seatrial.events import Redactor
from seatrial.events.writer import host_identity, machine_identity
from seatrial.probe import counters, gpus, interfaces, loaded, tcp_info, train_logs
from seatrial.probe.hardware import describe
from seatrial.probe.interfaces import PROC, SYS
from seatrial.probe.packages import installed
from seatrial.probe.processes import TRAIN_WORKER
from seatrial.probe.sockets import socket_inodes

SETTINGS = ("NCCL_", "FI_", "GLOO_", "OFI_NCCL_", "CUDA_VISIBLE_DEVICES", "RAY_TRAIN_")
INTERVAL_S = 1.0
NICE = 10  # the training comes first
_START_FIELD = 19  # `starttime` of /proc/PID/stat, counted after the name in brackets: field 22 of proc(5)


class HostObserver:
    """Watches the training processes with some pids on this host; an actor's class."""

    def __init__(self, pids: list[int], job: str, logs: str, proc: Path = PROC, sys: Path = SYS):
        self._pids, self._job, self._logs = pids, job, Path(logs)
        self._proc, self._sys = proc, sys
        self._packages: dict[tuple[str, ...], dict[str, str]] = {}
        self._seconds = 0.0
        self._seen: dict[str, Any] | None = None
        self._problem: BaseException | None = None

    def begin(self, seconds: float) -> bool:
        """Starts to watch for so many seconds and returns at once: an actor that is busy would outlive its job."""
        os.nice(NICE)
        self._seconds = seconds
        threading.Thread(target=self._watch, name="observer", daemon=True).start()
        return True

    def seen(self) -> dict[str, Any] | None:
        """What was seen; None while it watches. Raises what the watching failed with."""
        if self._problem:
            raise self._problem
        return self._seen

    def _watch(self) -> None:
        try:
            self._seen = self.watch(self._seconds)
        except BaseException as error:
            self._problem = error

    def watch(self, seconds: float) -> dict[str, Any]:
        """Everything that can be seen of the host and of the processes, over a window of so many seconds."""
        window = Window(self._pids, self._proc, self._sys)
        window.look()
        facts = self._facts(window.started)
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, INTERVAL_S))
            window.look()
        ranks = train_logs.ranks(self._logs, self._job)
        for pid, process in facts.items():
            process["rank"] = ranks.get(int(pid))
        return {
            **self._host(),
            "processes": facts,
            "packages": {digest(plain(packages)): packages for packages in self._packages.values()},
            "not_there": sorted(set(self._pids) - set(window.started)),
            "window": window.json(),
            "attempts": train_logs.attempts(self._logs, self._job),
            "checkpoint": train_logs.checkpoint(self._logs, self._job),
            "gpus": gpus.utilization(),
        }

    def _host(self) -> dict[str, Any]:
        return {
            "host": host_identity(),
            "machine": machine_identity(),
            "name": socket.gethostname(),
            "hardware": describe(),
            "network": interfaces.describe(interfaces.addresses(), self._proc, self._sys),
        }

    def _facts(self, started: Mapping[int, str]) -> dict[str, dict[str, Any]]:
        return {str(pid): self._process(pid, since) for pid, since in sorted(started.items())}

    def _process(self, pid: int, since: str) -> dict[str, Any]:
        found = loaded.libraries(pid, self._proc)
        folders = tuple(loaded.sites(pid, self._proc))
        if folders and folders not in self._packages:
            self._packages[folders] = installed(folders)
        return {
            "started": since,
            "title": title(pid, self._proc),
            "python": loaded.python(pid, self._proc),
            "executable": loaded.executable(pid, self._proc),
            "libraries": {"unknown": "its memory map cannot be read"} if found is None else found,
            "devices": loaded.devices(pid, self._proc),
            "nccl_threads": loaded.threads(pid, "NCCL", self._proc),
            "settings": Redactor().value(loaded.settings(pid, SETTINGS, self._proc)),
            "packages": digest(plain(self._packages[folders])) if folders else "",
        }


class Window:
    """What moved between the first and the last look at a host: its counters, and each connection of the processes."""

    def __init__(self, pids: list[int], proc: Path = PROC, sys: Path = SYS):
        self._proc, self._sys = proc, sys
        self.started = {
            pid: since for pid in pids if (since := start_time(pid, proc)) and TRAIN_WORKER in title(pid, proc)
        }
        self._gone: dict[int, str] = {}
        self._first: counters.Counters = {}
        self._last: counters.Counters = {}
        self._backwards: set[str] = set()
        self._times: list[tuple[float, str]] = []
        self._connections: dict[tuple[int, str, str], list[tcp_info.TcpConnection]] = {}
        self._untold = ""

    def look(self) -> None:
        """Reads all counters once.

        The interfaces are read before the connections the first time, and after them later: what the connections
        carried then lies within what the interfaces counted.
        """
        self._check()
        if self._times:
            self._connect()
        now = counters.read(self._proc, self._sys)
        if not self._times:
            self._connect()
        for device, figures in now.items():
            before = self._last.get(device, {})
            if any(int(figures[name]) < int(before[name]) for name in figures.keys() & before.keys()):
                self._backwards.add(device)
        self._first, self._last = self._first or now, now
        self._times.append((time.monotonic(), utc()))

    def _check(self) -> None:
        for pid, since in self.started.items():
            if pid in self._gone:
                continue
            now = start_time(pid, self._proc)
            if now != since:
                self._gone[pid] = "ended" if not now else "ended; another process has its pid now"

    def _connect(self) -> None:
        if self._untold:
            return
        try:
            table = tcp_info.by_inode()
        except OSError as error:
            self._untold = f"{error.strerror or error}"
            return
        for pid in self.started.keys() - self._gone.keys():
            for inode in (socket_inodes(pid, self._proc) or frozenset()) & table.keys():
                seen = table[inode]
                ends = self._connections.setdefault((pid, seen.local, seen.remote), [seen, seen])
                ends[1] = seen

    def json(self) -> dict[str, Any]:
        """First and last counters, seconds between them, and `[local, remote, sent, received]` by process."""
        (begun, first), (ended, last) = self._times[0], self._times[-1]
        found: dict[str, list[list[str]]] = {}
        for (pid, local, remote), (then, now) in sorted(self._connections.items()):
            moved = [exact(now.sent - then.sent), exact(now.received - then.received)]
            found.setdefault(str(pid), []).append([local, remote, *moved])
        return {
            "from": first,
            "until": last,
            "seconds": round(ended - begun, 3),
            "looks": len(self._times),
            "counters": [self._first, self._last],
            "backwards": sorted(self._backwards),
            "connections": {"unknown": self._untold} if self._untold else found,
            "gone": {str(pid): how for pid, how in sorted(self._gone.items())},
        }


def start_time(pid: int, proc: Path = PROC) -> str:
    """When a process started, in clock ticks since the machine did; empty if it is gone."""
    try:
        fields = (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return fields[_START_FIELD] if len(fields) > _START_FIELD and fields[0] not in ("Z", "X") else ""


def title(pid: int, proc: Path = PROC) -> str:
    """What a process calls itself; empty if it is gone."""
    try:
        raw = (proc / str(pid) / "cmdline").read_bytes()
    except OSError:
        return ""
    return raw.replace(b"\x00", b" ").decode("utf-8", "replace").strip()[:120]
