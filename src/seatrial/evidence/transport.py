"""Transport: which path the bytes between ranks took, by witnesses that do not know of each other.

With gloo they are the sockets that ranks hold (which interface) and the counters of those interfaces (how much, against
what the plan says). NCCL's log is read elsewhere and comes as one fact, `transport.nccl`, with the value
`{"internode": finding, "intranode": finding, "gpudirect": finding}`, each finding
`{"path": str | bool | None, "word": str, "reasons": [str]}` with a word of DESIGN, section 5.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from seatrial.events import Stream
from seatrial.events.schema import CheckpointSaved, Environment, Step
from seatrial.events.wires import Connectivity
from seatrial.evidence import counted, nccl, sockets
from seatrial.evidence.facts import Fact, unknown
from seatrial.evidence.gather import Run
from seatrial.plan.traffic import Sent, bus_bytes, checkpoint_bytes, messages, sent

CORROBORATED, DISAGREE, INSUFFICIENT = "corroborated", "witnesses-disagree", "insufficient"
ONE_HOST = "one host: no inter-node traffic"
ONE_EACH = "no host has two ranks"
QUESTIONS = ("internode", "intranode", "gpudirect")
SHOWN = 50


def facts(run: Run) -> dict[str, Fact]:
    """All facts of this kind."""
    hosts = _hosts(run)
    found = [hosts, _connectivity(run), _busbw(run)]
    if not hosts.known:
        found += [unknown(name, hosts.reason, hosts.witness) for name in _names()]
    elif hosts.value["backend"] == "gloo":
        found += _gloo(run, hosts.value["by_rank"])
    else:
        by_rank = hosts.value["by_rank"]
        found += log_paths(by_rank, nccl.fact(run, by_rank, _sharding(run)))
    return {fact.id: fact for fact in found}


def _busbw(run: Run) -> Fact:
    """A lower bound of the bus bandwidth of the job's collectives: a step's, by the time of the whole step.

    Nobody times single collectives of a training that overlaps them with its arithmetic. They take at most the step.
    """
    name, witness = "transport.busbw", "the plan's messages over the ranks' step times"
    sharding = _sharding(run)
    why = run.incomplete(run.ranks, "rank") or ("" if sharding else "rank 0 did not record how the model is sharded")
    if why:
        return unknown(name, why, witness)
    start = int(run.plan.get("steady_from", 1))
    ranks = [{e.step: e.duration_s for e in s.all(Step) if e.step >= start} for s in run.ranks]
    shared = sorted(set.intersection(*(set(rank) for rank in ranks)))
    seconds = math.fsum(max(rank[step] for rank in ranks) for step in shared)
    size = bus_bytes(messages(sharding, int(run.plan["micro_batches"])), sharding["mesh"])
    if not seconds or not size:
        return unknown(name, "no step after the warm-up sends anything", witness)
    return Fact(name, value={"at_least_gb_per_s": size * len(shared) / seconds / 1e9}, unit="GB/s", witness=witness)


def _connectivity(run: Run) -> Fact:
    """That ranks reach each other, and how fast: before the training, by other messages. No claim rests on it."""
    name, witness = "transport.connectivity", "rank 0, before the training; not the training's own messages"
    found = [
        {"collective": e.collective, "size_bytes": e.size_bytes, "busbw_gb_per_s": e.busbw / 1e9, "seconds": e.seconds}
        for s in run.ranks[:1]
        for e in s.all(Connectivity)
    ]
    return Fact(name, value=found, witness=witness) if found else unknown(name, "no collective was measured", witness)


def _names() -> list[str]:
    return ["transport.interfaces", "transport.bytes", *(f"transport.{question}.path" for question in QUESTIONS)]


def _hosts(run: Run) -> Fact:
    """Where each rank ran, and over which backend it spoke."""
    name = "transport.hosts"
    by_rank = [stream.header.host if stream.header else "" for stream in run.ranks]
    if not by_rank or not all(by_rank):
        return unknown(name, run.incomplete(run.ranks, "rank") or "a rank did not say where it ran", "ranks")
    layers = [[e.content for e in s.all(Environment) if e.layer == "torch"] for s in run.ranks]
    backends = {str(layer[-1].get("backend")) if layer else "" for layer in layers}
    if len(backends) != 1 or "" in backends:
        return unknown(name, "ranks did not all say which backend they used, or not the same one", "ranks")
    by_host: dict[str, list[int]] = defaultdict(list)
    for rank, host in enumerate(by_rank):
        by_host[host].append(rank)
    value = {"by_host": dict(by_host), "by_rank": by_rank, "backend": _network(backends.pop())}
    return Fact(name, value=value, witness="headers and environment of each rank")


def _network(backend: str) -> str:
    """The part of a backend like `cpu:gloo,cuda:nccl` that carries gradients."""
    return "nccl" if "nccl" in backend else "gloo" if "gloo" in backend else backend


def log_paths(by_rank: list[str], log: Fact) -> list[Fact]:
    """The log's findings as path facts; without a log, and without a path to speak of, they say why."""
    found = [log]
    for question in QUESTIONS:
        name, why = f"transport.{question}.path", moot(question, by_rank)
        if why:
            found.append(Fact(name, "not-applicable", reason=why))
        elif log.known:
            found.append(Fact(name, value=log.value[question], witness=log.witness))
        else:
            found.append(unknown(name, log.reason, log.witness))
    return found


