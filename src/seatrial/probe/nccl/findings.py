"""Answers three questions from a job's logs, each with one finding and its reason.

`refuted` needs one whole line that says otherwise. `log-only` needs every rank, every host and both ends of every
connection. `corroborated` needs counters of every host besides: a log alone never proves which way bytes went.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from seatrial.probe.nccl.facts import Log, ProcessLog
from seatrial.probe.nccl.graph import Communicator, Edge

MOVED_BYTES = 1 << 20  # less than a step of any model: rendezvous and health checks move this much
SAMPLES = 3
CORROBORATED, LOG_ONLY, REFUTED, DISAGREE, INSUFFICIENT = (
    *("corroborated", "log-only", "refuted", "witnesses-disagree", "insufficient"),
)  # fmt: skip
OFI_NAMES = ("AWS Libfabric", "Libfabric", "OFI")  # to 1.12.1, from 1.13.0, and where NCCL_NET asks for it


@dataclass(frozen=True)
class Moved:
    """What one host's counters moved by, in bytes: EFA, InfiniBand, and its network interfaces without loopback."""

    efa: tuple[int, int] = (0, 0)  # sent, received
    ib: tuple[int, int] = (0, 0)
    net: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Finding:
    """The answer to one question."""

    question: str
    value: str
    word: str
    reason: str = ""
    lines: tuple[str, ...] = ()

    def json(self) -> dict[str, object]:
        return {
            "question": self.question,
            "value": self.value or None,
            "finding": self.word,
            "reason": self.reason,
            "lines": list(self.lines),
        }


def findings(
    log: Log,
    communicators: list[Communicator],
    *,
    expect: str = "",
    ranks: int = 0,
    counters: Mapping[str, Moved] | None = None,
) -> list[Finding]:
    """Network between hosts, GPUDirect RDMA, path inside a host. `counters` are by host, as the log names hosts."""
    why_not = _nothing(log, communicators)
    if why_not:
        return [Finding(q, "", INSUFFICIENT, why_not) for q in ("internode", "gpudirect", "intranode")]
    return [
        _internode(log, communicators, expect, ranks, counters),
        _gpudirect(log, communicators, ranks),
        _intranode(log, communicators, ranks),
    ]


def _nothing(log: Log, communicators: list[Communicator]) -> str:
    if not log.nccl_lines and not log.versions:
        return "no line of NCCL's: set NCCL_DEBUG=INFO, and name the workers' own files"
    if communicators:
        return ""
    if not any(p.info for p in log.processes.values()):
        return "warnings only: set NCCL_DEBUG=INFO"
    return "no communicator line: the log is cut, or NCCL_DEBUG_SUBSYS leaves INIT out"


def _internode(
    log: Log, all_of_them: list[Communicator], expect: str, ranks: int, counters: Mapping[str, Moved] | None
) -> Finding:
    several = [c for c in all_of_them if c.nodes > 1]
    if not several:
        return Finding("internode", "", INSUFFICIENT, "every communicator that was seen is inside one node")
    edges = [(c, e) for c in several for e in c.between_hosts()]
    values = Counter(network(e, log) for _, e in edges)
    value = " and ".join(sorted(values))
    if expect and (wrong := [(c, e) for c, e in edges if network(e, log) not in (expect, "libfabric")]):
        # Where the provider was not seen, libfabric is neither one thing nor the other.
        said = f"{expect} was expected, inter-node edges use {', '.join(sorted({str(e.path) for _, e in wrong}))}"
        return Finding("internode", value, REFUTED, said, _samples(e for _, e in wrong))
    chosen = {name for c in several for name in c.networks}
    if expect and not edges and chosen and not any(_may_be(name, expect) for name in chosen):
        said = f"{expect} was expected, {', '.join(sorted(chosen))} was chosen for a communicator of several nodes"
        return Finding("internode", ", ".join(sorted(map(_family, chosen))), REFUTED, said)
    reasons = _gaps(log, several, ranks) + _providers(edges, log)
    if reasons:
        return Finding("internode", value, INSUFFICIENT, "; ".join(reasons), _samples(e for _, e in edges))
    word, reason = _by_counters(value, {h for c, _ in edges for h in c.hosts}, counters)
    return Finding("internode", value, word, reason, _samples(e for _, e in edges))


