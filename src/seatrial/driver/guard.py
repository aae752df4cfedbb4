"""Seals the run of a driver that could not do so itself: `python -m seatrial.driver.guard RUN`.

On a cluster nobody waits for the driver as the launcher does on a laptop, and Ray ends a process that has joined it
as soon as it loses the raylet. The guard never joins Ray. It lives as long as its stdin, a pipe whose other end only
the driver holds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from seatrial.driver import deliver
from seatrial.driver.finish import collect_own_log, seal_run, wait_until_still
from seatrial.driver.tell import hand_over
from seatrial.events import Layout
from seatrial.probe import processes
from seatrial.probe.processes import RUN_VARIABLE

GRACE_S = 10.0  # Ray Train's workers go with the driver, but not at once


def start(layout: Layout, secrets: Mapping[str, str]) -> IO[bytes]:
    """Starts the guard of a run; returns the pipe that has to stay open as long as this process lives.

    `secrets` are variables whose values no log may hold; they go through the pipe. Raises OSError.
    """
    # Without the mark of the run: what bears it is ended when the run is over.
    environment = {name: value for name, value in os.environ.items() if name != RUN_VARIABLE}
    command = [sys.executable, "-m", "seatrial.driver.guard", str(layout.root)]
    guard = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
    assert guard.stdin is not None
    guard.stdin.write(json.dumps(dict(secrets)).encode() + b"\n")
    guard.stdin.flush()
    guard.wait()  # until it has made itself nobody's child
    return guard.stdin


def main() -> int:
    """Waits for the driver's end; returns 0 when there is a record, or nothing that could be sealed."""
    layout = Layout(Path(sys.argv[1]))
    if os.fork():
        os._exit(0)
    os.setsid()  # Ray ends the children of a job, and its process group
    secrets = json.loads(sys.stdin.buffer.readline() or b"{}")
    sys.stdin.buffer.read()
    if layout.record.is_file() or not layout.driver_events.is_file():
        return 0
    print(f"seatrial: the driver ended without a record; sealing what it left in {layout.root}", file=sys.stderr)
    _settle(layout)
    try:
        collect_own_log(layout, secrets)
    except OSError as error:
        print(f"seatrial: the driver's log could not be kept: {error}", file=sys.stderr)
    path, _ = seal_run(layout)
    print(f"seatrial: sealed {path}")
    if deliver.VARIABLE in os.environ:
        hand_over(layout)
    return 0


def _settle(layout: Layout) -> None:
    """Waits until nothing writes to the run any more: a file must not grow while it is hashed."""
    for process in processes.end(lambda: list(processes.holding(layout.root)), GRACE_S):
        print(f"seatrial: ended {process}", file=sys.stderr)
    wait_until_still(layout)


if __name__ == "__main__":
    sys.exit(main())
