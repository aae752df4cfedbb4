"""What the lines of a job add up to: processes, communicators, connections. Of the text only samples are kept."""

from __future__ import annotations

from dataclasses import dataclass, field

from seatrial.probe.nccl.frame import LogWriter
from seatrial.probe.nccl.paths import TransportPath


@dataclass
class Member:
    """One rank of a communicator, by the process that it is in."""

    writer: LogWriter
    pointer: str
    rank: int
    size: int
    identity: str = ""  # commId, the same on all ranks; not printed before 2.16, nor for a split from 2.23 on
    parent: str = ""  # pointer of the communicator that was split
    color: str = ""
    started: bool = False
    completed: bool = False
    nodes: int = 0  # as NCCL counts them; 0 where the version does not say
    network: str = ""
    generation: int = 0


@dataclass
class ProcessLog:
    """What one process said."""

    writer: LogWriter
    members: list[Member] = field(default_factory=list)
    # For each generation: the connection line without its channel's number → how often; resolved by `connections`.
    raw: list[dict[bytes, int]] = field(default_factory=lambda: [{}])
    current: dict[bytes, int] = field(default_factory=dict)
    version: str = ""
    plugin: str = ""
    libfabric: str = ""
    providers: list[str] = field(default_factory=list)
    fabrics: list[str] = field(default_factory=list)
    protocols: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    link_types: set[str] = field(default_factory=set)
    nvls: bool = False
    trouble: dict[str, str] = field(default_factory=dict)  # form name → the first line
    torn: int = 0
    repeated: int = 0
    info: bool = False  # whether it wrote at level INFO
    capped: bool = False

    def __post_init__(self) -> None:
        self.current = self.raw[-1]

    def begin(self, member: Member) -> None:
        """Adds a communicator. Connections from here on may be its."""
        member.generation = len(self.members)
        if member.generation:
            self.raw.append({})
        self.current = self.raw[-1]
        self.members.append(member)


@dataclass(frozen=True)
class Connection:
    """Rank `a` to rank `b` of a communicator, as one of the two states it; `lines` is the number of channels."""

    writer: LogWriter
    generation: int
    a: int
    b: int
    direction: str  # send, receive, or empty where only the sender says it
    path: TransportPath
    lines: int
    comm: str = ""
    sample: str = ""


@dataclass
class Log:
    """Everything that was read of a job's logs."""

    processes: dict[LogWriter, ProcessLog] = field(default_factory=dict)
    versions: set[str] = field(default_factory=set)  # of banners without a frame: once a job before 2.22
    libfabric: dict[str, str] = field(default_factory=dict)
    bytes_read: int = 0
    lines: int = 0
    nccl_lines: int = 0
    torn: int = 0  # pieces that no process can be named for
    repeated: int = 0  # lines that Ray's driver log left out
    deduplicated: bool = False
    unfinished: int = 0
    files: list[str] = field(default_factory=list)
