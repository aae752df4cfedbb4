"""Transport: which path the bytes between ranks took, by witnesses that do not know of each other.

With gloo they are the sockets that ranks hold (which interface) and the counters of those interfaces (how much, against
what the plan says). With NCCL they are its own log and the counters.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from seatrial.events import Stream
from seatrial.events.layers import Sharding, Torch, layer
from seatrial.events.planned import need
from seatrial.events.schema import CheckpointSaved, Step
from seatrial.events.wires import Connectivity
from seatrial.evidence.facts import transport
from seatrial.evidence.facts.fact import Fact
from seatrial.evidence.facts.transport import (
    CORROBORATED,
    DISAGREE,
    INSUFFICIENT,
    PATH,
    QUESTIONS,
    BusBandwidth,
    Bytes,
    Collective,
    InterfaceBytes,
    Interfaces,
    PairInterfaces,
    PathFinding,
    RankHosts,
)
from seatrial.evidence.run import Run
from seatrial.evidence.witness import connections, counters, nccl
from seatrial.plan.traffic import Sent, bus_bytes, checkpoint_bytes, messages, sent

ONE_HOST = "one host: no inter-node traffic"
ONE_EACH = "no host has two ranks"
SHOWN = 50


def facts(run: Run) -> Iterator[Fact[Any]]:
    """All facts of this kind."""
    hosts, sharding = _hosts(run), _sharding(run)
    yield hosts
    yield _connectivity(run)
    yield _busbw(run, sharding)
    if not hosts.known:
        yield transport.INTERFACES.like(hosts)
        yield transport.BYTES.like(hosts)
        yield from (path.like(hosts) for path in PATH.values())
    elif hosts.value.backend == "gloo":
        yield from _gloo(run, hosts.value, sharding)
    else:
        by_rank = hosts.value.by_rank
        yield from log_paths(by_rank, nccl.fact(run, by_rank, sharding))


def _busbw(run: Run, sharding: Sharding | None) -> Fact[BusBandwidth]:
    """A lower bound of the bus bandwidth of the job's collectives: a step's, by the time of the whole step.

    Nobody times single collectives of a training that overlaps them with its arithmetic. They take at most the step.
    """
    witness = "the plan's messages over the ranks' step times"
    if why := run.incomplete(run.ranks, "rank"):
        return transport.BUSBW.unknown(why, witness)
    if sharding is None:
        return transport.BUSBW.unknown("rank 0 did not record how the model is sharded", witness)
    ranks = [{e.step: e.duration_s for e in s.all(Step) if e.step >= run.plan.steady_from} for s in run.ranks]
    shared = sorted(set.intersection(*(set(rank) for rank in ranks)))
    seconds = math.fsum(max(rank[step] for rank in ranks) for step in shared)
    size = bus_bytes(messages(sharding, need(run.plan.micro_batches, "micro_batches")), sharding.mesh)
    if not seconds or not size:
        return transport.BUSBW.unknown("no step after the warm-up sends anything", witness)
    return transport.BUSBW.seen(BusBandwidth(size * len(shared) / seconds / 1e9), witness)


def _connectivity(run: Run) -> Fact[list[Collective]]:
    """That ranks reach each other, and how fast: before the training, by other messages. No claim rests on it."""
    witness = "rank 0, before the training; not the training's own messages"
    found = [
        Collective(e.collective, e.size_bytes, e.busbw / 1e9, e.seconds)
        for s in run.ranks[:1]
        for e in s.all(Connectivity)
    ]
    if found:
        return transport.CONNECTIVITY.seen(found, witness)
    return transport.CONNECTIVITY.unknown("no collective was measured", witness)


def _hosts(run: Run) -> Fact[RankHosts]:
    """Where each rank ran, and over which backend it spoke."""
    by_rank = [stream.header.host if stream.header else "" for stream in run.ranks]
    if not by_rank or not all(by_rank):
        why = run.incomplete(run.ranks, "rank") or "a rank did not say where it ran"
        return transport.HOSTS.unknown(why, "ranks")
    backends = {found.backend if (found := layer(s, Torch)) else "" for s in run.ranks}
    if len(backends) != 1 or "" in backends:
        why = "ranks did not all say which backend they used, or not the same one"
        return transport.HOSTS.unknown(why, "ranks")
    by_host: dict[str, list[int]] = defaultdict(list)
    for rank, host in enumerate(by_rank):
        by_host[host].append(rank)
    value = RankHosts(dict(by_host), by_rank, network_of(backends.pop()))
    return transport.HOSTS.seen(value, "headers and environment of each rank")


def network_of(backend: str) -> str:
    """The part of a backend like `cpu:gloo,cuda:nccl` that carries gradients."""
    return "nccl" if "nccl" in backend else "gloo" if "gloo" in backend else backend


def log_paths(by_rank: list[str], log: Fact[transport.NcclFindings]) -> Iterator[Fact[Any]]:
    """The log's findings as path facts; without a log, and without a path to speak of, they say why."""
    yield log
    for question in QUESTIONS:
        if why := moot(question, by_rank):
            yield PATH[question].not_applicable(why)
        elif log.known:
            finding = {
                "internode": log.value.internode,
                "intranode": log.value.intranode,
                "gpudirect": log.value.gpudirect,
            }[question]
            yield PATH[question].seen(finding, log.witness)
        else:
            yield PATH[question].like(log)


