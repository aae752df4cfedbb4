"""Which path the bytes of a team's own script took: no plan foretells its messages, so the kernel is asked twice.

Witnesses over gloo: what each connection that two ranks hold the ends of has sent, by the kernel's count for it, and
the counter of the interface that carries it. NCCL's log is read as for any run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from seatrial.events import Stream
from seatrial.events.observed import Observing
from seatrial.events.wires import HostSample
from seatrial.evidence.facts import transport
from seatrial.evidence.facts.fact import Fact
from seatrial.evidence.facts.transport import INSUFFICIENT, PATH, QUESTIONS, Between, PathFinding, RankFlow, RankHosts
from seatrial.evidence.run import Run
from seatrial.evidence.script.execution import NO_STATE, RAY_TRAIN, attempts
from seatrial.evidence.training.transport import log_paths, moot, network_of
from seatrial.evidence.witness import connections, counters, nccl
from seatrial.evidence.witness.connections import Flow, Watched

WITNESS = "bytes of each connection that ranks hold both ends of, against the interface's counter, by the probes"
UNPLANNED = "the messages of a script are not known beforehand"
SHOWN = 50


def facts(run: Run) -> Iterator[Fact[Any]]:
    """All facts of this kind."""
    hosts = _hosts(run)
    yield hosts
    yield transport.CONNECTIVITY.unknown(UNPLANNED)
    yield transport.BUSBW.unknown(UNPLANNED)
    if not hosts.known:
        yield transport.BETWEEN.like(hosts)
        yield from (path.like(hosts) for path in PATH.values())
    elif hosts.value.backend == "nccl":
        yield from log_paths(hosts.value.by_rank, nccl.fact(run, hosts.value.by_rank, None))
    else:
        yield from _gloo(run, hosts.value.by_rank)


def _hosts(run: Run) -> Fact[RankHosts]:
    """Where Ray Train says that each rank of the last attempt ran; the host is its probe's."""
    told = attempts(run)
    if not told or not told[-1].workers:
        return transport.HOSTS.unknown(run.driver.why_incomplete() or NO_STATE, RAY_TRAIN)
    if why := run.incomplete(run.probes, "probe"):
        return transport.HOSTS.unknown(why, "host probes")
    names = {s.header.host.split("/")[0]: s.header.host for s in run.probes if s.header}
    by_rank = [names.get(worker.node, "") for worker in told[-1].workers]
    if "" in by_rank:
        return transport.HOSTS.unknown(f"the host of rank {by_rank.index('')} has no probe", RAY_TRAIN)
    seen = {e.backend for s in run.ranks if (e := s.last(Observing)) and e.backend}
    backend = seen.pop() if len(seen) == 1 else told[-1].backend
    if not backend:
        why = "neither Ray Train nor a rank said which backend the ranks speak over"
        return transport.HOSTS.unknown(why, RAY_TRAIN)
    by_host: dict[str, list[int]] = defaultdict(list)
    for rank, host in enumerate(by_rank):
        by_host[host].append(rank)
    return transport.HOSTS.seen(RankHosts(dict(by_host), by_rank, network_of(backend)), RAY_TRAIN)


def _gloo(run: Run, by_rank: list[str]) -> Iterator[Fact[Any]]:
    probes = {s.header.host: s for s in run.probes if s.header and s.header.host in by_rank}
    sent = {end: size for host, probe in probes.items() for end, size in connections.carried_by(probe, host).items()}
    flows = connections.flows(sent, {host: connections.addresses(probe) for host, probe in probes.items()})
    rows = [
        RankFlow(flow.pair, flow.scope, flow.interface, str(flow.sent))
        for flow in sorted(flows, key=lambda flow: (flow.pair, flow.interface))
    ]
    yield transport.BETWEEN.seen(Between(len(rows), [*rows[:SHOWN]]), WITNESS)
    for question in QUESTIONS:
        if why := moot(question, by_rank):
            yield PATH[question].not_applicable(why)
            continue
        scope = "internode" if question == "gpudirect" else question
        mine = [flow for flow in flows if flow.scope == scope]
        word, reasons = _agreement(run, mine, {host: probes[host] for host in _needed(scope, by_rank)})
        path: str | bool = False if question == "gpudirect" else "tcp"
        links = sorted({flow.interface for flow in mine})
        yield PATH[question].seen(PathFinding(path, word, reasons, interfaces=links), WITNESS)


def _needed(scope: str, by_rank: list[str]) -> list[str]:
    """The hosts that must have sent something on this scope."""
    counts = Counter(by_rank)
    return sorted(host for host, ranks in counts.items() if scope == "internode" or ranks > 1)


def _agreement(run: Run, flows: list[Flow], hosts: dict[str, Stream]) -> tuple[str, list[str]]:
    below, least = run.tolerances.carried_below, run.tolerances.carried_least_bytes
    if below is None or least is None:
        return INSUFFICIENT, ["the plan has no tolerance for what connections carried"]
    watched = [Watched(host, host, _moved(_looked_at(probe)), least) for host, probe in hosts.items()]
    return connections.agreement(flows, watched, below)


def _looked_at(probe: Stream) -> list[HostSample]:
    """The samples between the first and the last look at what connections carried; none where there are no two."""
    samples = list(probe.all(HostSample))
    looked = [at for at, sample in enumerate(samples) if sample.carried]
    return samples[looked[0] : looked[-1] + 1] if len(looked) > 1 else []


def _moved(samples: list[HostSample]) -> Callable[[str], int | str]:
    def moved(interface: str) -> int | str:
        if not samples:
            return "what connections carried was looked at once only"
        found = counters.moved(samples, (interface,))
        return found if isinstance(found, str) else found["tx_bytes"]

    return moved