def network(edge: Edge, log: Log) -> str:
    """efa, socket, ib, …: the network of a NET connection; `libfabric` where the provider was not seen."""
    if edge.path.kind != "net":
        return edge.path.kind
    if edge.path.name not in OFI_NAMES:
        return _family(edge.path.name)
    chosen = {
        p.providers[-1] for p in log.processes.values() if p.providers and p.writer.host in (edge.source, edge.target)
    }
    if not chosen:
        return "libfabric"
    return "efa" if chosen == {"efa"} else f"libfabric over {', '.join(sorted(chosen))}"


def _family(name: str) -> str:
    if name in OFI_NAMES:
        return "libfabric"
    return {"Socket": "socket"}.get(name, "ib" if name.startswith("IB") else name)


def _may_be(name: str, expect: str) -> bool:
    return _family(name) == expect or (expect == "efa" and name in OFI_NAMES)


def _gaps(log: Log, several: list[Communicator], ranks: int) -> list[str]:
    """Why what was seen between hosts is not all there is."""
    used = [c for c in several if c.between_hosts()]
    found = list(_incomplete(log, used or several, ranks))
    if not used:
        return [*found, "no connection line yet: from 2.22 on they come with the first collective"]
    for c in used:
        if len(c.hosts) != c.nodes and not c.missing:
            found.append(f"host names do not tell nodes apart: {len(c.hosts)} names, nNodes {c.nodes}")
        edges = c.between_hosts()
        silent = [h for h in c.hosts if not any(e.source == h for e in edges) or not any(e.target == h for e in edges)]
        if silent:
            found.append(f"no connection both from and to {_few(silent)}")
        if half := [e for e in edges if e.path.kind == "net" and e.sent != e.received]:
            ends = _few([f"{e.a}->{e.b} ({e.sent} sent, {e.received} received)" for e in half])
            found.append(f"the two ends of a connection do not say the same: {ends}{_torn(log)}")
    return list(dict.fromkeys(found))


def _incomplete(log: Log, of: list[Communicator], ranks: int) -> Iterable[str]:
    """Ranks, lines or ends that are not there."""
    if log.deduplicated or log.repeated:
        yield "Ray's driver log leaves lines out: read the workers' own files, or set RAY_DEDUP_LOGS=0"
    largest = max((c.size for c in of), default=0)
    if ranks and largest < ranks:
        yield f"the largest communicator has {largest} ranks, {ranks} were expected"
    for c in of:
        if c.missing:
            yield f"of {c.size} ranks, {_few(c.missing)} said nothing"
        if c.doubled:
            yield f"rank {_few(sorted(c.doubled))} is claimed by two processes"
        if begun := [r for r, m in sorted(c.members.items()) if m.started and not m.completed]:
            yield f"rank {_few(begun)} did not finish its initialisation"
    if capped := [str(p.writer) for p in log.processes.values() if p.capped]:
        yield f"{_few(capped)} has more connections than are kept"


def _torn(log: Log) -> str:
    torn = log.torn + sum(p.torn for p in log.processes.values())
    return f"; {torn} torn line{'' if torn == 1 else 's'}" if torn else ""


def _providers(edges: list[tuple[Communicator, Edge]], log: Log) -> list[str]:
    if any(e.path.name in OFI_NAMES and network(e, log) == "libfabric" for _, e in edges):
        return ["the provider was not seen: no `NET/OFI Selected provider is` line"]
    hosts = {h for _, e in edges if e.path.name in OFI_NAMES for h in (e.source, e.target) if h}
    seen = {p.writer.host for p in log.processes.values() if p.providers}
    return [f"no provider line from {_few(sorted(hosts - seen))}"] if hosts - seen else []


