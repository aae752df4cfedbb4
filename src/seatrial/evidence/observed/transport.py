"""Which path the bytes of a job took while it was looked at, without a log of it.

Witnesses: the kernel's count for each connection that two ranks hold the ends of, and the counter of the interface that
carries it. Both are needed: an interface's counter also moves for others, and a connection's count alone is one
witness. RDMA leaves neither; its devices' counters are the machine's, and whose bytes they were only a log says.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from seatrial.events.layers import HostSeen
from seatrial.events.planned import need
from seatrial.evidence.facts import transport
from seatrial.evidence.facts.fact import Fact
from seatrial.evidence.facts.transport import INSUFFICIENT, PATH, Between, DeviceWindow, PathFinding, ProcessFlow
from seatrial.evidence.observed.look import Seen, SeenProcess
from seatrial.evidence.training.transport import ONE_EACH, ONE_HOST
from seatrial.evidence.witness import connections
from seatrial.evidence.witness.connections import End, Flow, Watched

STILL = 100  # RDMA counters that moved by less than a hundredth of what connections carried: not the training's path
WITNESS = "bytes of each connection that ranks hold both ends of, against the interface's counter, by the observers"
NO_LOG = "no log of NCCL was read"
UNTIMED = "single collectives are not timed, and the plan of messages is not known"
SHOWN = 50
Answer = tuple[str | None, str, list[str]]  # path, word, reasons


def facts(seen: Seen) -> Iterator[Fact[Any]]:
    """All facts of this kind."""
    live = [process for process in seen.processes if not process.gone]
    flows = _flows(seen, live)
    yield transport.BUSBW.unknown(UNTIMED, "nobody")
    yield _window(seen, flows)
    yield _between(seen, flows)
    for question in ("internode", "intranode"):
        yield _path(question, seen, live, flows)
    why = f"whether GPUDirect RDMA is used only NCCL's log says; {_why_no_log(live)}"
    yield transport.GPUDIRECT.unknown(why, "NCCL's log")


def _flows(seen: Seen, live: list[SeenProcess]) -> list[Flow]:
    sent: dict[End, int] = {}
    for process in live:
        rows = seen.hosts[process.node].window.connections.get(str(process.pid), ())
        for local, remote, size, _ in () if isinstance(rows, str) else rows:
            sent[End(process.number, process.host, local, remote)] = int(size)
    addresses = {told.host: told.network.addresses for told in seen.hosts.values()}
    return connections.flows(sent, addresses)


def _window(seen: Seen, flows: list[Flow]) -> Fact[list[DeviceWindow]]:
    """Every interface and RDMA device of each host: what it moved in the window, and how much of it ranks sent."""
    witness = "kernel counters, by the observers of the hosts"
    if not seen.hosts:
        return transport.WINDOW.unknown(next(iter(seen.problems.values()), "no host was watched"), witness)
    ours: Counter[tuple[str, str]] = Counter()
    for flow in flows:
        ours[flow.source.host, flow.interface] += flow.sent
    rows = []
    for told in seen.hosts.values():
        for device in sorted(told.window.counters[1]):
            if row := _device(told, device, ours.get((told.host, device.removeprefix("net/")), 0)):
                rows.append(row)
    return transport.WINDOW.seen(rows, witness)


def _device(told: HostSeen, device: str, own: int) -> DeviceWindow | None:
    """What one device moved; None for one that stood still."""
    moved, seconds = _moved(told, device), told.window.seconds
    of_ranks = str(own) if own else None
    if isinstance(moved, str):
        return DeviceWindow(told.name, device, seconds, unknown=moved, of_ranks_bytes=of_ranks)
    sent, received = moved
    if not (sent or received):
        return None
    return DeviceWindow(
        host=told.name,
        device=device,
        seconds=seconds,
        sent_bytes=str(sent),
        received_bytes=str(received),
        sent_bytes_per_s=round(sent / seconds) if seconds else 0,
        of_ranks_bytes=of_ranks,
    )


def _moved(told: HostSeen, device: str) -> tuple[int, int] | str:
    """Bytes sent and received by a device in the window, or why that is not known."""
    first, last = (counters.get(device, {}) for counters in told.window.counters)
    if device in told.window.backwards:
        return f"a counter of {device} of {told.name} went backwards"
    if any(name not in each for each in (first, last) for name in ("tx_bytes", "rx_bytes")):
        return f"{device} of {told.name} has no tx_bytes and rx_bytes at both ends of the window"
    sent, received = (int(last[name]) - int(first[name]) for name in ("tx_bytes", "rx_bytes"))
    return sent, received


def _between(seen: Seen, flows: list[Flow]) -> Fact[Between]:
    """Every pair of ranks with a connection: over which interface, and what the first sent to the second."""
    if why := _untold(seen):
        return transport.BETWEEN.unknown(why, WITNESS)
    label = {process.number: process.label for process in seen.processes}
    sums: dict[tuple[str, str, str, str], int] = defaultdict(int)
    for flow in flows:
        a, b = flow.pair
        sums[label[a], label[b], flow.scope, flow.interface] += flow.sent
    rows = [
        ProcessFlow(a, b, scope, link, str(size))
        for (a, b, scope, link), size in sorted(sums.items(), key=lambda item: -item[1])
    ]
    return transport.BETWEEN.seen(Between(len(rows), [*rows[:SHOWN]]), WITNESS)


def _untold(seen: Seen) -> str:
    """Why the bytes of connections are not known on some host, if so."""
    if not seen.processes:
        return "no training process was seen"
    if seen.problems:
        node, why = next(iter(seen.problems.items()))
        return f"not every host was watched: {node[:12]}: {why}"
    for told in seen.hosts.values():
        if absent := told.not_there:
            return f"process {absent[0]} on {told.name}, a worker by Ray's list, was not there"
        if untold := told.window.connections.get("unknown"):
            return f"the kernel of {told.name} does not tell what each connection carried: {untold}"
    return ""


def _path(question: str, seen: Seen, live: list[SeenProcess], flows: list[Flow]) -> Fact[PathFinding]:
    type = PATH[question]
    if why := _untold(seen):
        return type.unknown(why, WITNESS)
    if not live:
        return type.unknown("every training process ended while it was looked at", WITNESS)
    hosts: dict[str, list[SeenProcess]] = defaultdict(list)
    for process in live:
        hosts[process.host].append(process)
    if left := sorted({process.name for process in seen.processes if process.host not in hosts}):
        return type.unknown(f"the training processes on {left[0]} ended while they were looked at", WITNESS)
    asked = {h: own for h, own in hosts.items() if question == "internode" or len(own) > 1}
    if question == "internode" and len(hosts) == 1:
        return type.not_applicable(ONE_HOST)
    if not asked:
        return type.not_applicable(ONE_EACH)
    mine = [flow for flow in flows if flow.scope == question]
    path, word, reasons = _answer(question, seen, asked, mine)
    links = sorted({flow.interface for flow in mine})
    return type.seen(PathFinding(path, word, reasons, interfaces=links), WITNESS)


def _answer(question: str, seen: Seen, hosts: dict[str, list[SeenProcess]], flows: list[Flow]) -> Answer:
    """Sockets are believed only where no rank could have sent past them."""
    live = [process for own in hosts.values() for process in own]
    if question == "internode" and (beside := _rdma(seen, live, sum(flow.sent for flow in flows))):
        return beside
    least = need(seen.run.tolerances.observed_least_bytes_per_s, "observed_least_bytes_per_s")
    watched = [_watched(seen.hosts[own[0].node], least) for own in hosts.values()]
    word, reasons = connections.agreement(flows, watched, need(seen.run.tolerances.observed_below, "observed_below"))
    if word == INSUFFICIENT:
        if question == "intranode":
            reasons = [*reasons, f"shared memory and NVLink leave no counter, and {_why_no_log(live)}"]
        elif any("nccl" in process.told.libraries for process in live):
            reasons = [*reasons, _why_no_log(live)]
        return None, word, reasons
    nccl = any(process.told.nccl_threads for process in live)
    return ("socket" if nccl and question == "internode" else "tcp"), word, reasons


def _watched(told: HostSeen, least_per_s: float) -> Watched:
    return Watched(told.host, told.name, _sent_by(told), least_per_s * told.window.seconds, _others(told))


def _sent_by(told: HostSeen) -> Callable[[str], int | str]:
    def moved(interface: str) -> int | str:
        found = _moved(told, f"net/{interface}")
        return found if isinstance(found, str) else found[0]

    return moved


def _rdma(seen: Seen, live: list[SeenProcess], over_tcp: int) -> Answer | None:
    """What is to be said where ranks hold RDMA devices open; None where none does, or where they stood still."""
    holding = [p for p in live if any(d.startswith(("/dev/infiniband/", "/dev/efa")) for d in p.told.devices)]
    if not holding:
        return None
    moved, unread = _rdma_moved(seen, {process.node for process in holding})
    kind, size = moved.most_common(1)[0] if moved else ("", 0)
    if not unread and size * STILL < over_tcp:
        return None  # open, and nobody on these machines used them: what the connections carried went past them
    log = _why_no_log(live)
    if size <= over_tcp:
        what = f"the counters of {unread} cannot be read" if unread else f"their counters moved by {size:,} bytes"
        reason = f"{holding[0].label} holds RDMA devices open and {what}; connections of ranks sent {over_tcp:,} bytes"
        return None, INSUFFICIENT, [reason, log]
    reason = (
        f"counters of {kind} devices moved by {size:,} bytes while {holding[0].label} held one open, ranks'"
        f" connections by {over_tcp:,}; a machine's counters do not say whose bytes they were"
    )
    return kind, INSUFFICIENT, [reason, log]


def _rdma_moved(seen: Seen, nodes: set[str]) -> tuple[Counter[str], str]:
    """Bytes sent by the RDMA devices of some nodes, by kind, and the name of a node whose counters tell nothing."""
    moved: Counter[str] = Counter()
    unread = ""
    for told in (seen.hosts[node] for node in nodes):
        devices = [device for device in told.window.counters[1] if not device.startswith("net/")]
        known = {d: m for d in devices if not isinstance(m := _moved(told, d), str)}
        for device, went in known.items():
            moved[device.partition("/")[0]] += went[0]
        if len(known) < len(devices) or not devices:
            unread = unread or told.name
    return moved, unread


def _others(told: HostSeen) -> str:
    """What the interfaces of a host moved all the same: somebody else's, and said so."""
    moved = {d: m[0] for d in told.window.counters[1] if not isinstance(m := _moved(told, d), str) and m[0]}
    if not moved:
        return ""
    device, size = max(moved.items(), key=lambda item: item[1])
    return f"; {device} sent {size:,} bytes, and whose they were is not known"


def _why_no_log(live: list[SeenProcess]) -> str:
    """Why there is no log of NCCL to read, as far as the processes' first environment tells."""
    if not any("nccl" in process.told.libraries for process in live):
        return f"{NO_LOG}: no process has loaded NCCL"
    debug = {str(process.told.settings.get("NCCL_DEBUG", "")).upper() for process in live}
    if debug & {"INFO", "TRACE"}:
        return f"{NO_LOG}: NCCL_DEBUG is set; `seatrial transport` reads what it wrote"
    return f"{NO_LOG}: NCCL_DEBUG was not set when the process started, and cannot be set without a restart"
