"""The probe of one host: an observer beside the training processes that outlives them.

It samples once a second, into its own file. The training processes never read what it reads.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from seatrial.canon import exact, parse
from seatrial.events import Writer
from seatrial.events.schema import Environment, MemorySample
from seatrial.events.writer import host_identity
from seatrial.probe import processes
from seatrial.probe.hardware import describe
from seatrial.probe.packages import installed

INTERVAL_S = 1.0


class HostProbe:
    """Watches the processes of one run on this host until `stop`."""

    def __init__(self, path: str, run: str, attempt: int, claims: str, trial: str):
        self._run = run
        self._events = Writer(Path(path), run=run, attempt=attempt, role="probe", claims=claims, trial=trial)
        self._folder = Path(path).parent
        self._peaks: dict[str, int] = {}
        self._libraries: dict[str, int] = {}
        self._stopping = threading.Event()
        self._problem: BaseException | None = None
        self._events.write(Environment(layer="hardware", content=describe()))
        self._events.write(Environment(layer="base_packages", content={"installed": installed()}))
        self._thread = threading.Thread(target=self._watch, name="probe", daemon=True)
        self._thread.start()

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
                ticks += 1
                self._sample(with_libraries=ticks % 3 == 0)  # the list only grows
        except BaseException as error:
            self._problem = error

    def _sample(self, with_libraries: bool) -> None:
        for name, pid in self._members().items():
            figures = processes.status(pid)
            if "VmHWM" in figures:
                self._peaks[name] = max(self._peaks.get(name, 0), figures["VmHWM"])
            if with_libraries:
                self._libraries |= processes.libraries(pid)
        resident = sum(processes.status(p.pid).get("RssAnon", 0) for p in processes.of_run(self._run))
        self._events.write(
            MemorySample(
                peaks_bytes={k: exact(v) for k, v in sorted(self._peaks.items())}, resident_bytes=exact(resident)
            )
        )

    def _members(self) -> dict[str, int]:
        """Process name and pid of the training processes on this host, by the headers of their event files."""
        found: dict[str, int] = {}
        for path in self._folder.glob("r*-*.jsonl"):
            header = _first_line(path)
            if header.get("host") == host_identity() and isinstance(header.get("pid"), int):
                found[path.stem] = header["pid"]
        return found


def _first_line(path: Path) -> dict[str, Any]:
    with path.open("rb") as handle:
        line = handle.readline()
    try:
        header = parse(line)
    except ValueError:
        return {}  # not whole yet
    return header if isinstance(header, dict) else {}