def moot(question: str, by_rank: list[str]) -> str:
    """Why a question has no answer on these hosts; empty if it has one."""
    if question == "intranode":
        return ONE_EACH if len(set(by_rank)) == len(by_rank) else ""
    return ONE_HOST if len(set(by_rank)) == 1 else ""


def _sharding(run: Run) -> Sharding | None:
    return layer(run.ranks[0], Sharding) if run.ranks else None


@dataclass(frozen=True)
class _Seen:
    """What sockets, plan and probes say about one run over gloo."""

    run: Run
    hosts: RankHosts
    sharding: Sharding
    micro_batches: int
    probes: dict[str, Stream]
    edges: dict[connections.Pair, Sent]
    used: dict[connections.Pair, set[str]]
    windows: dict[str, counters.CounterWindow]


def _gloo(run: Run, hosts: RankHosts, sharding: Sharding | None) -> Iterator[Fact[Any]]:
    why = _unready(run, hosts)
    if why or sharding is None:
        yield from _unknown(hosts, why or "rank 0 did not record how the model is sharded")
        return
    probes = {s.header.host: s for s in run.probes if s.header}
    first, last = run.plan.steady_from, need(run.plan.steps, "steps")
    ranks = len(hosts.by_rank)
    windows = {h: w for h in hosts.by_host if (w := counters.window(probes[h], ranks, first, last))}
    ends = [
        end
        for host in hosts.by_host
        for end in connections.ends_of(probes[host], host, windows[host].until if host in windows else "9999")
    ]
    micro_batches = need(run.plan.micro_batches, "micro_batches")
    edges = sent(messages(sharding, micro_batches), sharding.mesh, "gloo", hosts.by_rank)
    used = connections.pairs(ends, {host: connections.addresses(probes[host]) for host in hosts.by_host})
    seen = _Seen(run, hosts, sharding, micro_batches, probes, edges, used, windows)
    interfaces, size = _interfaces(seen), _bytes(seen)
    yield interfaces
    yield size
    for question in QUESTIONS:
        yield _path(question, hosts.by_rank, interfaces, size)


def _unknown(hosts: RankHosts, why: str) -> Iterator[Fact[Any]]:
    yield transport.INTERFACES.unknown(why)
    yield transport.BYTES.unknown(why)
    for question in QUESTIONS:
        idle = moot(question, hosts.by_rank)
        yield PATH[question].not_applicable(idle) if idle else PATH[question].unknown(why)


def _unready(run: Run, hosts: RankHosts) -> str:
    """What is missing before anything can be compared."""
    if why := run.incomplete(run.ranks, "rank"):
        return why
    if run.tolerances.wire_gloo_above is None:
        return "the plan has no tolerance for bytes on a wire"
    watched = {s.header.host for s in run.probes if s.header}
    silent = sorted(set(hosts.by_host) - watched)
    return f"host {silent[0]} has no probe" if silent else run.incomplete(run.probes, "probe")


def _interfaces(seen: _Seen) -> Fact[Interfaces]:
    """Every pair of ranks that the plan has talk to each other, with the interfaces of their common connections."""
    by_rank = seen.hosts.by_rank
    pairs = [
        PairInterfaces(
            ranks=pair,
            scope="intranode" if by_rank[pair[0]] == by_rank[pair[1]] else "internode",
            interfaces=sorted(seen.used.get(pair, set())),
        )
        for pair in sorted(seen.edges)
    ]
    used = {
        scope: sorted({name for pair in pairs if pair.scope == scope for name in pair.interfaces})
        for scope in ("internode", "intranode")
    }
    value = Interfaces(
        pairs=len(pairs),
        internode=used["internode"],
        intranode=used["intranode"],
        without_connection=[pair for pair in pairs if not pair.interfaces][:SHOWN],
        by_pair=pairs[:SHOWN],
    )
    return transport.INTERFACES.seen(value, "connections held at both ends, by the probes")


