"""The established TCP connections of a process, by the sockets that it has open."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from seatrial.probe.interfaces import PROC, text

ESTABLISHED = "01"  # TCP_ESTABLISHED in include/net/tcp_states.h
ANEW_EVERY = 30  # looks: a connection that only the other end has closed changes nothing in the process
Pair = tuple[str, str]
Connections = dict[str, list[Pair]]


class ConnectionWatch:
    """Follows the connections of processes.

    The kernel walks a table of a size that grows with the machine's memory to write /proc/net/tcp, milliseconds each
    time. It is asked only when a process has other sockets than before, and once more after that: a socket that is new
    may not be connected yet.
    """

    def __init__(self, proc: Path = PROC):
        self._proc = proc
        self._held: dict[str, frozenset[str]] = {}
        self._asks = self._looks = 0
        self._found: Connections = {}

    def look(self, pids: Mapping[str, int]) -> Connections | None:
        """By process name: `(local ip:port, remote ip:port)`, sorted; None if nothing has changed since the last look.

        A process that is gone is left out.
        """
        held = {name: inodes for name, pid in pids.items() if (inodes := socket_inodes(pid, self._proc)) is not None}
        self._looks += 1
        if held != self._held or self._looks % ANEW_EVERY == 0:
            self._held, self._asks = held, 2
        if not self._asks:
            return None
        self._asks -= 1
        before, self._found = self._found, connections({name: pids[name] for name in held}, self._proc)
        return None if self._found == before else self._found


def connections(pids: Mapping[str, int], proc: Path = PROC) -> Connections:
    """The established connections of some processes, by their names; those that are gone are left out."""
    tables: dict[str, dict[str, Pair]] = {}  # one for all processes of a network namespace
    found: Connections = {}
    for name, pid in pids.items():
        folder = proc / str(pid)
        held = socket_inodes(pid, proc)
        try:
            namespace = os.readlink(folder / "ns/net")
        except OSError:
            continue
        if namespace not in tables:
            tables[namespace] = {**_table(folder / "net/tcp"), **_table(folder / "net/tcp6")}
        found[name] = sorted(tables[namespace][inode] for inode in (held or frozenset()) & tables[namespace].keys())
    return found


def socket_inodes(pid: int, proc: Path = PROC) -> frozenset[str] | None:
    """Inodes of the sockets that a process has open; None if it is gone."""
    inodes: set[str] = set()
    try:
        with os.scandir(proc / str(pid) / "fd") as descriptors:
            for descriptor in descriptors:
                target = _target(descriptor.path)
                if target.startswith("socket:["):
                    inodes.add(target[8:-1])
    except OSError:
        return None
    return frozenset(inodes)


def _target(path: str) -> str:
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return ""  # closed meanwhile


def _table(path: Path) -> dict[str, Pair]:
    """Established connections of a namespace by inode; Documentation/networking/proc_net_tcp.rst has the columns."""
    rows = (line.split() for line in text(path).splitlines()[1:])
    return {row[9]: (_endpoint(row[1]), _endpoint(row[2])) for row in rows if len(row) > 9 and row[3] == ESTABLISHED}


@lru_cache(maxsize=4096)
def _endpoint(written: str) -> str:
    """`0B004D0A:18EB` as `10.77.0.11:6379`: words of four bytes, on little-endian machines in reverse."""
    digits, _, port = written.partition(":")
    raw = b"".join(bytes.fromhex(digits[at : at + 8])[::-1] for at in range(0, len(digits), 8))
    address = ipaddress.ip_address(raw)
    plain = getattr(address, "ipv4_mapped", None) or address
    return f"[{plain}]:{int(port, 16)}" if plain.version == 6 else f"{plain}:{int(port, 16)}"
