"""Which path the bytes of a job took while it was looked at, without a log of it.

Witnesses: the kernel's count for each connection that two ranks hold the ends of, and the counter of the interface that
carries it. Both are needed: an interface's counter also moves for others, and a connection's count alone is one
witness. RDMA leaves neither; its devices' counters are the machine's, and whose bytes they were only a log says.
"""

from __future__ import annotations

import ipaddress
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seatrial.evidence.facts import Fact, unknown
from seatrial.evidence.transport import CORROBORATED, DISAGREE, INSUFFICIENT, ONE_EACH, ONE_HOST

if TYPE_CHECKING:
    from seatrial.evidence.observed import Process, Seen

LOOPBACK = "lo"
STILL = 100  # RDMA counters that moved by less than a hundredth of what connections carried: not the training's path
WITNESS = "bytes of each connection that ranks hold both ends of, against the interface's counter, by the observers"
NO_LOG = "no log of NCCL was read"
SHOWN = 50


@dataclass(frozen=True)
class Flow:
    """What one rank's end of a connection to another rank sent in the window. `interface` is of the sender's host."""

    source: Process
    target: Process
    interface: str  # `?` where no interface of the host has the address
    sent: int

    @property
    def scope(self) -> str:
        return "intranode" if self.source.host == self.target.host else "internode"


def facts(seen: Seen) -> list[Fact]:
    """All facts of this kind."""
    live = [process for process in seen.processes if not process.gone]
    flows = _flows(seen, live)
    found = [_window(seen, flows), _between(seen, flows)]
    for question in ("internode", "intranode"):
        found.append(_path(question, seen, live, flows))
    why = f"whether GPUDirect RDMA is used only NCCL's log says; {_why_no_log(live)}"
    return [*found, unknown("transport.gpudirect.path", why, "NCCL's log")]


def _flows(seen: Seen, live: list[Process]) -> list[Flow]:
    """A connection counts only if the process at the other end is a rank too and holds the same connection."""
    held: dict[tuple[str, str, str], tuple[Process, int]] = {}
    for process in live:
        rows = seen.hosts[process.node]["window"]["connections"].get(str(process.pid), [])
        for local, remote, sent, _ in rows if isinstance(rows, list) else []:
            held[_scope(process.host, local), local, remote] = process, int(sent)
    found = []
    for (scope, local, remote), (process, sent) in held.items():
        other = held.get((scope, remote, local))
        if other is None or other[0] == process:
            continue
        name = LOOPBACK if other[0].host == process.host else _carrying(seen, process, local)
        found.append(Flow(process, other[0], name, sent))
    return found


def _scope(host: str, endpoint: str) -> str:
    """A loopback address is another one on every host."""
    return host if ipaddress.ip_address(_address(endpoint)).is_loopback else ""


def _address(endpoint: str) -> str:
    return endpoint.rpartition(":")[0].strip("[]")


def _carrying(seen: Seen, process: Process, local: str) -> str:
    links = seen.hosts[process.node]["network"]["interfaces"]
    return next((name for name, link in links.items() if _address(local) in link["addresses"]), "?")


def _window(seen: Seen, flows: list[Flow]) -> Fact:
    """Every interface and RDMA device of each host: what it moved in the window, and how much of it ranks sent."""
    name, witness = "transport.window", "kernel counters, by the observers of the hosts"
    if not seen.hosts:
        return unknown(name, next(iter(seen.problems.values()), "no host was watched"), witness)
    ours: Counter[tuple[str, str]] = Counter()
    for flow in flows:
        ours[flow.source.node, flow.interface] += flow.sent
    rows = []
    for node, told in seen.hosts.items():
        window, seconds = told["window"], float(told["window"]["seconds"])
        for device in sorted(window["counters"][1]):
            row: dict[str, Any] = {"host": told["name"], "device": device, "seconds": seconds}
            moved = _moved(told, device)
            if isinstance(moved, str):
                row["unknown"] = moved
            elif any(moved):
                row |= {"sent_bytes": str(moved[0]), "received_bytes": str(moved[1])}
                row["sent_bytes_per_s"] = round(moved[0] / seconds) if seconds else 0
            else:
                continue  # stood still
            if own := ours.get((node, device.removeprefix("net/"))):
                row["of_ranks_bytes"] = str(own)
            rows.append(row)
    return Fact(name, value=rows, witness=witness)


