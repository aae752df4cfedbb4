"""The probe of one host: an observer beside the training processes that outlives them.

It samples once a second, into a file of its own. It also does what the driver cannot do from another host: it has ranks
write their stacks, and ends those that outlive the run.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from pathlib import Path
from typing import Any

from seatrial.canon import exact, parse
from seatrial.events import Layout, Redactor, Writer
from seatrial.events.schema import Environment, Leftover
from seatrial.events.wires import HostSample
from seatrial.events.writer import NODE_VARIABLE, host_identity
from seatrial.probe import counters, interfaces, processes, sockets, tcp_info
from seatrial.probe.driver_events import DriverEvents, ends_the_run
from seatrial.probe.hardware import describe
from seatrial.probe.nccl import collect
from seatrial.probe.packages import installed
from seatrial.probe.sockets import ConnectionWatch

INTERVAL_S = 1.0
LOOK_EVERY = 4
GRACE_S = 5.0  # Ray ends the ranks of a run that is over, but not at once
TAIL_BYTES = 64 << 10
_STEP = re.compile(rb'"event":"step"[^\n]*?"step":(\d+)[^\n]*\n')
_SPARE = ("ray::IDLE", "default_worker.py")  # in the titles of Ray's processes


class HostProbe:
    """Watches the processes of one run on this host until `stop`, or until the driver's events say that it is over."""

    def __init__(self, path: str, run: str, attempt: int, claims: str, trial: str):
        self._root = Path(path).parents[2]
        self._events = Writer(Path(path), run=run, attempt=attempt, role="probe", claims=claims, trial=trial)
        self._folder, self._attempt = Path(path).parent, attempt
        self._driver = DriverEvents(Layout(self._root).driver_events)
        self._sockets = ConnectionWatch()
        self._peaks: dict[str, int] = {}
        self._libraries: dict[str, int] = {}
        self._pids: list[int] = []
        self._told_members: dict[str, int] = {}  # what Ray Train says of this host's ranks, for scripts that are silent
        self._told_pids: set[int] = set()  # of the ranks of the last attempt, on all hosts
        self._left: list[str] = []
        self._over = threading.Event()
        self._problem: BaseException | None = None
        collect.folder(run, attempt).mkdir(parents=True, exist_ok=True)  # NCCL makes a file, not a folder
        self._events.write(Environment(layer="hardware", content=describe()))
        self._events.write(Environment(layer="network", content=interfaces.describe(interfaces.addresses())))
        self._events.write(Environment(layer="base_packages", content={"installed": installed()}))
        self._thread = threading.Thread(target=self._watch, name="probe", daemon=True)
        self._thread.start()

    def ready(self) -> bool:
        """True: the probe has opened its file and watches."""
        return True

    def stop(self) -> list[str]:
        """Ends the watch; returns the ranks that had to be ended. Raises what the watch failed with."""
        self._over.set()
        self._thread.join()
        if self._problem:
            raise self._problem
        return self._left

    def _watch(self) -> None:
        try:
            ticks = 0
            while not self._over.wait(INTERVAL_S):
                self._sample(ticks)
                self._hear()
                ticks += 1
            self._finish()
        except BaseException as error:
            self._problem = error

    def _hear(self) -> None:
        """Acts on the driver's new events: a stall, a new attempt, the end of the run."""
        for event in self._driver.new():
            if event["event"] == "stalled":
                for process in self._ranks():
                    if processes.catches(process.pid, processes.STACKS):
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(process.pid, processes.STACKS)
            elif event["event"] == "train_attempt":
                here = os.environ.get(NODE_VARIABLE, "")
                self._told_members = {f"rank-{w['rank']}": w["pid"] for w in event["workers"] if w["node"] == here}
                self._told_pids = {w["pid"] for w in event["workers"]}
            elif ends_the_run(event):
                self._over.set()

    def _finish(self) -> None:
        self._left = [str(process) for process in processes.end(self._outliving, GRACE_S)]
        if self._left:
            self._events.write(Leftover(processes=self._left))
        self._sample(0)
        logs = Layout(self._root).logs / "nccl" / self._events.path.stem
        where = logs.relative_to(self._root).as_posix()
        for event in collect.collect(self._root.name, self._attempt, logs, where, Redactor()):
            self._events.write(event)
        self._events.write(
            Environment(layer="libraries", content={p: exact(s) for p, s in sorted(self._libraries.items())})
        )
        self._events.close()

    def _ranks(self) -> list[processes.HostProcess]:
        """Training processes on this host. A pid of theirs may be another process's by now: the title tells."""
        return [p for p in processes.with_pids(set(self._members().values())) if processes.TRAIN_WORKER in p.command]

    def _outliving(self) -> list[processes.HostProcess]:
        """Ranks that are still there, and the processes that they have started."""
        started = [
            process
            for process in processes.of_run(self._root, variable=processes.MEMBER_VARIABLE)
            if not any(word in process.command for word in _SPARE)
        ]
        return list({process.pid: process for process in (*self._ranks(), *started)}.values())

    def _sample(self, ticks: int) -> None:
        """One sample. Looking for new processes and libraries costs most, and is done every few seconds."""
        members = self._members()
        if ticks % LOOK_EVERY == 0:
            self._pids = [p.pid for p in processes.of_run(self._root)]
            for pid in members.values():
                self._libraries |= processes.libraries(pid)
        for name, pid in members.items():
            self._peaks[name] = max(self._peaks.get(name, 0), processes.status(pid).get("VmHWM", 0))
        resident = sum(processes.status(pid).get("RssAnon", 0) for pid in {*self._pids, *members.values()})
        self._events.write(
            HostSample(
                steps={path.stem: step for path in self._files("rank-*.jsonl") if (step := _last_step(path))},
                peaks_bytes={name: exact(size) for name, size in sorted(self._peaks.items()) if size},
                resident_bytes=exact(resident),
                counters=counters.read(),
                connections=self._sockets.look(members),
                carried=self._carried(members) if self._told_members and ticks % LOOK_EVERY == 0 else None,
            )
        )

    def _carried(self, members: dict[str, int]) -> dict[str, list[tuple[str, str, str]]] | None:
        """What the connections of each process have sent, by the kernel's count; None where it does not tell."""
        try:
            known = tcp_info.by_inode()
        except OSError:
            return None
        held = {name: sockets.socket_inodes(pid) or frozenset() for name, pid in members.items()}
        return {
            name: sorted((c.local, c.remote, exact(c.sent)) for inode in inodes if (c := known.get(inode)))
            for name, inodes in held.items()
        }

    def _members(self) -> dict[str, int]:
        """Process name and pid of the training processes on this host: by what Ray Train says of a script's, which
        knows a new attempt before it has files, else by the headers of their event files."""
        found: dict[str, int] = {}
        for path in self._files("r*-*.jsonl"):
            header = _first_line(path)
            if header.get("host") == host_identity() and isinstance(header.get("pid"), int):
                found[path.stem] = header["pid"]
        return found | self._told_members

    def _files(self, pattern: str) -> list[Path]:
        """Event files of the training processes, of their newest attempt: a script may be started again by Ray."""
        folders = sorted(self._folder.parent.glob("a*/"), key=lambda folder: int(folder.name[1:]))
        newest = next((found for folder in reversed(folders) if (found := sorted(folder.glob(pattern)))), [])
        if self._told_pids and not any(_first_line(path).get("pid") in self._told_pids for path in newest):
            return []  # an attempt that is over, while the next has written nothing yet
        return newest


def _last_step(path: Path) -> int:
    """The last whole step event near the end of a rank's file, 0 if there is none."""
    with path.open("rb") as handle:
        handle.seek(max(0, handle.seek(0, os.SEEK_END) - TAIL_BYTES))
        steps = _STEP.findall(handle.read())
    return int(steps[-1]) if steps else 0


def _first_line(path: Path) -> dict[str, Any]:
    with path.open("rb") as handle:
        line = handle.readline()
    try:
        header = parse(line)
    except ValueError:
        return {}  # not whole yet
    return header if isinstance(header, dict) else {}