def moot(question: str, by_rank: list[str]) -> str:
    """Why a question has no answer on these hosts; empty if it has one."""
    if question == "intranode":
        return ONE_EACH if len(set(by_rank)) == len(by_rank) else ""
    return ONE_HOST if len(set(by_rank)) == 1 else ""


@dataclass(frozen=True)
class _Seen:
    """What sockets, plan and probes say about one run over gloo."""

    hosts: dict[str, list[int]]
    probes: dict[str, Stream]
    edges: dict[sockets.Pair, Sent]
    used: dict[sockets.Pair, set[str]]
    windows: dict[str, counted.Window]


def _gloo(run: Run, by_rank: list[str]) -> list[Fact]:
    hosts: dict[str, list[int]] = defaultdict(list)
    for rank, host in enumerate(by_rank):
        hosts[host].append(rank)
    sharding = _sharding(run)
    if why := _unready(run, hosts, sharding):
        paths = [f"transport.{q}.path" for q in QUESTIONS]
        idle = {name: moot(q, by_rank) for name, q in zip(paths, QUESTIONS, strict=True)}
        return [
            Fact(name, "not-applicable", reason=idle[name]) if idle.get(name) else unknown(name, why)
            for name in _names()
        ]
    probes = {s.header.host: s for s in run.probes if s.header}
    first, last = int(run.plan["steady_from"]), int(run.plan["steps"])
    windows = {h: w for h in hosts if (w := counted.window(probes[h], len(by_rank), first, last))}
    ends = [
        end
        for host in hosts
        for end in sockets.of_ranks(probes[host], host, windows[host].until if host in windows else "9999")
    ]
    edges = sent(messages(sharding, int(run.plan["micro_batches"])), sharding["mesh"], "gloo", by_rank)
    used = sockets.pairs(ends, {host: sockets.interfaces(probes[host]) for host in hosts})
    seen = _Seen(dict(hosts), probes, edges, used, windows)
    interfaces = _interfaces(seen, by_rank)
    size = _bytes(run, seen, sharding)
    return [interfaces, size, *(_path(question, by_rank, interfaces, size) for question in QUESTIONS)]


def _unready(run: Run, hosts: dict[str, list[int]], sharding: dict[str, Any]) -> str:
    """What is missing before anything can be compared."""
    if why := run.incomplete(run.ranks, "rank"):
        return why
    if "wire_gloo_above" not in run.plan.get("tolerances", {}):
        return "the plan has no tolerance for bytes on a wire"
    if not sharding:
        return "rank 0 did not record how the model is sharded"
    watched = {s.header.host for s in run.probes if s.header}
    silent = sorted(set(hosts) - watched)
    return f"host {silent[0]} has no probe" if silent else run.incomplete(run.probes, "probe")


def _sharding(run: Run) -> dict[str, Any]:
    layers = [e.content for s in run.ranks[:1] for e in s.all(Environment) if e.layer == "sharding"]
    return layers[-1] if layers else {}


def _interfaces(seen: _Seen, by_rank: list[str]) -> Fact:
    """Every pair of ranks that the plan has talk to each other, with the interfaces of their common connections."""
    pairs = [
        {
            "ranks": list(pair),
            "scope": "intranode" if by_rank[pair[0]] == by_rank[pair[1]] else "internode",
            "interfaces": sorted(seen.used.get(pair, set())),
        }
        for pair in sorted(seen.edges)
    ]
    value = {
        "pairs": len(pairs),
        **{
            scope: sorted({n for p in pairs if p["scope"] == scope for n in p["interfaces"]})
            for scope in ("internode", "intranode")
        },
        "without_connection": [p for p in pairs if not p["interfaces"]][:SHOWN],
        "by_pair": pairs[:SHOWN],
    }
    return Fact("transport.interfaces", value=value, witness="connections held at both ends, by the probes")


