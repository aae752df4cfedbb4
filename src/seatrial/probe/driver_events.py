"""The driver's event file as a probe reads it: the storage can still be reached where Ray cannot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from seatrial.canon import parse

HEARD = (b"stalled", b"phase_ended", b"closed", b"train_attempt")


class DriverEvents:
    """Follows the driver's events while they grow."""

    def __init__(self, path: Path):
        self._path, self._offset = path, 0

    def new(self) -> Iterator[dict[str, Any]]:
        """The events that came since the last call. A file that is opened anew shows its true size on NFS too."""
        if not self._path.is_file():
            return
        with self._path.open("rb") as handle:
            handle.seek(self._offset)
            data = handle.read()
        whole = data.rfind(b"\n") + 1
        self._offset += whole
        for line in data[:whole].splitlines():
            if any(b'"event":"%s"' % name in line for name in HEARD):
                yield parse(line)


def ends_the_run(event: dict[str, Any]) -> bool:
    """Whether the run is over: after the reload, a phase that did not finish, or the driver's last event."""
    if event["event"] == "phase_ended":
        return bool(event["phase"] == "reload" or event["status"] != "finished")
    return bool(event["event"] == "closed")
