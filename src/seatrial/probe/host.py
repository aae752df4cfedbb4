"""The probe of one host: an observer beside the training processes that outlives them.

It samples once a second, into its own file. The training processes never read what it reads.
"""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from typing import Any

from seatrial.canon import exact, parse
from seatrial.events import Writer
from seatrial.events.schema import Environment, HostSample
from seatrial.events.writer import host_identity
from seatrial.probe import processes
from seatrial.probe.hardware import describe
from seatrial.probe.packages import installed

INTERVAL_S = 1.0
LOOK_EVERY = 4
TAIL_BYTES = 64 << 10
_STEP = re.compile(rb'"event":"step"[^\n]*?"step":(\d+)[^\n]*\n')


class HostProbe:
    """Watches the processes of one run on this host until `stop`."""

    def __init__(self, path: str, run: str, attempt: int, claims: str, trial: str):
        self._root = Path(path).parents[2]
        self._events = Writer(Path(path), run=run, attempt=attempt, role="probe", claims=claims, trial=trial)
        self._folder = Path(path).parent
        self._peaks: dict[str, int] = {}
        self._libraries: dict[str, int] = {}
        self._pids: list[int] = []
        self._stopping = threading.Event()
        self._problem: BaseException | None = None
        self._events.write(Environment(layer="hardware", content=describe()))
        self._events.write(Environment(layer="base_packages", content={"installed": installed()}))
        self._thread = threading.Thread(target=self._watch, name="probe", daemon=True)
        self._thread.start()

    def ready(self) -> bool:
        """True: the probe has opened its file and watches."""
        return True

    def stop(self) -> None:
        """Ends the watch with a last sample. Raises what the watch failed with."""
        self._stopping.set()
        self._thread.join()
        if self._problem:
            raise self._problem
        self._events.write(
            Environment(layer="libraries", content={p: exact(s) for p, s in sorted(self._libraries.items())})
        )
        self._events.close()

    def _watch(self) -> None:
        try:
            ticks = 0
            while not self._stopping.wait(INTERVAL_S):
                self._sample(ticks)
                ticks += 1
        except BaseException as error:
            self._problem = error

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
        peaks = {name: exact(size) for name, size in sorted(self._peaks.items()) if size}
        steps = {path.stem: step for path in self._folder.glob("rank-*.jsonl") if (step := _last_step(path))}
        self._events.write(HostSample(steps=steps, peaks_bytes=peaks, resident_bytes=exact(resident)))

    def _members(self) -> dict[str, int]:
        """Process name and pid of the training processes on this host, by the headers of their event files."""
        found: dict[str, int] = {}
        for path in self._folder.glob("r*-*.jsonl"):
            header = _first_line(path)
            if header.get("host") == host_identity() and isinstance(header.get("pid"), int):
                found[path.stem] = header["pid"]
        return found


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
