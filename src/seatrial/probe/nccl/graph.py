"""Communicators over processes, and their connections by host."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from seatrial.probe.nccl.facts import Connection, Log, Member, ProcessLog
from seatrial.probe.nccl.paths import TransportPath
from seatrial.probe.nccl.reader import connections

Key = tuple[object, ...]


@dataclass(frozen=True)
class Edge:
    """Rank `a` sends to rank `b`. `source` and `target` are their hosts, empty where no log names them."""

    a: int
    b: int
    source: str
    target: str
    path: TransportPath
    sent: int  # channels that the sender states
    received: int  # and the receiver; only NET connections have that line
    sample: str

    @property
    def between_hosts(self) -> bool:
        """A NET connection whose other end no log names is taken to leave its host: that is what NET is for."""
        if self.source and self.target:
            return self.source != self.target
        return self.path.kind == "net"


@dataclass
class Communicator:
    """One communicator as its ranks state it together."""

    name: str
    size: int
    members: dict[int, Member] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    doubled: set[int] = field(default_factory=set)  # ranks that two processes claim to be

    @property
    def hosts(self) -> list[str]:
        """Names of the hosts seen, in order of rank."""
        return list(dict.fromkeys(self.members[rank].writer.host for rank in sorted(self.members)))

    @property
    def nodes(self) -> int:
        """Nodes by NCCL's own count, else the hosts that were seen."""
        return max((m.nodes for m in self.members.values()), default=0) or len(self.hosts)

    @property
    def missing(self) -> list[int]:
        """Ranks that said nothing."""
        return [rank for rank in range(self.size) if rank not in self.members]

    @property
    def networks(self) -> set[str]:
        """What `Using network` named."""
        return {m.network for m in self.members.values() if m.network}

    def between_hosts(self) -> list[Edge]:
        """Connections that leave a host; none in a communicator of one node."""
        return [e for e in self.edges if e.between_hosts] if self.nodes > 1 else []

    def inside_hosts(self) -> list[Edge]:
        """Connections between ranks of one host."""
        return [e for e in self.edges if not e.between_hosts or self.nodes == 1]


def communicators(log: Log) -> list[Communicator]:
    """All communicators with their connections, the largest first."""
    found: dict[Key, Communicator] = {}
    of_member: dict[int, Communicator] = {}
    for process in log.processes.values():
        keys: dict[str, Key] = {}  # by pointer: what a split refers to
        counts: Counter[Key] = Counter()
        for member in process.members:
            key = _key(member, keys, counts)
            keys[member.pointer] = key
            communicator = found.setdefault(key, Communicator(_name(key), member.size))
            if member.rank in communicator.members:
                communicator.doubled.add(member.rank)
            communicator.members.setdefault(member.rank, member)
            of_member[id(member)] = communicator
    _connect(log.processes.values(), of_member)
    return sorted(found.values(), key=lambda c: (-c.nodes, -c.size, c.name))


def _key(member: Member, keys: dict[str, Key], counts: Counter[Key]) -> Key:
    """What all ranks of a communicator have in common.

    Its id; for a split, which has none from 2.23 on, the parent's key, the colour, and which split of that parent it
    is; before 2.16, which prints no id at all, which communicator of its size.
    """
    if member.identity:
        return ("id", member.identity, member.size)
    if member.parent:
        base: Key = ("split", keys.get(member.parent, member.parent), member.color, member.size)
        counts[base[:2]] += 1
        return (*base, counts[base[:2]])
    base = ("size", member.size)
    counts[base] += 1
    return (*base, counts[base])


def _name(key: Key) -> str:
    if key[0] == "id":
        return str(key[1])
    return f"split {key[4]}, color {key[2]}" if key[0] == "split" else f"no. {key[2]} of {key[1]} ranks"


def _connect(processes: Iterable[ProcessLog], of_member: dict[int, Communicator]) -> None:
    """Gives each connection to its communicator, and adds up what both ends say."""
    sums: dict[int, dict[tuple[int, int, TransportPath], list[int]]] = defaultdict(dict)
    samples: dict[tuple[int, int, int, TransportPath], str] = {}
    known = {id(c): c for c in of_member.values()}
    for process in processes:
        for connection in connections(process):
            communicator = _of(connection, process, of_member)
            if communicator is None:
                continue
            key = (connection.a, connection.b, connection.path)
            both = sums[id(communicator)].setdefault(key, [0, 0])
            both[connection.direction == "receive"] += connection.lines
            samples.setdefault((id(communicator), *key), f"{process.writer}: {connection.sample}")
    for identity, edges in sums.items():
        communicator = known[identity]
        for (a, b, path), (sent, received) in edges.items():
            source, target = (_host(communicator, rank) for rank in (a, b))
            edge = Edge(a, b, source, target, path, sent, received, samples[identity, a, b, path])
            communicator.edges.append(edge)


def _of(connection: Connection, process: ProcessLog, of_member: dict[int, Communicator]) -> Communicator | None:
    """The communicator of a connection, which no line names: one that this process had, where it has that rank.

    From 2.22 on connections are made at the first collective, so it need not be the one that was started last. Where
    several fit, a NET connection goes to one in which it leaves the host, any other to one in which it does not.
    """
    mine = connection.b if connection.direction == "receive" else connection.a
    fitting = [
        m
        for m in process.members
        if m.generation <= connection.generation
        and m.rank == mine
        and max(connection.a, connection.b) < m.size
        and (not connection.comm or connection.comm == m.pointer)
    ]
    if not fitting:
        return None
    wanted = connection.path.kind == "net"
    for member in reversed(fitting):
        communicator = of_member[id(member)]
        hosts = [_host(communicator, rank) for rank in (connection.a, connection.b)]
        if (communicator.nodes > 1 and hosts[0] != hosts[1]) == wanted:
            return communicator
    return of_member[id(fitting[-1])]


def _host(communicator: Communicator, rank: int) -> str:
    member = communicator.members.get(rank)
    return member.writer.host if member else ""
