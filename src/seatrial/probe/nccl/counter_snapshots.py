"""What each host of a job moved, from snapshots of its counters that somebody took before and after.

A line is `{"host": "node-0", "counters": {"efa/rdmap0s6": {"tx_bytes": "1", …}, "net/eth0": {…}}}`; the event file of a
run's probe is of this form too. The first and the last line of a host count.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from seatrial.canon import utc
from seatrial.errors import InputError, Place
from seatrial.probe import counters
from seatrial.probe.nccl.findings import Moved

Counters = Mapping[str, Mapping[str, str]]


def moved(paths: Iterable[Path]) -> dict[str, Moved]:
    """What the hosts in these files moved, by host. Raises InputError."""
    seen: dict[str, list[Counters]] = {}
    for path in paths:
        for host, taken in _snapshots(path):
            seen.setdefault(host, []).append(taken)
    for host, snapshots in seen.items():
        if len(snapshots) < 2:
            raise InputError(
                f"one snapshot of {host}", field="counters", expected="one before and one after the job, at least"
            )
    return {host: difference(snapshots[0], snapshots[-1]) for host, snapshots in seen.items()}


def snapshot() -> dict[str, Any]:
    """This host's counters now, as one of the lines."""
    return {"host": _name(socket.gethostname()), "utc": utc(), "counters": counters.read()}


def difference(before: Counters, after: Counters) -> Moved:
    """What moved between two snapshots. A counter that went backwards was reset, and counts from zero."""
    ways: dict[str, list[int]] = {"efa": [0, 0], "ib": [0, 0], "net": [0, 0]}
    for device, values in after.items():
        kind, _, name = device.partition("/")
        if kind not in ways or name == "lo":
            continue
        for position, counter in enumerate(("tx_bytes", "rx_bytes")):
            last, first = int(values.get(counter, 0)), int(before.get(device, {}).get(counter, 0))
            ways[kind][position] += last - first if last >= first else last
    return Moved(*((way[0], way[1]) for way in ways.values()))


def _snapshots(path: Path) -> Iterable[tuple[str, Counters]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", place=Place(str(path)), field="counters") from None
    except UnicodeDecodeError:
        raise InputError("is not text", place=Place(str(path)), field="counters", expected="JSON lines") from None
    found: list[tuple[str, Counters]] = []
    documents = [(n, _document(line, Place(str(path), n, 1))) for n, line in enumerate(lines, 1) if line.strip()]
    own = _of_probe([document for _, document in documents])
    for number, document in documents:
        host = own if "event" in document else document.get("host")
        if isinstance(values := document.get("counters"), dict) and values:
            if not isinstance(host, str) or not host:
                raise InputError(
                    "names no host",
                    place=Place(str(path), number, 1),
                    field="counters",
                    expected="the host as NCCL's lines name it; a probe's file has it if NCCL wrote a log there",
                )
            found.append((_name(host), _checked(values, Place(str(path), number, 1))))
    return found


def _of_probe(documents: list[dict[str, Any]]) -> str:
    """The host of a run's probe, from the name of a log that it read: `r0.node-0.79`."""
    names = [str(document.get("name", "")) for document in documents if document.get("event") == "nccl_log"]
    return names[0].partition(".")[2].rpartition(".")[0] if names else ""


def _name(host: str) -> str:
    """As NCCL writes it: up to the first point."""
    return host.partition(".")[0]


def _document(line: str, place: Place) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise InputError("is no JSON object", place=place, field="counters", expected="one snapshot a line")
    return document


def _checked(devices: dict[str, Any], place: Place) -> Counters:
    for device, values in devices.items():
        if not isinstance(values, dict) or not all(str(value).isdigit() for value in values.values()):
            raise InputError(
                f"{device} holds what is no count", place=place, field="counters", expected="whole numbers by name"
            )
    return devices