def _bytes(run: Run, seen: _Seen, sharding: dict[str, Any]) -> Fact:
    """Each interface that a host's ranks use: bytes sent over the steady window, and the band that the plan allows."""
    name, witness = "transport.bytes", "kernel counters, by the probes, against the plan"
    if short := sorted(set(seen.hosts) - set(seen.windows)):
        why = f"the probe of {short[0]} has fewer than two samples with counters inside the steady window"
        return unknown(name, why, witness)
    rows = [row for host in seen.hosts for row in _rows(run, seen, host, sharding)]
    work = messages(sharding, int(run.plan["micro_batches"]))
    value = {
        "message_per_step_bytes": str(sum(m.size * m.times for m in work)),
        "wire_per_step_bytes": str(round(sum(s.size for s in seen.edges.values()))),
        "by_interface": rows,
    }
    return Fact(name, value=value, witness=witness)


def _rows(run: Run, seen: _Seen, host: str, sharding: dict[str, Any]) -> list[dict[str, Any]]:
    """One row for each interface of a host, and one for several together where pairs may have used any of them."""
    window, ranks = seen.windows[host], seen.hosts[host]
    extra = len(ranks) * checkpoint_bytes(sharding, len(run.ranks)) * _saves(run, window)
    own = [names for pair, names in seen.used.items() if pair[0] in ranks]
    together = {tuple(sorted(names)) for names in own if len(names) > 1}
    rows: list[dict[str, Any]] = []
    for links in sorted({(name,) for names in own for name in names} | together):
        least, most = counted.expected(seen.edges, ranks, seen.used, set(links))
        if not most.size:
            continue  # a rendezvous, and no collective of the plan
        scope = "intranode" if links == (sockets.LOOPBACK,) else "internode"
        row: dict[str, Any] = {"host": host, "interface": " + ".join(links), "scope": scope}
        row |= counted.banded(window, least, most, run.plan["tolerances"], "gloo", extra)
        moved = counted.moved(window.samples, links)
        if isinstance(moved, str):
            row |= {"word": "unreadable", "problem": moved}
        else:
            row |= {k: str(v) for k, v in moved.items()} | {"word": counted.word(moved["tx_bytes"], row)}
        rows.append(row)
    return rows


def _saves(run: Run, window: counted.Window) -> int:
    """Checkpoints between the two samples, and those that may have run on into them."""
    steps = {e.step for s in run.ranks[:1] for e in s.all(CheckpointSaved)}
    return sum(min(window.first_done) <= step <= max(window.last_done) for step in steps)


def _path(question: str, by_rank: list[str], interfaces: Fact, size: Fact) -> Fact:
    """The path of gloo, which is always TCP: whether sockets and counters agree on it."""
    name, witness = f"transport.{question}.path", f"{interfaces.witness}; {size.witness}"
    if why := moot(question, by_rank):
        return Fact(name, "not-applicable", reason=why)
    scope = "internode" if question == "gpudirect" else question
    links = interfaces.value[scope]
    word, reasons = _agreement(scope, interfaces, size)
    path: str | bool = False if question == "gpudirect" else "tcp"
    return Fact(name, value={"path": path, "interfaces": links, "word": word, "reasons": reasons}, witness=witness)


def _agreement(scope: str, interfaces: Fact, size: Fact) -> tuple[str, list[str]]:
    silent = [p["ranks"] for p in interfaces.value["without_connection"] if p["scope"] == scope]
    if silent:
        return INSUFFICIENT, [f"no connection of ranks {a} and {b} was seen at both ends" for a, b in silent[:3]]
    if "?" in interfaces.value[scope]:
        return INSUFFICIENT, ["a connection uses an address that no interface of its host has"]
    if not interfaces.value[scope]:
        return INSUFFICIENT, ["the plan has no two ranks there send anything to each other"]
    if not size.known:
        return INSUFFICIENT, [size.reason]
    rows = [row for row in size.value["by_interface"] if row["scope"] == scope]
    if unreadable := [row["problem"] for row in rows if row["word"] == "unreadable"]:
        return INSUFFICIENT, unreadable[:3]
    off = [_off(row) for row in rows if row["word"] != "within"]
    return (DISAGREE, off[:3]) if off else (CORROBORATED, [])


def _off(row: dict[str, Any]) -> str:
    went = {
        "still": "stood still",
        "below": "moved less than the ranks send",
        "above": "moved more than the ranks send",
    }
    band = f"{int(row['at_least_bytes']):,} to {int(row['at_most_bytes']):,}"
    seen = f"{int(row['tx_bytes']):,} bytes, {band} by the plan"
    return f"ranks hold connections over {row['interface']} of {row['host']}, whose counter {went[row['word']]}: {seen}"
