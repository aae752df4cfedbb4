"""Logs of NCCL jobs, written here in the grammar of each version."""

from __future__ import annotations

from dataclasses import dataclass, field

NCCL = ("2.8.4", "2.12.12", "2.14.3", "2.18.1", "2.18.6", "2.20.5", "2.21.5", "2.23.4", "2.27.5", "2.29.7", "2.30.7")


def number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


@dataclass(frozen=True)
class Job:
    """`nodes` × `local` ranks of one communicator with rings of `channels` channels."""

    version: str = "2.27.5"
    nodes: int = 2
    local: int = 2
    channels: int = 2
    net: str = "Libfabric"
    gdr: bool = True
    inside: str = "P2P/CUMEM"
    provider: str = "efa"
    host: str = "node-{}"
    identity: str = "0x8a7b6c5d4e3f2a1b"
    extra: dict[int, tuple[str, ...]] = field(default_factory=dict)  # further messages of a rank

    @property
    def size(self) -> int:
        return self.nodes * self.local

    def writer(self, rank: int) -> str:
        """`host:pid:tid [device]`; pods number their processes alike."""
        return f"{self.host.format(rank // self.local)}:{79 + rank % self.local}:{200 + rank % self.local} [{rank % self.local}]"

    def messages(self, rank: int) -> list[str]:
        """What a rank says at level INFO."""
        v = number(self.version)
        out = [
            f"Bootstrap {': ' if v < (2, 24) else ''}Using eth0:10.0.0.{rank // self.local}<0>".replace(
                "Bootstrap U", "Bootstrap: U"
            )
        ]
        if v >= (2, 22):
            out.append(f"NCCL version {self.version}+cuda12.8")
        if self.net in ("Libfabric", "AWS Libfabric"):
            selected = "Selected Provider is" if self.net == "AWS Libfabric" else "Selected provider is"
            fabric = ", fabric is efa" if self.net == "Libfabric" and self.provider == "efa" else ""
            out += [
                "NET/OFI Initializing aws-ofi-nccl 1.14.2-aws",
                "NET/OFI Using Libfabric version 2.1",
                f"NET/OFI {selected} {self.provider}{fabric} (found 4 nics)",
            ]
        elif self.net == "Socket":
            out.append(f"NET/Socket : Using [0]eth0:10.0.0.{rank // self.local}<0>")
        if v >= (2, 18, 3):
            out.append(self.init(rank, "START"))
        out.append(f"Using network {self.net}")
        if v >= (2, 20):
            out.append(
                f"{self._call()}comm {self._pointer(rank)} rank {rank} nRanks {self.size} nNodes {self.nodes} "
                f"localRanks {self.local} localRank {rank % self.local} MNNVL 0"
            )
        late = v >= (2, 22)
        connected = self.connections(rank)
        out += [] if late else connected
        out.append(self.init(rank, "COMPLETE"))
        out += connected if late else []
        out.append("Connected all rings" + (", use ring PXN 0 GDR 1" if v >= (2, 24) else ""))
        return out + list(self.extra.get(rank, ()))

    def init(self, rank: int, stage: str) -> str:
        v, device = number(self.version), rank % self.local
        front = f"[Rank {rank}] " if v >= (2, 29, 2) and stage == "START" else ""
        nvml = f" nvmlDev {device}" if v >= (2, 18, 3) else ""
        identity = f" commId {self.identity}" if v >= (2, 16) else ""
        return (
            f"{front}{self._call()}comm {self._pointer(rank)} rank {rank} nranks {self.size} "
            f"cudaDev {device}{nvml} busId {0x1000 * (device + 5):x}{identity} - Init {stage}"
        )

    def connections(self, rank: int) -> list[str]:
        """Ring connections to the next rank and from the one before."""
        following, before = (rank + 1) % self.size, (rank - 1) % self.size
        found = []
        for channel in range(self.channels):
            if self.size > 1:
                found += self._line(channel, rank, following, rank) + self._line(channel, before, rank, rank)
        return found

    def _line(self, channel: int, a: int, b: int, me: int) -> list[str]:
        v = number(self.version)
        index = f"{channel:02d}" + ("/0" if v >= (2, 14) else "")
        ends = [
            f"{r}[{r % self.local}]" if v >= (2, 18, 3) else f"{r}[{0x1000 * (r % self.local + 5):x}]" for r in (a, b)
        ]
        pair = f"Channel {index} : {ends[0]} -> {ends[1]}"
        if a // self.local != b // self.local:
            side = "send" if me == a else "receive"
            return [f"{pair} [{side}] via NET/{self.net}/{channel % 4}{'/GDRDMA' if self.gdr else ''}"]
        return [f"{pair} via {self.inside}"] if me == a else []

    def lines(self, rank: int) -> list[str]:
        """With the frame."""
        return [f"{self.writer(rank)} NCCL INFO {message}" for message in self.messages(rank)]

    def files(self) -> dict[str, str]:
        """One file for each rank, as NCCL_DEBUG_FILE makes them."""
        return {f"r{rank}.log": "\n".join(self.lines(rank)) + "\n" for rank in range(self.size)}

    def text(self) -> str:
        """All ranks in one stream, line by line in turn."""
        each = [self.lines(rank) for rank in range(self.size)]
        longest = max(map(len, each))
        return "".join(f"{lines[i]}\n" for i in range(longest) for lines in each if i < len(lines))

    def _call(self) -> str:
        v = number(self.version)
        return "" if v < (2, 21) else "ncclCommInitRank " if v < (2, 23) else "ncclCommInitRankConfig "

    def _pointer(self, rank: int) -> str:
        return f"0x55{rank:06x}10"