def _moved(told: dict[str, Any], device: str) -> tuple[int, int] | str:
    """Bytes sent and received by a device in the window, or why that is not known."""
    first, last = (counters.get(device, {}) for counters in told["window"]["counters"])
    if device in told["window"]["backwards"]:
        return f"a counter of {device} of {told['name']} went backwards"
    if any(name not in each for each in (first, last) for name in ("tx_bytes", "rx_bytes")):
        return f"{device} of {told['name']} has no tx_bytes and rx_bytes at both ends of the window"
    sent, received = (int(last[name]) - int(first[name]) for name in ("tx_bytes", "rx_bytes"))
    return sent, received


def _between(seen: Seen, flows: list[Flow]) -> Fact:
    """Every pair of ranks with a connection: over which interface, and what the first sent to the second."""
    name = "transport.between"
    if why := _untold(seen):
        return unknown(name, why, WITNESS)
    sums: dict[tuple[str, str, str, str], int] = defaultdict(int)
    for flow in flows:
        sums[flow.source.label, flow.target.label, flow.scope, flow.interface] += flow.sent
    rows = [
        {"from": a, "to": b, "scope": scope, "interface": link, "sent_bytes": str(size)}
        for (a, b, scope, link), size in sorted(sums.items(), key=lambda item: -item[1])
    ]
    return Fact(name, value={"pairs": len(rows), "by_pair": rows[:SHOWN]}, witness=WITNESS)


def _untold(seen: Seen) -> str:
    """Why the bytes of connections are not known on some host, if so."""
    if not seen.processes:
        return "no training process was seen"
    if seen.problems:
        node, why = next(iter(seen.problems.items()))
        return f"not every host was watched: {node[:12]}: {why}"
    for told in seen.hosts.values():
        if absent := told["not_there"]:
            return f"process {absent[0]} on {told['name']}, a worker by Ray's list, was not there"
        if why := told["window"]["connections"].get("unknown"):
            return f"the kernel of {told['name']} does not tell what each connection carried: {why}"
    return ""


def _path(question: str, seen: Seen, live: list[Process], flows: list[Flow]) -> Fact:
    name = f"transport.{question}.path"
    if why := _untold(seen):
        return unknown(name, why, WITNESS)
    if not live:
        return unknown(name, "every training process ended while it was looked at", WITNESS)
    hosts: dict[str, list[Process]] = defaultdict(list)
    for process in live:
        hosts[process.host].append(process)
    if left := sorted({process.name for process in seen.processes if process.host not in hosts}):
        return unknown(name, f"the training processes on {left[0]} ended while they were looked at", WITNESS)
    asked = {h: own for h, own in hosts.items() if question == "internode" or len(own) > 1}
    if question == "internode" and len(hosts) == 1:
        return Fact(name, "not-applicable", reason=ONE_HOST)
    if not asked:
        return Fact(name, "not-applicable", reason=ONE_EACH)
    mine = [flow for flow in flows if flow.scope == question]
    path, word, reasons = _answer(question, seen, asked, mine)
    links = sorted({flow.interface for flow in mine})
    value = {"path": path, "interfaces": links, "word": word, "reasons": reasons}
    return Fact(name, value=value, witness=WITNESS)


def _answer(
    question: str, seen: Seen, hosts: dict[str, list[Process]], flows: list[Flow]
) -> tuple[str | None, str, list[str]]:
    """Path, word and reasons. Sockets are believed only where no rank could have sent past them."""
    live = [process for own in hosts.values() for process in own]
    if question == "internode" and (beside := _rdma(seen, live, sum(flow.sent for flow in flows))):
        return beside
    word, reasons = _carried(seen, hosts, flows)
    if word == INSUFFICIENT:
        if question == "intranode":
            reasons = [*reasons, f"shared memory and NVLink leave no counter, and {_why_no_log(live)}"]
        elif any("nccl" in process.told["libraries"] for process in live):
            reasons = [*reasons, _why_no_log(live)]
        return None, word, reasons
    nccl = any(process.told["nccl_threads"] for process in live)
    return ("socket" if nccl and question == "internode" else "tcp"), word, reasons


