"""Which path the bytes of a team's own script took: no plan foretells its messages, so the kernel is asked twice.

Witnesses over gloo: what each connection that two ranks hold the ends of has sent, by the kernel's count for it, and
the counter of the interface that carries it. NCCL's log is read as for any run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from seatrial.events import Stream
from seatrial.events.observed import Observing
from seatrial.events.wires import HostSample
from seatrial.evidence import counted, nccl, sockets
from seatrial.evidence.facts import Fact, unknown
from seatrial.evidence.gather import Run
from seatrial.evidence.script import NO_STATE, RAY_TRAIN, attempts
from seatrial.evidence.sockets import End
from seatrial.evidence.transport import CORROBORATED, DISAGREE, INSUFFICIENT, QUESTIONS, log_paths, moot

WITNESS = "bytes of each connection that ranks hold both ends of, against the interface's counter, by the probes"
UNPLANNED = "the messages of a script are not known beforehand"
SHOWN = 50


@dataclass(frozen=True)
class Flow:
    """What one rank's connection to another has sent while it was watched."""

    ranks: tuple[int, int]
    host: str
    scope: str
    interface: str  # `?` where no interface of the host has the address
    sent: int


def facts(run: Run) -> dict[str, Fact]:
    """All facts of this kind."""
    hosts = _hosts(run)
    found = [hosts, unknown("transport.connectivity", UNPLANNED), unknown("transport.busbw", UNPLANNED)]
    if not hosts.known:
        names = ("transport.between", *(f"transport.{question}.path" for question in QUESTIONS))
        found += [unknown(name, hosts.reason, hosts.witness) for name in names]
    elif hosts.value["backend"] == "nccl":
        by_rank = hosts.value["by_rank"]
        found += log_paths(by_rank, nccl.fact(run, by_rank, {}))
    else:
        found += _gloo(run, hosts.value["by_rank"])
    return {fact.id: fact for fact in found}


def _hosts(run: Run) -> Fact:
    """Where Ray Train says that each rank of the last attempt ran; the host is its probe's."""
    name = "transport.hosts"
    told = attempts(run)
    if not told or not told[-1].workers:
        return unknown(name, run.driver.why_incomplete() or NO_STATE, RAY_TRAIN)
    if why := run.incomplete(run.probes, "probe"):
        return unknown(name, why, "host probes")
    names = {s.header.host.split("/")[0]: s.header.host for s in run.probes if s.header}
    by_rank = [names.get(worker["node"], "") for worker in told[-1].workers]
    if "" in by_rank:
        return unknown(name, f"the host of rank {by_rank.index('')} has no probe", RAY_TRAIN)
    seen = {e.backend for s in run.ranks if (e := s.last(Observing)) and e.backend}
    backend = seen.pop() if len(seen) == 1 else told[-1].backend
    if not backend:
        return unknown(name, "neither Ray Train nor a rank said which backend the ranks speak over", RAY_TRAIN)
    by_host: dict[str, list[int]] = defaultdict(list)
    for rank, host in enumerate(by_rank):
        by_host[host].append(rank)
    kind = "nccl" if "nccl" in backend else "gloo" if "gloo" in backend else backend
    return Fact(name, value={"by_host": dict(by_host), "by_rank": by_rank, "backend": kind}, witness=RAY_TRAIN)


def _gloo(run: Run, by_rank: list[str]) -> list[Fact]:
    probes = {s.header.host: s for s in run.probes if s.header}
    flows = _flows({host: probes[host] for host in set(by_rank)})
    rows = [
        {"ranks": list(f.ranks), "scope": f.scope, "interface": f.interface, "sent_bytes": str(f.sent)}
        for f in sorted(flows, key=lambda f: (f.ranks, f.interface))
    ]
    found = [Fact("transport.between", value={"pairs": len(rows), "by_pair": rows[:SHOWN]}, witness=WITNESS)]
    for question in QUESTIONS:
        name = f"transport.{question}.path"
        if why := moot(question, by_rank):
            found.append(Fact(name, "not-applicable", reason=why))
            continue
        scope = "internode" if question == "gpudirect" else question
        mine = [flow for flow in flows if flow.scope == scope]
        word, reasons = _agreement(run, probes, mine, _needed(scope, by_rank))
        path: str | bool = False if question == "gpudirect" else "tcp"
        links = sorted({flow.interface for flow in mine})
        value = {"path": path, "interfaces": links, "word": word, "reasons": reasons}
        found.append(Fact(name, value=value, witness=WITNESS))
    return found


def _flows(probes: dict[str, Stream]) -> list[Flow]:
    """A connection counts only if the process at the other end is a rank too and holds the same connection."""
    sent: dict[End, int] = {}
    for host, probe in probes.items():
        first: dict[End, int] | None = None
        for sample in (e for e in probe.all(HostSample) if e.carried):
            now = {
                End(int(name.removeprefix("rank-")), host, local, remote): int(size)
                for name, rows in (sample.carried or {}).items()
                for local, remote, size in rows
            }
            first = now if first is None else first
            for end, size in now.items():
                sent[end] = max(sent.get(end, 0), size - first.get(end, 0))
    addresses = {host: sockets.interfaces(probe) for host, probe in probes.items()}
    held = {(sockets.scope(end), end.local, end.remote): end for end in sent}
    flows = []
    for end, size in sent.items():
        other = held.get((sockets.scope(end), end.remote, end.local))
        if other is None or other.rank == end.rank:
            continue
        within = other.host == end.host
        link = sockets.LOOPBACK if within else sockets.carrying(end.local, addresses[end.host]) or "?"
        flows.append(Flow((end.rank, other.rank), end.host, "intranode" if within else "internode", link, size))
    return flows


def _needed(scope: str, by_rank: list[str]) -> set[str]:
    """The hosts that must have sent something on this scope."""
    counts = Counter(by_rank)
    return {host for host, ranks in counts.items() if scope == "internode" or ranks > 1}


def _agreement(run: Run, probes: dict[str, Stream], flows: list[Flow], hosts: set[str]) -> tuple[str, list[str]]:
    """Whether every host's ranks sent over connections to ranks, and its interfaces carried as much."""
    limits = run.plan.get("tolerances", {})
    if "carried_below" not in limits:
        return INSUFFICIENT, ["the plan has no tolerance for what connections carried"]
    for host in sorted(hosts):
        sent: Counter[str] = Counter()
        for flow in flows:
            if flow.host == host:
                sent[flow.interface] += flow.sent
        window = _window(probes[host])
        if not sent or not window:
            return INSUFFICIENT, [f"no connection between ranks was watched at both ends on {host}"]
        if "?" in sent:
            return INSUFFICIENT, [f"a connection uses an address that no interface of {host} has"]
        if (total := sum(sent.values())) < limits["carried_least_bytes"]:
            return INSUFFICIENT, [f"connections between ranks carried only {total:,} bytes from {host}"]
        for link, size in sent.items():
            moved = counted.moved(window, (link,))
            if isinstance(moved, str):
                return INSUFFICIENT, [moved]
            if moved["tx_bytes"] < size * (1 - limits["carried_below"]):
                said = f"connections of ranks over {link} of {host} sent {size:,} bytes"
                return DISAGREE, [f"{said}, its counter moved by {moved['tx_bytes']:,}"]
    return CORROBORATED, []


def _window(probe: Stream) -> list[HostSample]:
    """The samples between the first and the last look at what connections carried; none where there are no two."""
    samples = list(probe.all(HostSample))
    looked = [at for at, sample in enumerate(samples) if sample.carried]
    return samples[looked[0] : looked[-1] + 1] if len(looked) > 1 else []
