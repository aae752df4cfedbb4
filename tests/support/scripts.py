"""Runs of a team's own script as evidence reads them, built by hand: two ranks that observe, unless said otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from seatrial.canon import utc
from seatrial.events import Stream
from seatrial.events.base import Event
from seatrial.events.observed import Observing, TokensSeen
from seatrial.events.schema import (
    Closed,
    Environment,
    Evaluated,
    GradientRollCall,
    Opened,
    PhaseEnded,
    Planned,
    RollCall,
    Step,
)
from seatrial.events.script import ScriptEnded, TrainAttempt
from seatrial.events.wires import HostSample
from seatrial.evidence.run import Run
from seatrial.plan.batches import TOLERANCES

STEPS, SECONDS = 32, 16
NODES = ("aaaa", "bbbb")


@dataclass
class Script:
    """What is true of a run, for a test to change before it is written down. Lies go through `rank` and `attempt`."""

    steps: int | None = STEPS
    ranks: int = 2
    observed: bool = True
    status: str = "finished"
    synthetic: str | None = None
    image: str | None = None  # that the trial asks for
    pods: tuple[dict[str, Any], ...] = ()  # each an environment layer `pods`, as the driver read it
    attempt: dict[str, Any] = field(default_factory=dict)  # what Ray Train says otherwise
    watched: tuple[int, ...] = (0, 1)
    hosts: tuple[str, ...] = NODES
    counter: float = 1.05  # of what connections carry, by the counter of the interface
    batch: Callable[[int, int], str] = lambda rank, step: f"digest-{rank}-{step}"
    rank: Callable[[int, Event], Event | None] = lambda rank, event: event

    def run(self) -> Run:
        """The whole run."""
        ranks = tuple(self._rank(rank) for rank in range(self.ranks)) if self.observed else ()
        probes = tuple(self._probe(host) for host in dict.fromkeys(self.hosts))
        return Run("r", [], "", self._driver(), ranks, (), probes, ())

    def _driver(self) -> Stream:
        workers = [
            {"rank": r, "local_rank": 0, "node": self.hosts[r], "ip": "", "pid": 70 + r, "gpus": []} for r in (0, 1)
        ]
        told: dict[str, Any] = {
            "attempt": 1, "id": "a", "run": "x", "name": "mine", "run_status": "FINISHED", "status": "FINISHED",
            "detail": "", "storage": "/s", "backend": "gloo", "workers": workers,
        }  # fmt: skip
        facts = {
            "script": "train.py", "steps": self.steps, "ranks": 2, "steady_from": 3, "synthetic": self.synthetic,
            "tolerances": TOLERANCES, "image": self.image,
        }  # fmt: skip
        return _stream(
            "events/driver.jsonl",
            _opened("driver", None, NODES[0]),
            Planned(facts=facts),
            *(Environment(layer="pods", content=content) for content in self.pods),
            TrainAttempt(**{**told, **self.attempt}),
            ScriptEnded(exit_code=0, said="", observed=self.observed, state_seen=True),
            PhaseEnded(phase="train", attempt=1, status=self.status, cause=""),  # type: ignore[arg-type]
        )

    def _rank(self, rank: int) -> Stream:
        events: list[Event | None] = [
            Observing(by="observe", world_size=2, rank_from="ray.train", backend="gloo", model=True, optimizer=True),
            RollCall(at="start", step=0, counts=[1] * self.ranks, claims="c"),
        ]
        items = [(rank * 100 + n, 500.0, 100, 0) for n in range(4)]
        events.append(self.rank(rank, Evaluated(phase="before", step=0, items=items)))
        for step in range(1, STEPS + 1):
            told = Step(
                step=step, samples=[(step - 1, self.batch(rank, step))], epochs=[1], tokens=1000, loss=2.0,
                duration_s=0.5, data_wait_s=0.01, started_s=step * 0.5, updates=1,
            )  # fmt: skip
            events.append(self.rank(rank, told))
            if step & (step - 1) == 0:
                call = GradientRollCall(
                    step=step, parameter="norm.weight", share=1.0, shard=0, replica=f"after-{step}",
                    coefficients=[0.5, 0.5], errors=[0.001, 0.001], residual=1e-6,
                )  # fmt: skip
                events.append(self.rank(rank, call))
        items = [(rank * 100 + n, 300.0, 100, 0) for n in range(4)]
        events += [
            self.rank(rank, Evaluated(phase="after", step=STEPS, items=items)),
            RollCall(at="end", step=STEPS, counts=[1] * self.ranks, claims="c"),
            self.rank(rank, TokensSeen(tokens=4096, distinct=90, largest=255, coincidence=12.0)),
        ]
        opened = _opened("rank", rank, self.hosts[rank])
        return _stream(f"events/a1/rank-{rank}.jsonl", opened, *(event for event in events if event))

    def _probe(self, host: str) -> Stream:
        """Once a second; what the ranks' connection has sent, and the counter of the interface that carries it."""
        mine = [rank for rank in (0, 1) if self.hosts[rank] == host]
        link = "lo" if len(mine) == 2 else "eth0"
        addresses = {"lo": {"addresses": ["127.0.0.1"]}, "eth0": {"addresses": [_ip(host)]}}
        events: list[Event] = [Environment(layer="network", content={"interfaces": addresses})]
        for second in range(1, SECONDS + 1):
            sent = second * 1_000_000
            ends = {
                r: (f"{_ip(self.hosts[r])}:{4000 + r}", f"{_ip(self.hosts[1 - r])}:{4001 - r}", str(sent)) for r in mine
            }
            moved = str(round(len(mine) * sent * self.counter))
            events.append(
                HostSample(
                    steps={f"rank-{rank}": second * 2 for rank in mine if self.observed},
                    peaks_bytes={f"rank-{rank}": "1000" for rank in mine if rank in self.watched},
                    resident_bytes="1000",
                    counters={f"net/{link}": {"tx_bytes": moved, "rx_bytes": moved}},
                    carried={f"rank-{rank}": [ends[rank]] for rank in mine if rank in self.watched},
                )
            )
        return _stream(f"events/a1/probe-{host}.jsonl", _opened("probe", None, host), *events)


def pod(host: str, image_id: str) -> dict[str, Any]:
    """What the driver notes of the pod that is this host."""
    return {"name": f"pod-{host}", "node": "", "ip": _ip(host), "image": "", "image_id": image_id}


def _ip(host: str) -> str:
    return f"10.0.0.{1 + NODES.index(host)}"


def _opened(role: str, rank: int | None, host: str) -> Opened:
    return Opened(
        seatrial="0", run="r", attempt=1, role=role, rank=rank, host=f"{host}/net:1", machine="m", pid=70 + (rank or 0),
        claims="c", trial="t",
    )  # fmt: skip


def _stream(path: str, *events: Event) -> Stream:
    whole = (*events, Closed())
    return Stream(path, whole, tuple(utc(1_000_000.0 + at) for at in range(len(whole))), "closed")