def _rdma(seen: Seen, live: list[Process], over_tcp: int) -> tuple[str | None, str, list[str]] | None:
    """What is to be said where ranks hold RDMA devices open; None where none does, or where they stood still."""
    holding = [p for p in live if any(d.startswith(("/dev/infiniband/", "/dev/efa")) for d in p.told["devices"])]
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
    reason = f"counters of {kind} devices moved by {size:,} bytes while {holding[0].label} held one open, ranks'"
    reason += f" connections by {over_tcp:,}; a machine's counters do not say whose bytes they were"
    return kind, INSUFFICIENT, [reason, log]


def _rdma_moved(seen: Seen, nodes: set[str]) -> tuple[Counter[str], str]:
    """Bytes sent by the RDMA devices of some nodes, by kind, and the name of a node whose counters tell nothing."""
    moved: Counter[str] = Counter()
    unread = ""
    for told in (seen.hosts[node] for node in nodes):
        devices = [device for device in told["window"]["counters"][1] if not device.startswith("net/")]
        known = {d: m for d in devices if not isinstance(m := _moved(told, d), str)}
        for device, went in known.items():
            moved[device.partition("/")[0]] += went[0]
        if len(known) < len(devices) or not devices:
            unread = unread or str(told["name"])
    return moved, unread


def _carried(seen: Seen, hosts: dict[str, list[Process]], flows: list[Flow]) -> tuple[str, list[str]]:
    """Whether each host's ranks sent over connections to ranks, and its interfaces carried as much."""
    tolerances = seen.run.plan["tolerances"]
    for host, own in hosts.items():
        told = seen.hosts[own[0].node]
        sent: Counter[str] = Counter()
        for flow in flows:
            if flow.source.host == host:
                sent[flow.interface] += flow.sent
        if not sent:
            return INSUFFICIENT, [f"no connection between ranks was held at both ends on {told['name']}{_others(told)}"]
        if "?" in sent:
            return INSUFFICIENT, [f"a connection uses an address that no interface of {told['name']} has"]
        least = float(tolerances["observed_least_bytes_per_s"]) * float(told["window"]["seconds"])
        if (total := sum(sent.values())) < least:
            said = f"connections between ranks carried only {total:,} bytes from {told['name']} in the window"
            return INSUFFICIENT, [f"{said}{_others(told)}"]
        for link, size in sent.items():
            moved = _moved(told, f"net/{link}")
            if isinstance(moved, str):
                return INSUFFICIENT, [moved]
            if moved[0] < size * (1 - float(tolerances["observed_below"])):
                said = f"connections of ranks over {link} of {told['name']} sent {size:,} bytes"
                return DISAGREE, [f"{said}, its counter moved by {moved[0]:,}"]
    return CORROBORATED, []


def _others(told: dict[str, Any]) -> str:
    """What the interfaces of a host moved all the same: somebody else's, and said so."""
    moved = {d: m[0] for d in told["window"]["counters"][1] if not isinstance(m := _moved(told, d), str) and m[0]}
    if not moved:
        return ""
    device, size = max(moved.items(), key=lambda item: item[1])
    return f"; {device} sent {size:,} bytes, and whose they were is not known"


def _why_no_log(live: list[Process]) -> str:
    """Why there is no log of NCCL to read, as far as the processes' first environment tells."""
    if not any("nccl" in process.told["libraries"] for process in live):
        return f"{NO_LOG}: no process has loaded NCCL"
    debug = {str(process.told["settings"].get("NCCL_DEBUG", "")).upper() for process in live}
    if debug & {"INFO", "TRACE"}:
        return f"{NO_LOG}: NCCL_DEBUG is set; `seatrial transport` reads what it wrote"
    return f"{NO_LOG}: NCCL_DEBUG was not set when the process started, and cannot be set without a restart"
