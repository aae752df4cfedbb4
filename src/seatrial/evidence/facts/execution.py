"""Facts of execution: what was planned, done and applied, and who took part."""

from __future__ import annotations

from dataclasses import dataclass

from seatrial.events.planned import Tolerances
from seatrial.evidence.facts.fact import fact
from seatrial.trial.kinds import RUN, SCRIPT


@dataclass(frozen=True)
class Ended:
    """How a phase ended, as the driver saw it: finished, failed, timed-out or interrupted."""

    status: str
    cause: str

    @property
    def said(self) -> str:
        return f"the run {self.status}: {self.cause}" if self.cause else f"the run {self.status}"


@dataclass(frozen=True)
class RosterMember:
    """A process that must have left an event file, and how that file ends. Without a header it is not known where."""

    role: str
    rank: int | None
    file: str
    ended: str
    host: str | None = None
    machine: str | None = None
    pid: int | None = None
    attempt: int | None = None


@dataclass(frozen=True)
class Failure:
    process: str
    error: str


@dataclass(frozen=True)
class ExecutedSteps:
    """Distinct steps of each rank, the fewest and the most of them, and the tokens of all together."""

    by_rank: dict[str, int]
    min: int
    max: int
    tokens: int


@dataclass(frozen=True)
class Updates:
    """Fewest and most updates; of every parameter tensor of a checkpoint, or of every rank's optimizer."""

    min: int
    max: int
    tensors: int | None = None


@dataclass(frozen=True)
class Schedule:
    """Steps whose learning rate was not the schedule's, and the schedule's peak."""

    off_schedule: list[int]
    peak: float


@dataclass(frozen=True)
class RankStep:
    rank: int
    step: int


@dataclass(frozen=True)
class DataOrder:
    """Steps whose samples are those that were planned. `misplaced`: the first step of a rank that read others' rows.

    `executed` and `planned` are chains over the step digests. They are absent where the manifests already differ.
    """

    steps: int
    matching: int
    first_difference: int | None
    misplaced: list[RankStep]
    wrongly_divided: list[int] | None = None
    executed: str | None = None
    planned: str | None = None

    @property
    def as_planned(self) -> bool:
        return self.matching == self.steps


@dataclass(frozen=True)
class WrongRollCall:
    rank: int
    at: str
    step: int
    counts: list[int]


@dataclass(frozen=True)
class Calls:
    """Roll calls of one sort that were right on every rank, of so many planned."""

    complete: int
    planned: int | None

    @property
    def all_complete(self) -> bool:
        return self.complete == self.planned

    def __str__(self) -> str:
        return f"{self.complete}/{self.planned}"


@dataclass(frozen=True)
class RollCalls(Calls):
    """Those that every rank saw complete, and those that counted somebody twice or not at all."""

    wrong: list[WrongRollCall]


@dataclass(frozen=True)
class GradientProblem:
    rank: int
    step: int
    problem: str

    def __str__(self) -> str:
        return f"step {self.step}, rank {self.rank}: {self.problem}"


@dataclass(frozen=True)
class GradientRollCalls(Calls):
    """Gradient roll calls; wrong ones, and those too coarse to tell.

    Of the built-in training also the tolerance, what one micro-batch is worth, and the worst deviation seen.
    """

    wrong: list[GradientProblem]
    unclear: list[GradientProblem]
    tolerance: float | None = None
    resolved: float | None = None
    worst_deviation: float | None = None


@dataclass(frozen=True)
class Replicas:
    """Shards that several ranks hold, compared at each gradient roll call; the steps at which they differed."""

    compared: int
    differing_steps: list[int]


@dataclass(frozen=True)
class StorageUse:
    """Processes that could use the run's storage, and checkpoints that retention removed."""

    ok: int
    expected: int
    problems: list[str]
    retired_checkpoints: list[str]


PLANNED_STEPS = fact("execution.planned_steps", int, "the trial, by arithmetic, written before step 0", unit="steps")
STATUS = fact("execution.status", Ended, "how the driver saw the processes end")
ATTEMPTS = fact(
    "execution.attempts",
    int,
    "attempts in the ranks' event files; of a script, by Ray Train's account",
    kinds=(RUN, SCRIPT),
)
ROSTER = fact(
    "execution.roster", list[RosterMember], "the event files that must exist, and how each ends", kinds=(RUN, SCRIPT)
)
FAILURES = fact("execution.failures", list[Failure], "what processes said that they failed with", kinds=(RUN, SCRIPT))
REFUSED_FILES = fact(
    "execution.refused_files", list[str], "event files that are on no roster of the run", kinds=(RUN, SCRIPT)
)
LEFTOVER_PROCESSES = fact(
    "execution.leftover_processes", list[str], "processes that the driver had to end after the run", kinds=(RUN, SCRIPT)
)
EXECUTED_STEPS = fact(
    "execution.executed_steps", ExecutedSteps, "distinct step events of every rank", unit="steps", kinds=(RUN, SCRIPT)
)
UPDATES = fact(
    "execution.updates",
    Updates,
    "the optimizer's own `step` of every parameter, read from the reloaded final checkpoint;"
    " of a script, a hook on each rank's optimizer",
    unit="updates",
    kinds=(RUN, SCRIPT),
)
PARAMETERS_WITHOUT_GRADIENT = fact(
    "execution.parameters_without_gradient",
    list[str],
    "second moments that are zero on every rank after the reload",
    kinds=(RUN,),
)
PARAMETERS_UNMOVED = fact(
    "execution.parameters_unmoved",
    list[str],
    "digests of every rank's shards before the first and after the last step",
    kinds=(RUN, SCRIPT),
)
SCHEDULE = fact(
    "execution.schedule",
    Schedule,
    "the learning rate that the optimizer used in each step, against the schedule",
    kinds=(RUN,),
)
DATA_ORDER = fact(
    "execution.data_order",
    DataOrder,
    "digest of the token ids given to forward, per sample; reload processes recompute all of them from the source."
    " Step digests are sorted by global index, so they do not depend on the number of ranks",
    unit="steps",
    kinds=(RUN,),
)
ROLL_CALLS = fact(
    "execution.roll_calls",
    RollCalls,
    "one-hot vectors summed by all-reduce at the start, at each checkpoint and at the end; of a script, at both ends",
)
GRADIENT_ROLL_CALLS = fact(
    "execution.gradient_roll_calls",
    GradientRollCalls,
    "each rank's unreduced gradient of one small parameter, against the reduced one; see below",
)
REPLICAS = fact("execution.replicas", Replicas, "digests of shards that more than one rank holds", kinds=(RUN, SCRIPT))
STORAGE = fact(
    "execution.storage", StorageUse, "a write, read, list, rename and delete by the driver and every rank", kinds=(RUN,)
)
TOLERANCES = fact(
    "execution.tolerances", Tolerances, "every tolerance of the judgement, written before step 0", kinds=(RUN, SCRIPT)
)
ERROR = fact("execution.error", str, "why no fact of execution could be made from the events")
