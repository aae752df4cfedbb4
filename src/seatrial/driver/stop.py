"""Asks the drivers of this host to stop, and waits until they have sealed: `python -m seatrial.driver.stop`.

A head pod runs it before `ray stop`: a driver that loses Ray while it collects what the hosts saw loses that too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

from seatrial.probe import processes

STOP_S = 60.0  # what a driver is given from the request to the seal


def stop(patience: float = STOP_S) -> tuple[list[processes.HostProcess], list[processes.HostProcess]]:
    """Sends SIGTERM to each driver; returns those that were asked, and those still there after `patience` seconds."""
    asked = list(processes.of_module("seatrial.driver"))
    for process in asked:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)
    pids = {process.pid for process in asked}
    deadline = time.monotonic() + patience
    while left := [process for process in processes.of_module("seatrial.driver") if process.pid in pids]:
        if time.monotonic() >= deadline:
            break
        time.sleep(processes.POLL_S)
    return asked, left


def main() -> int:
    """Returns 1 if a driver did not stop in time."""
    asked, left = stop()
    if left:
        print(f"seatrial: still running after {STOP_S:g} s: {', '.join(map(str, left))}", file=sys.stderr)
    elif asked:
        print(f"seatrial: stopped {', '.join(map(str, asked))}")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
