"""What the loop knows about where it runs: the same for Ray Train, plain gloo processes, and a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from seatrial.canon import parse, sha256
from seatrial.errors import RunError, SeatrialError
from seatrial.events import Layout, Writer
from seatrial.events.layout import problem_with
from seatrial.events.schema import ProcessFailed, StorageCanary
from seatrial.plan import Plan, plan
from seatrial.trial import Trial

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Rank:
    """One rank of one attempt, whatever it trains."""

    layout: Layout
    attempt: int
    rank: int
    world_size: int
    local_rank: int
    device: torch.device
    claims: str  # digest of the frozen claims as this rank read them
    events: Writer

    @property
    def is_local_rank_zero(self) -> bool:
        """Whether this rank reports what is the same for all ranks of its host."""
        return self.local_rank == 0


@dataclass(frozen=True, kw_only=True)
class Context(Rank):
    """A rank of the built-in training. The process group exists already."""

    trial: Trial
    plan: Plan


def open_rank(
    root: Path, *, role: str, attempt: int, rank: int, world_size: int, local_rank: int, device: torch.device
) -> Rank:
    """A rank with its event file, from the run directory alone; every rank reads and hashes the frozen claims itself.

    Raises FileExistsError if this rank of this attempt has a file already.
    """
    layout = Layout(root)
    trial_bytes, claims_bytes = layout.trial.read_bytes(), layout.claims.read_bytes()
    run: dict[str, Any] = parse(claims_bytes)
    claims = sha256(claims_bytes)
    events = Writer(
        layout.process(attempt, f"{role}-{rank}"),
        run=run["run"],
        attempt=attempt,
        role=role,
        rank=rank,
        claims=claims,
        trial=sha256(trial_bytes),
    )
    return Rank(
        layout=layout,
        attempt=attempt,
        rank=rank,
        world_size=world_size,
        local_rank=local_rank,
        device=device,
        claims=claims,
        events=events,
    )


def open_context(
    root: Path, *, role: str, attempt: int, rank: int, world_size: int, local_rank: int, device: torch.device
) -> Context:
    """The context of a rank of the built-in training."""
    trial = Trial.from_resolved(Layout(root).trial.read_bytes())
    opened = open_rank(
        root, role=role, attempt=attempt, rank=rank, world_size=world_size, local_rank=local_rank, device=device
    )
    return Context(**vars(opened), trial=trial, plan=plan(trial))


def on_all_ranks(act: Callable[[], T]) -> T:
    """What `act` returns on this rank, once no rank has failed in it: one that raised alone would leave others waiting.

    Raises RunError on every rank, in the words of the first that failed. All ranks call it together.
    """
    problem, result = "", list[T]()
    try:
        result.append(act())
    except SeatrialError as error:
        problem = str(error).strip().partition("\n")[0]
    problems: list[str] = [""] * dist.get_world_size()
    dist.all_gather_object(problems, problem)
    if first := next((each for each in problems if each), ""):
        raise RunError(first)
    return result[0]


def failure(error: BaseException, during: str) -> ProcessFailed:
    """The event of the error that ends this process, in one line."""
    said = str(error) if isinstance(error, SeatrialError) else f"{type(error).__name__}: {error}"
    return ProcessFailed(error=said.strip().partition("\n")[0], during=during)


def carry_out(context: Context, phases: Iterator[str]) -> None:
    """Runs named phases on this rank and closes its event file. An error is recorded with the phase it came in."""
    during = "start"
    try:
        for during in phases:  # noqa: B007 - the phase reached is what an error happened during
            pass
    except BaseException as error:
        try:
            context.events.write(failure(error, during))
        finally:  # on a full storage too, the error that ends this process is the one it failed with
            context.events.abandon()
            raise error
    context.events.close()


def check_storage(context: Context) -> None:
    """Records that this rank can use the run's storage; raises RunError if it cannot."""
    problem = problem_with(context.layout.root)
    context.events.write(StorageCanary(path=str(context.layout.root), ok=not problem, problem=problem))
    if problem:
        raise RunError(f"storage: rank {context.rank} {problem}")
