"""What the loop knows about where it runs: the same for Ray Train, plain gloo processes, and a test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from seatrial.canon import parse, sha256
from seatrial.errors import RunError
from seatrial.events import Layout, Writer
from seatrial.events.schema import StorageCanary
from seatrial.events.storage import problem_with
from seatrial.plan import Plan, plan
from seatrial.trial import Trial


@dataclass(frozen=True)
class Context:
    """One rank of one attempt. The process group exists already."""

    trial: Trial
    plan: Plan
    layout: Layout
    attempt: int
    rank: int
    world_size: int
    local_rank: int
    device: torch.device
    events: Writer

    @property
    def leads_host(self) -> bool:
        """The one rank of each host that reports what is the same for all of them."""
        return self.local_rank == 0


def open_context(
    root: Path, *, role: str, attempt: int, rank: int, world_size: int, local_rank: int, device: torch.device
) -> Context:
    """The context of a rank, from the run directory alone; every rank reads and hashes the frozen claims itself."""
    layout = Layout(root)
    trial_bytes, claims_bytes = layout.trial.read_bytes(), layout.claims.read_bytes()
    trial = Trial.model_validate_json(trial_bytes)
    run: dict[str, Any] = parse(claims_bytes)
    writer = Writer(
        layout.process(attempt, f"{role}-{rank}"),
        run=run["run"],
        attempt=attempt,
        role=role,
        rank=rank,
        claims=sha256(claims_bytes),
        trial=sha256(trial_bytes),
    )
    return Context(trial, plan(trial), layout, attempt, rank, world_size, local_rank, device, writer)


def check_storage(context: Context) -> None:
    """Records that this rank can use the run's storage; raises RunError if it cannot."""
    problem = problem_with(context.layout.root)
    context.events.write(StorageCanary(path=str(context.layout.root), ok=not problem, problem=problem))
    if problem:
        raise RunError(f"storage: rank {context.rank} {problem}")
