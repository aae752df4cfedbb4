"""Facts of execution that others tell: Ray Train and a script's ranks, or the observers of a running job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from seatrial.evidence.facts.fact import fact
from seatrial.trial.kinds import OBSERVED, SCRIPT


@dataclass(frozen=True)
class TrainRun:
    """One attempt by Ray Train's own account. `workers` are its words for each rank."""

    attempt: int
    name: str
    run_status: str
    status: str
    detail: str
    ranks: int
    hosts: int
    workers: list[dict[str, Any]]


@dataclass(frozen=True)
class Ranks:
    """How many ranks the trial asks for, Ray Train names, and probes watched."""

    asked: int | None
    told: int
    watched: int


@dataclass(frozen=True)
class UnseenSubject:
    subject: str
    why: str
    ranks: int


@dataclass(frozen=True)
class ScriptObservation:
    """What the ranks of a script told `observe` (or a callback), and what they could not see."""

    by: str
    model: bool
    optimizer: bool
    unseen: list[UnseenSubject]


@dataclass(frozen=True)
class SharedBatches:
    ranks: tuple[int, int]
    batches: int


@dataclass(frozen=True)
class BeganAgain:
    """Where within one pass a rank's batches are those of the pass's beginning once more."""

    rank: int
    epoch: int
    step: int
    batches: int


@dataclass(frozen=True)
class Batches:
    """Batches of a script's ranks by the digest of their tensors."""

    by_rank: list[int]
    distinct: int
    shared: list[SharedBatches]
    began_again: list[BeganAgain]


@dataclass(frozen=True)
class ObservedProcess:
    """A training process that an observer saw. `rank` is Ray Train's word, None where it says none."""

    rank: int | None
    host: str
    node: str
    pid: int
    machine: str
    gone: str | None = None


@dataclass(frozen=True)
class Processes:
    """The training processes of a job, and what of it was not watched."""

    processes: int
    hosts: int
    by_rank: list[ObservedProcess]
    rank_unknown: int
    listed_by_ray_but_not_there: dict[str, list[int]]
    hosts_not_watched: dict[str, str]


@dataclass(frozen=True)
class AttemptsSeen:
    """Attempts of one Ray Train run: the status of each by its state, or by a controller's log how many there were."""

    run: str
    status: str | None = None
    attempts: Any = None  # [status, …], or their number
    workers_of_each: list[Any] | None = None


SCRIPT_NAME = fact("execution.script", str, "the script that the trial names", kinds=(SCRIPT,))
TRAIN_RUNS = fact(
    "execution.train_runs", list[TrainRun], "Ray Train's state export, attempt by attempt", kinds=(SCRIPT,)
)
RANKS = fact(
    "execution.ranks", Ranks, "ranks asked for by the trial, named by Ray Train, and watched by probes", kinds=(SCRIPT,)
)
OBSERVING = fact(
    "execution.observing", ScriptObservation, "what the script's ranks say that they can tell", kinds=(SCRIPT,)
)
BATCHES = fact(
    "execution.batches",
    Batches,
    "digests of the batches of each rank: the same ones on two ranks, or a stream that begins again",
    unit="batches",
    kinds=(SCRIPT,),
)
JOB = fact("execution.job", dict[str, Any], "the job's id, status and times, by Ray's dashboard", kinds=(OBSERVED,))
PROCESSES = fact(
    "execution.processes", Processes, "training processes that observers saw on each host", kinds=(OBSERVED,)
)
ATTEMPTS_SEEN = fact(
    "execution.attempts_seen",
    list[AttemptsSeen],
    "attempts by Ray Train's state, else by its controllers' logs on the hosts that were watched",
    kinds=(OBSERVED,),
)
