"""The network interfaces of this host, and what the settings of gloo and NCCL make of them. Linux and libc only."""

from __future__ import annotations

import ctypes
import ipaddress
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

PROC, SYS = Path("/proc"), Path("/sys")
Addresses = Mapping[str, tuple[str, ...]]  # by interface


class _Entry(ctypes.Structure):
    """`struct ifaddrs` of <ifaddrs.h>, up to what is read here."""


_Entry._fields_ = [
    ("next", ctypes.POINTER(_Entry)),
    ("name", ctypes.c_char_p),
    ("flags", ctypes.c_uint),
    ("address", ctypes.c_void_p),
]
# Where an address stands in `struct sockaddr_in` and `sockaddr_in6`: its offset and its length.
_PLACES: dict[int, tuple[int, int]] = {socket.AF_INET: (4, 4), socket.AF_INET6: (8, 16)}


def addresses() -> dict[str, tuple[str, ...]]:
    """Every interface of this network namespace with its IP addresses, by what the kernel says. Raises OSError."""
    found: dict[str, list[str]] = {name: [] for _, name in socket.if_nameindex()}
    for name, address in _assigned():
        found.setdefault(name, []).append(address)
    return {name: tuple(found[name]) for name in sorted(found)}


def _assigned() -> Iterator[tuple[str, str]]:
    libc = ctypes.CDLL(None, use_errno=True)
    first = ctypes.POINTER(_Entry)()
    if libc.getifaddrs(ctypes.byref(first)):
        number = ctypes.get_errno()
        raise OSError(number, f"getifaddrs: {os.strerror(number)}")
    try:
        entry = first
        while entry:
            where = entry.contents.address
            place = _PLACES.get(ctypes.c_ushort.from_address(where).value) if where else None
            if place:
                yield (
                    entry.contents.name.decode(),
                    str(ipaddress.ip_address(ctypes.string_at(where + place[0], place[1]))),
                )
            entry = entry.contents.next
    finally:
        libc.freeifaddrs(first)


def carrying(address: str, found: Addresses) -> str:
    """The interface that has this address; empty if none has."""
    return next((name for name, own in found.items() if address in own), "")


def describe(found: Addresses, proc: Path = PROC, sys: Path = SYS) -> dict[str, Any]:
    """The environment layer `network`: interfaces, the one of the default route, and RDMA devices by their kind."""
    links = {name: {"addresses": list(own), **_link(sys / "class/net" / name)} for name, own in found.items()}
    return {
        "interfaces": links,
        "default_route": default_route(proc),
        "rdma": {path.name: rdma(path) for path in sorted((sys / "class/infiniband").glob("*"))},
    }


def _link(folder: Path) -> dict[str, int]:
    """MTU, and the speed in Mbit/s where the interface knows one."""
    read = {"mtu": _number(folder / "mtu"), "speed_mbps": _number(folder / "speed")}
    return {name: value for name, value in read.items() if value > 0}


def _number(path: Path) -> int:
    try:
        return int(text(path))
    except ValueError:
        return -1


def text(path: Path) -> str:
    """What a file of the kernel says, without the space around it; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def rdma(device: Path) -> dict[str, str]:
    """Driver and PCI numbers of one device below `class/infiniband`; what cannot be read is left out."""
    driver = device / "device/driver"
    read = {
        "driver": driver.resolve().name if driver.is_symlink() else "",
        "vendor": text(device / "device/vendor"),
        "device": text(device / "device/device"),
    }
    return {name: value for name, value in read.items() if value}


def default_route(proc: Path = PROC) -> str:
    """The interface of the default route of least metric, IPv4 before IPv6; empty if there is none."""
    rows = [line.split() for line in text(proc / "net/route").splitlines()[1:]]
    routes = [(int(r[6]), r[0]) for r in rows if len(r) > 7 and r[1] == r[7] == "00000000"]
    if not routes:
        rows = [line.split() for line in text(proc / "net/ipv6_route").splitlines()]
        routes = [(int(r[5], 16), r[9]) for r in rows if len(r) > 9 and set(r[0] + r[1]) == {"0"} and r[9] != "lo"]
    return min(routes)[1] if routes else ""


def chosen(variable: str, value: str, found: Addresses) -> list[str]:
    """The interfaces that a setting names; empty if it names none.

    gloo's names are exact. NCCL's are prefixes; `=` makes them exact, `^` excludes them.
    """
    names = [name.strip() for name in value.lstrip("^=").split(",") if name.strip()]
    if variable == "GLOO_SOCKET_IFNAME":
        names = [name.strip() for name in value.split(",")]
        return [name for name in names if name in found] if all(name in found for name in names) else []
    fits = {
        name: any(name == wanted if value.lstrip("^").startswith("=") else name.startswith(wanted) for wanted in names)
        for name in found
    }
    return [name for name in found if fits[name] != value.startswith("^")]


def problem_with(variable: str, value: str, found: Addresses, hosts: int) -> str:
    """Why ranks on so many hosts cannot reach each other with this setting, in one line; empty if they can."""
    named = chosen(variable, value, found)
    usable = [name for name in named if found[name]]
    if not named:
        why = "is no interface of this host"
    elif not usable:
        why = "has no IP address on this host"
    elif hosts > 1 and all(ipaddress.ip_address(a).is_loopback for name in usable for a in found[name]):
        why = f"is the loopback interface, and the ranks are on {hosts} hosts"
    else:
        return ""
    has = ", ".join(f"{name} ({' '.join(own) or 'no address'})" for name, own in found.items())
    return f'{variable} says "{value}", which {why}; {socket.gethostname()} has {has}'
