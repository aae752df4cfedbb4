"""Runs over gloo as evidence reads them, built by hand: ranks on hosts, their sockets, and counters that move with steps.

One unit of 2¹⁸ fp32 elements, S = 1 MiB, fully sharded, one micro-batch: a step gathers twice and reduces once, which is
`(n − 1)/n · S · (1 + 1 + 2)` from each rank to a neighbour. The counters here are made from that and from nothing of
seatrial's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from seatrial.canon import utc
from seatrial.events import Stream
from seatrial.events.base import Event
from seatrial.events.schema import Closed, Environment, Opened, Planned, Step
from seatrial.events.wires import HostSample
from seatrial.evidence.run import Run
from seatrial.plan.batches import TOLERANCES

S = 1 << 20
STEPS, SECONDS, PER_SECOND = 100, 12, 10


@dataclass
class World:
    """What is true of a run, for a test to change before it is written down."""

    layout: str  # the host of each rank, as in `aabb`
    links: dict[tuple[int, int], str] = field(
        default_factory=dict
    )  # the interface of a pair; eth0 unless it says otherwise
    rate: Callable[[str, str, float], float] = lambda host, link, seconds: (
        1.0
    )  # of what was really sent, by the counter
    moved_over: dict[tuple[int, int], str] = field(
        default_factory=dict
    )  # where a pair's bytes went, if not by its sockets
    silent: tuple[int, ...] = ()  # ranks whose connections the probe could not see
    backend: str = "gloo"
    without_probe: str = ""
    more: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # connections beside those between ranks

    def ip(self, host: str, link: str) -> str:
        return f"10.{77 + int(link[-1])}.0.{11 + 'abc'.index(host)}"

    def link(self, a: int, b: int, of: dict[tuple[int, int], str] | None = None) -> str:
        pair = (min(a, b), max(a, b))
        if self.layout[a] == self.layout[b]:
            return "lo"
        return (self.links if of is None else of).get(pair, self.links.get(pair, "eth0"))

    def connections(self) -> dict[str, list[tuple[str, str]]]:
        found: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for a, b in combinations(range(len(self.layout)), 2):
            link = self.links.get((a, b), "eth0")
            ends = [f"{self.ip(self.layout[r], link)}:{40000 + 100 * r + other}" for r, other in ((a, b), (b, a))]
            found[f"rank-{a}"].append((ends[0], ends[1]))
            found[f"rank-{b}"].append((ends[1], ends[0]))
        for name, ends in self.more.items():
            found[name] += ends
        return {name: ends for name, ends in found.items() if name not in {f"rank-{r}" for r in self.silent}}

    def per_step(self, host: str, link: str) -> float:
        """Bytes that leave a host over one interface in a step: gathering to rank + 1, reducing to rank − 1."""
        world = len(self.layout)
        each = (world - 1) / world * S * 2
        return sum(
            each
            for rank in range(world)
            for other in ((rank + 1) % world, (rank - 1) % world)
            if self.layout[rank] == host and self.link(rank, other, self.moved_over) == link
        )


def run(world: World) -> Run:
    """The run directory's streams."""
    ranks = tuple(_stream(f"rank-{r}", "rank", r, host, _rank_events(world, r)) for r, host in enumerate(world.layout))
    hosts = [h for h in sorted(set(world.layout)) if h != world.without_probe]
    probes = tuple(_stream(f"probe-{host}", "probe", None, host, _probe_events(world, host)) for host in hosts)
    plan: dict[str, Any] = {
        "steps": STEPS, "steady_from": 11, "micro_batches": 1, "mesh": [1, len(world.layout)], "tolerances": TOLERANCES,
    }  # fmt: skip
    driver = _stream("driver", "driver", None, "a", [(0.0, Planned(facts=plan))])
    return Run("wires", [], "", driver, ranks, (), probes, ())


def _stream(name: str, role: str, rank: int | None, host: str, events: list[tuple[float, Event]]) -> Stream:
    opened = Opened.model_validate(
        {
            "seatrial": "0",
            "run": "wires",
            "attempt": 1,
            "role": role,
            "rank": rank,
            "host": host,
            "machine": host,
            "pid": 1,
            "claims": "",
            "trial": "",
            "schema": "s",
        }
    )
    whole = [(0.0, opened), *events, (99.0, Closed())]
    return Stream(
        f"events/a1/{name}.jsonl", tuple(e for _, e in whole), tuple(utc(1.7e9 + t) for t, _ in whole), "closed"
    )


def _rank_events(world: World, rank: int) -> list[tuple[float, Event]]:
    count = S // 4
    unit = {"name": "root", "tensors": 1, "trainable": count, "frozen": 0, "padded": count, "padded_trainable": count}
    sharding = {
        "units": [unit], "mesh": [1, len(world.layout)], "param_dtype": "fp32", "reduce_dtype": "fp32", "reshard_after_forward": True,
    }  # fmt: skip
    found: list[tuple[float, Event]] = [(0.0, Environment(layer="torch", content={"backend": world.backend}))]
    found += [(0.0, Environment(layer="sharding", content=sharding))] if rank == 0 else []
    return found + [
        (1 + n / PER_SECOND, Step(step=n, samples=[], tokens=8, loss=1.0, gradient_norm=1.0, lr=0.1, duration_s=0.1, data_wait_s=0.0, started_s=1 + (n - 1) / PER_SECOND))
        for n in range(1, STEPS + 1)
    ]  # fmt: skip


def _probe_events(world: World, host: str) -> list[tuple[float, Event]]:
    links = ["lo", "eth0", "eth1"]
    addresses = {"lo": ["127.0.0.1"], **{link: [world.ip(host, link)] for link in links[1:]}}
    layer = Environment(layer="network", content={"interfaces": {n: {"addresses": a} for n, a in addresses.items()}})
    own = {
        name: ends
        for name, ends in world.connections().items()
        if name[5:].isdigit() and world.layout[int(name[5:])] == host
    }
    found: list[tuple[float, Event]] = [(0.0, layer)]
    for second in range(SECONDS):
        done = min(STEPS, max(0, (second - 1) * PER_SECOND + 3))
        counters = {
            f"net/{link}": dict.fromkeys(
                ("tx_bytes", "rx_bytes"),
                str(int(5e9 + world.rate(host, link, second) * world.per_step(host, link) * (done + 0.4))),
            )
            for link in links
        }
        found.append(
            (
                second + 0.3,
                HostSample(
                    steps={f"rank-{r}": done for r in range(len(world.layout))} if done else {}, peaks_bytes={}, resident_bytes="1",
                    counters=counters, connections=own if second == 2 else None,
                ),
            )
        )  # fmt: skip
    return found
