"""Facts of transport: which path the bytes between ranks took, by witnesses that do not know of each other.

A finding's word is one of DESIGN, section 5: `corroborated`, `log-only`, `refuted`, `witnesses-disagree`,
`insufficient`. Bytes are decimal strings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from seatrial.evidence.facts.fact import fact
from seatrial.trial.kinds import OBSERVED, RUN, SCRIPT

CORROBORATED, LOG_ONLY, REFUTED, DISAGREE, INSUFFICIENT = (
    *("corroborated", "log-only", "refuted", "witnesses-disagree", "insufficient"),
)  # fmt: skip


@dataclass(frozen=True)
class RankHosts:
    """Where each rank ran, and over which backend the ranks spoke."""

    by_host: dict[str, list[int]]
    by_rank: list[str]
    backend: str


@dataclass(frozen=True)
class Collective:
    """One collective of the check before the training; busbw by the median of its rounds."""

    collective: str
    size_bytes: int
    busbw_gb_per_s: float
    seconds: list[float]


@dataclass(frozen=True)
class BusBandwidth:
    at_least_gb_per_s: float


@dataclass(frozen=True)
class PairInterfaces:
    """The interfaces of the connections that two ranks hold both ends of."""

    ranks: tuple[int, int]
    scope: str
    interfaces: list[str]


@dataclass(frozen=True)
class Interfaces:
    """Every pair of ranks that the plan has talk to each other. Lists hold the first 50 pairs."""

    pairs: int
    internode: list[str]
    intranode: list[str]
    without_connection: list[PairInterfaces]
    by_pair: list[PairInterfaces]

    def of(self, scope: str) -> list[str]:
        return self.intranode if scope == "intranode" else self.internode


@dataclass(frozen=True)
class InterfaceBytes:
    """Bytes that an interface of a host sent over the window, and the band that the plan allows.

    `word`: within, below, above, still, or unreadable with the problem.
    """

    host: str
    interface: str
    scope: str
    expected_bytes: str
    at_least_bytes: str
    at_most_bytes: str
    steps: float
    word: str
    problem: str | None = None
    tx_bytes: str | None = None
    rx_bytes: str | None = None

    @property
    def band(self) -> str:
        return f"{int(self.at_least_bytes):,} to {int(self.at_most_bytes):,}"


@dataclass(frozen=True)
class Bytes:
    """Message bytes and wire bytes of a step by the plan, and what each interface sent."""

    message_per_step_bytes: str
    wire_per_step_bytes: str
    by_interface: list[InterfaceBytes]


@dataclass(frozen=True)
class HostBytes:
    """Bytes of a host's counters over the path that NCCL's log states, and the band that the plan allows."""

    host: str
    tx_bytes: str
    word: str
    expected_bytes: str
    at_least_bytes: str
    at_most_bytes: str
    steps: float


@dataclass(frozen=True)
class PathFinding:
    """The answer to one question. `path` is a name, or for GPUDirect whether it was used; None if it is not known.

    From a log, `saying` are the paths that whole lines state, whatever else is missing, and `lines` the lines.
    """

    path: str | bool | None
    word: str
    reasons: list[str]
    interfaces: list[str] | None = None
    saying: list[str | bool] | None = None
    lines: list[str] | None = None
    bytes: list[HostBytes] | None = None


@dataclass(frozen=True)
class NcclFindings:
    """What NCCL's logs say, question by question, and what is worth knowing of them."""

    internode: PathFinding
    intranode: PathFinding
    gpudirect: PathFinding
    versions: dict[str, Any]
    providers: dict[str, Any]
    protocols: dict[str, Any]
    paths: list[dict[str, Any]]
    troubles: list[dict[str, Any]]
    not_evidence: dict[str, Any]


@dataclass(frozen=True)
class RankFlow:
    ranks: tuple[int, int]
    scope: str
    interface: str
    sent_bytes: str


@dataclass(frozen=True)
class ProcessFlow:
    source: Annotated[str, Field(alias="from")]
    target: Annotated[str, Field(alias="to")]
    scope: str
    interface: str
    sent_bytes: str


@dataclass(frozen=True)
class Between:
    """What the connections between ranks carried. The first 50 rows: by rank in a run, by process in a look."""

    pairs: int
    by_pair: list[RankFlow | ProcessFlow]


@dataclass(frozen=True)
class DeviceWindow:
    """What one device of a host moved while it was looked at, and how much of it the ranks' connections sent."""

    host: str
    device: str
    seconds: float
    unknown: str | None = None
    sent_bytes: str | None = None
    received_bytes: str | None = None
    sent_bytes_per_s: int | None = None
    of_ranks_bytes: str | None = None


QUESTIONS = ("internode", "intranode", "gpudirect")

HOSTS = fact("transport.hosts", RankHosts, "where each rank ran, and over which backend", kinds=(RUN, SCRIPT))
CONNECTIVITY = fact(
    "transport.connectivity",
    list[Collective],
    "a few collectives by themselves before the training: evidence of nothing else",
    kinds=(RUN, SCRIPT),
)
BUSBW = fact(
    "transport.busbw", BusBandwidth, "a lower bound: a step's bytes over the time of the whole step", unit="GB/s"
)
INTERFACES = fact(
    "transport.interfaces", Interfaces, "TCP connections that ranks hold, matched at both ends", kinds=(RUN,)
)
BYTES = fact(
    "transport.bytes", Bytes, "kernel counters over the steady window, against the wire bytes of the plan", kinds=(RUN,)
)
INTERNODE = fact("transport.internode.path", PathFinding, "the path between hosts")
INTRANODE = fact("transport.intranode.path", PathFinding, "the path between ranks of one host")
GPUDIRECT = fact("transport.gpudirect.path", PathFinding, "whether GPUDirect RDMA is used between hosts")
PATH = {"internode": INTERNODE, "intranode": INTRANODE, "gpudirect": GPUDIRECT}
NCCL = fact(
    "transport.nccl", NcclFindings, "NCCL's own log, one file a process, and the hosts' counters", kinds=(RUN, SCRIPT)
)
BETWEEN = fact(
    "transport.between",
    Between,
    "bytes of each connection that ranks hold both ends of, by the kernel",
    kinds=(SCRIPT, OBSERVED),
)
WINDOW = fact(
    "transport.window",
    list[DeviceWindow],
    "kernel counters of every interface and RDMA device over the look",
    kinds=(OBSERVED,),
)
ERROR = fact("transport.error", str, "why no fact of transport could be made from the events")
