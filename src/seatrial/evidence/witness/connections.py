"""TCP connections between ranks, by both of their ends: which interface carries each, and what it has carried.

One end's word is no evidence: a connection counts only if the process at the other end is a rank too and holds the same
connection. What connections carried is one witness, the counter of the interface that carries them the other.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from seatrial.events import Stream
from seatrial.events.base import Nonsense
from seatrial.events.layers import Network, layer
from seatrial.events.wires import HostSample
from seatrial.evidence.facts.transport import CORROBORATED, DISAGREE, INSUFFICIENT

LOOPBACK = "lo"  # Linux delivers between addresses of one host over it, whichever interface has them
NOWHERE = "?"  # no interface of the host has the address
_RANK = re.compile(r"rank-([0-9]{1,9})")
Pair = tuple[int, int]
Addresses = Mapping[str, Mapping[str, Sequence[str]]]  # host -> interface -> its addresses


@dataclass(frozen=True)
class End:
    """One process's end of a connection, as its host's probe saw it. `process` is its rank, or a number for it."""

    process: int
    host: str
    local: str
    remote: str

    @property
    def scope(self) -> str:
        """Where its addresses are unique: a loopback address is another one on every host."""
        return self.host if _address(self.local).is_loopback else ""


@dataclass(frozen=True)
class Flow:
    """What one end of a connection between two ranks has sent. `interface` is of the sender's host."""

    source: End
    target: End
    interface: str
    sent: int

    @property
    def pair(self) -> Pair:
        return self.source.process, self.target.process

    @property
    def scope(self) -> str:
        return "intranode" if self.source.host == self.target.host else "internode"


@dataclass(frozen=True)
class Watched:
    """A host whose ranks must have sent something, and how to ask its counters.

    `moved` gives the bytes that an interface sent meanwhile, or why they are not known. `least` is what
    connections must carry to be more than a rendezvous. `aside` is what else to say where they carried nothing.
    """

    host: str
    name: str
    moved: Callable[[str], int | str]
    least: float
    aside: str = ""


def rank_of(name: str) -> int | None:
    """The rank of a process that probes call `rank-N`; None for any other."""
    found = _RANK.fullmatch(name)
    return int(found[1]) if found else None


def ends_of(probe: Stream, host: str, until: str) -> list[End]:
    """Connections of the ranks of one host since training began, up to a UTC time; listed only when they change."""
    found: dict[End, None] = {}
    listed: dict[str, list[tuple[str, str]]] = {}
    for sample, utc in probe.dated(HostSample):
        if utc > until:
            break
        listed = listed if sample.connections is None else sample.connections
        if not sample.steps:  # before the first step they are the rendezvous'
            continue
        for name, connections in listed.items():
            if (rank := rank_of(name)) is not None:
                found |= {End(rank, host, local, remote): None for local, remote in connections}
    return list(found)


def carried_by(probe: Stream, host: str) -> dict[End, int]:
    """Bytes that each end on a host has sent since it was first looked at, at most."""
    sent: dict[End, int] = {}
    first: dict[End, int] | None = None
    for sample in (e for e in probe.all(HostSample) if e.carried):
        now = {
            End(rank, host, local, remote): int(size)
            for name, rows in (sample.carried or {}).items()
            if (rank := rank_of(name)) is not None
            for local, remote, size in rows
        }
        first = now if first is None else first
        for end, size in now.items():
            sent[end] = max(sent.get(end, 0), size - first.get(end, 0))
    return sent


def addresses(probe: Stream) -> dict[str, tuple[str, ...]]:
    """Interface names of a host with their addresses, by its environment layer `network`."""
    network = layer(probe, Network)
    return network.addresses if network else {}


def flows(sent: Mapping[End, int], of_hosts: Addresses) -> list[Flow]:
    """A flow for each end whose other end is held by another rank."""
    return [
        Flow(end, other, _interface(end, other, of_hosts.get(end.host, {})), sent[end]) for end, other in _matched(sent)
    ]


def pairs(ends: Iterable[End], of_hosts: Addresses) -> dict[Pair, set[str]]:
    """`(rank, other rank)` -> the interfaces of the first one's host that their connections use."""
    found: dict[Pair, set[str]] = defaultdict(set)
    for flow in flows(dict.fromkeys(ends, 0), of_hosts):
        found[flow.pair].add(flow.interface)
    return dict(found)


def _matched(ends: Iterable[End]) -> Iterator[tuple[End, End]]:
    held = {(end.scope, end.local, end.remote): end for end in ends}
    for end in held.values():
        other = held.get((end.scope, end.remote, end.local))
        if other is not None and other.process != end.process:
            yield end, other


def _interface(end: End, other: End, own: Mapping[str, Sequence[str]]) -> str:
    if other.host == end.host:
        return LOOPBACK
    local = end.local.rpartition(":")[0].strip("[]")
    return next((name for name, known in own.items() if local in known), NOWHERE)


def _address(endpoint: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        return ipaddress.ip_address(endpoint.rpartition(":")[0].strip("[]"))
    except ValueError:
        raise Nonsense(f"{endpoint} is not the end of a connection") from None


def agreement(sent: Iterable[Flow], hosts: Iterable[Watched], below: float) -> tuple[str, list[str]]:
    """Whether the ranks of every host sent over connections to ranks, and its interfaces carried as much.

    The word of the finding and its reasons. `below` is the share by which a counter may fall short: it is not read
    at the same moment.
    """
    by_host: dict[str, Counter[str]] = defaultdict(Counter)
    for flow in sent:
        by_host[flow.source.host][flow.interface] += flow.sent
    for watched in hosts:
        word, reasons = _of_host(by_host[watched.host], watched, below)
        if word != CORROBORATED:
            return word, reasons
    return CORROBORATED, []


def _of_host(by_interface: Counter[str], watched: Watched, below: float) -> tuple[str, list[str]]:
    name = watched.name
    if not by_interface:
        return INSUFFICIENT, [f"no connection between ranks was held at both ends on {name}{watched.aside}"]
    if NOWHERE in by_interface:
        return INSUFFICIENT, [f"a connection uses an address that no interface of {name} has"]
    if (total := by_interface.total()) < watched.least:
        said = f"connections between ranks carried only {total:,} bytes from {name} while they were watched"
        return INSUFFICIENT, [f"{said}{watched.aside}"]
    for interface, size in by_interface.items():
        moved = watched.moved(interface)
        if isinstance(moved, str):
            return INSUFFICIENT, [moved]
        if moved < size * (1 - below):
            said = f"connections of ranks over {interface} of {name} sent {size:,} bytes"
            return DISAGREE, [f"{said}, its counter moved by {moved:,}"]
    return CORROBORATED, []