def _bytes(seen: _Seen) -> Fact[Bytes]:
    """Each interface that a host's ranks use: bytes sent over the steady window, and the band that the plan allows."""
    witness = "kernel counters, by the probes, against the plan"
    if short := sorted(set(seen.hosts.by_host) - set(seen.windows)):
        why = f"the probe of {short[0]} has fewer than two samples with counters inside the steady window"
        return transport.BYTES.unknown(why, witness)
    work = messages(seen.sharding, seen.micro_batches)
    value = Bytes(
        message_per_step_bytes=str(sum(m.size * m.times for m in work)),
        wire_per_step_bytes=str(round(sum(s.size for s in seen.edges.values()))),
        by_interface=[row for host in seen.hosts.by_host for row in _rows(seen, host)],
    )
    return transport.BYTES.seen(value, witness)


def _rows(seen: _Seen, host: str) -> Iterator[InterfaceBytes]:
    """One row for each interface of a host, and one for several together where pairs may have used any of them."""
    window, ranks = seen.windows[host], seen.hosts.by_host[host]
    saved = checkpoint_bytes(seen.sharding, len(seen.hosts.by_rank)) * _saves(seen.run, window)
    own = [names for pair, names in seen.used.items() if pair[0] in ranks]
    together = {tuple(sorted(names)) for names in own if len(names) > 1}
    for links in sorted({(name,) for names in own for name in names} | together):
        least, most = counters.expected(seen.edges, ranks, seen.used, set(links))
        if not most.size:
            continue  # a rendezvous, and no collective of the plan
        band = counters.band(window, least, most, seen.run.tolerances, "gloo", len(ranks) * saved)
        moved = counters.moved(window.samples, links)
        known = moved if isinstance(moved, dict) else {}
        yield InterfaceBytes(
            host=host,
            interface=" + ".join(links),
            scope="intranode" if links == (connections.LOOPBACK,) else "internode",
            word=band.word(known["tx_bytes"]) if known else "unreadable",
            problem=moved if isinstance(moved, str) else None,
            tx_bytes=str(known["tx_bytes"]) if known else None,
            rx_bytes=str(known["rx_bytes"]) if known else None,
            **asdict(band),
        )


def _saves(run: Run, window: counters.CounterWindow) -> int:
    """Checkpoints between the two samples, and those that may have run on into them."""
    steps = {e.step for s in run.ranks[:1] for e in s.all(CheckpointSaved)}
    return sum(min(window.first_done) <= step <= max(window.last_done) for step in steps)


def _path(question: str, by_rank: list[str], interfaces: Fact[Interfaces], size: Fact[Bytes]) -> Fact[PathFinding]:
    """The path of gloo, which is always TCP: whether sockets and counters agree on it."""
    if why := moot(question, by_rank):
        return PATH[question].not_applicable(why)
    scope = "internode" if question == "gpudirect" else question
    word, reasons = _agreement(scope, interfaces.value, size)
    path: str | bool = False if question == "gpudirect" else "tcp"
    finding = PathFinding(path, word, reasons, interfaces=interfaces.value.of(scope))
    return PATH[question].seen(finding, f"{interfaces.witness}; {size.witness}")


def _agreement(scope: str, interfaces: Interfaces, size: Fact[Bytes]) -> tuple[str, list[str]]:
    if silent := [pair.ranks for pair in interfaces.without_connection if pair.scope == scope]:
        return INSUFFICIENT, [f"no connection of ranks {a} and {b} was seen at both ends" for a, b in silent[:3]]
    if connections.NOWHERE in interfaces.of(scope):
        return INSUFFICIENT, ["a connection uses an address that no interface of its host has"]
    if not interfaces.of(scope):
        where = "on one host" if scope == "intranode" else "on different hosts"
        return INSUFFICIENT, [f"by the plan, no two ranks {where} send anything to each other"]
    if not size.known:
        return INSUFFICIENT, [size.reason]
    rows = [row for row in size.value.by_interface if row.scope == scope]
    if unreadable := [row.problem or "" for row in rows if row.word == "unreadable"]:
        return INSUFFICIENT, unreadable[:3]
    off = [_off(row) for row in rows if row.word != "within"]
    return (DISAGREE, off[:3]) if off else (CORROBORATED, [])


def _off(row: InterfaceBytes) -> str:
    went = {
        "still": "stood still",
        "below": "moved less than the ranks send",
        "above": "moved more than the ranks send",
    }
    seen = f"{int(row.tx_bytes or 0):,} bytes, {row.band} by the plan"
    return f"ranks hold connections over {row.interface} of {row.host}, whose counter {went[row.word]}: {seen}"