def _by_counters(value: str, hosts: set[str], counters: Mapping[str, Moved] | None) -> tuple[str, str]:
    """The second witness: what the kernel counted on each host."""
    if counters is None:
        return LOG_ONLY, "no counters were given"
    if value not in ("efa", "socket", "ib"):
        return LOG_ONLY, f"no counter tells {value}"
    if unseen := sorted(hosts - set(counters)):
        return LOG_ONLY, f"no counters of {_few(unseen)}"
    still, elsewhere = [], []
    for host in sorted(hosts):
        moved = counters[host]
        ways = {"efa": moved.efa, "ib": moved.ib, "socket": moved.net}
        if min(ways[value]) < MOVED_BYTES:
            still.append(host)
        if any(max(way) > max(ways[value]) for name, way in ways.items() if name != value):
            elsewhere.append(host)
    if elsewhere:
        return DISAGREE, f"the log says {value}, more bytes went another way on {_few(elsewhere)}"
    if still:
        return DISAGREE, f"the log says {value}, its counters did not move on {_few(still)}"
    return CORROBORATED, f"log, and counters of {len(hosts)} hosts"


def _gpudirect(log: Log, all_of_them: list[Communicator], ranks: int) -> Finding:
    several = [c for c in all_of_them if c.nodes > 1]
    edges = [e for c in several for e in c.between_hosts() if e.path.kind == "net"]
    if not edges:
        return Finding("gpudirect", "", INSUFFICIENT, "no connection between hosts was seen")
    without = [e for e in edges if not e.path.gdr]
    value = "true" if not without else "false" if len(without) == len(edges) else "mixed"
    if reasons := _gaps(log, several, ranks):
        return Finding("gpudirect", value, INSUFFICIENT, "; ".join(reasons), _samples(without or edges))
    # A read of GPU memory by the NIC leaves no counter that a copy through the host would not leave too.
    return Finding("gpudirect", value, LOG_ONLY, "no counter tells GPUDirect from a copy", _samples(without or edges))


def _intranode(log: Log, all_of_them: list[Communicator], ranks: int) -> Finding:
    edges = [e for c in all_of_them for e in c.inside_hosts()]
    if not edges:
        return Finding("intranode", "", INSUFFICIENT, "no connection inside a host was seen")
    kinds = Counter(_inside(e, log.processes.values()) for e in edges)
    value = " and ".join(sorted(kinds))
    if reasons := list(_incomplete(log, [c for c in all_of_them if c.inside_hosts()], ranks)):
        return Finding("intranode", value, INSUFFICIENT, "; ".join(dict.fromkeys(reasons)), _samples(edges))
    why = "no counter was read"
    if "p2p" in kinds:
        why = "P2P is NVLink or PCIe: subsystem GRAPH or the instance tells which"
    return Finding("intranode", value, LOG_ONLY, why, _samples(edges))


def _inside(edge: Edge, processes: Iterable[ProcessLog]) -> str:
    """The path of a connection inside a host; the topology search says whether P2P has NVLink under it."""
    if edge.path.kind != "p2p":
        return edge.path.kind
    types = {t for p in processes if p.writer.host == edge.source for t in p.link_types}
    if types:
        return "nvlink" if types == {"NVL"} else "pcie-p2p" if "NVL" not in types else "p2p"
    return "p2p"


def _samples(edges: Iterable[Edge]) -> tuple[str, ...]:
    """One line for each way, those of most channels first."""
    by_path: dict[str, str] = {}
    for edge in sorted(edges, key=lambda e: -(e.sent + e.received)):
        by_path.setdefault(str(edge.path), edge.sample)
    return tuple(by_path.values())[:SAMPLES]


def _few(items: Iterable[object], limit: int = 8) -> str:
    names = [str(item) for item in items]
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")
