"""Which interface the ranks of a pair talk over, by TCP connections that both ends' processes hold."""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from seatrial.events import Stream
from seatrial.events.schema import Environment
from seatrial.events.wires import HostSample

LOOPBACK = "lo"  # Linux delivers between addresses of one host over it, whichever interface has them
Pair = tuple[int, int]


@dataclass(frozen=True)
class End:
    """One rank's end of a connection, as its host's probe saw it."""

    rank: int
    host: str
    local: str
    remote: str


def of_ranks(probe: Stream, host: str, until: str) -> list[End]:
    """Connections of the ranks of one host since training began, up to a UTC time; listed only when they change."""
    found: dict[End, None] = {}
    listed: dict[str, list[tuple[str, str]]] = {}
    for sample, utc in probe.dated(HostSample):
        if utc > until:
            break
        listed = listed if sample.connections is None else sample.connections
        if sample.steps:
            found |= {
                End(int(name.removeprefix("rank-")), host, *ends): None
                for name, all_of_them in listed.items()
                if name.startswith("rank-")
                for ends in all_of_them
            }
    return list(found)


def interfaces(probe: Stream) -> dict[str, list[str]]:
    """Interface names of a host with their addresses, by its environment layer `network`."""
    layers = [e.content for e in probe.all(Environment) if e.layer == "network"]
    links = layers[-1].get("interfaces", {}) if layers else {}
    return {name: list(link.get("addresses", [])) for name, link in links.items()}


def pairs(ends: Iterable[End], addresses: dict[str, dict[str, list[str]]]) -> dict[Pair, set[str]]:
    """`(rank, other rank)` -> the interfaces of the first one's host that their connections use, `?` if it has none.

    A connection counts only if the process at the other end is a rank too and holds the same connection.
    """
    held: dict[tuple[str, str, str], End] = {(scope(e), e.local, e.remote): e for e in ends}
    found: dict[Pair, set[str]] = defaultdict(set)
    for end in held.values():
        other = held.get((scope(end), end.remote, end.local))
        if other is None or other.rank == end.rank:
            continue
        own = addresses.get(end.host, {})
        name = LOOPBACK if other.host == end.host else carrying(end.local, own)
        found[end.rank, other.rank].add(name or "?")
    return dict(found)


def carrying(local: str, own: dict[str, list[str]]) -> str:
    return next((name for name, addresses in own.items() if _address(local) in addresses), "")


def _address(endpoint: str) -> str:
    return endpoint.rpartition(":")[0].strip("[]")


def scope(end: End) -> str:
    """A loopback address is another one on every host."""
    return end.host if ipaddress.ip_address(_address(end.local)).is_loopback else ""
