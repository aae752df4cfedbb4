"""The typed events: what a process of a run may write into its file. The one contract between running and judging.

Units are in the names: `_s` seconds, `_bytes` bytes; losses are natural-log nats. `Measured` is a number or the fact
`{"state": "error", "reason": "non-finite", "text": …}`.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, TypeAdapter

from seatrial.events.base import Count, Event, Number, Seconds
from seatrial.events.base import Measured as Measured
from seatrial.events.base import NonFinite as NonFinite
from seatrial.events.observed import CheckpointNoted, DeviceMemory, Observing, TokensSeen, Unseen
from seatrial.events.planned import PlanFacts
from seatrial.events.script import CheckpointFound, ScriptEnded, TrainAttempt
from seatrial.events.steps import GradientRollCall as GradientRollCall
from seatrial.events.steps import Parameters as Parameters
from seatrial.events.steps import RollCall as RollCall
from seatrial.events.steps import Step as Step
from seatrial.events.tasks import TaskOverlap, TaskScored
from seatrial.events.wires import Connectivity, HostSample, NcclLog

SCHEMA = "seatrial.events/1"
LOAD = "load of the checkpoint"  # the phase of a reload whose failure is a finding about the checkpoint


class Opened(Event):
    """The header, first line of every file. A file whose header names another run is refused."""

    event: Literal["opened"] = "opened"
    schema_: str = Field(SCHEMA, alias="schema")
    seatrial: str
    run: str
    attempt: int
    role: str  # driver | rank | probe | reload
    rank: int | None = None
    host: str
    machine: str
    pid: int
    claims: str  # digest of claims.json as this process read it
    trial: str  # digest of trial.json as this process read it


class Closed(Event):
    """A normal end. Without it, evidence of this process ends at its last whole line."""

    event: Literal["closed"] = "closed"


class Planned(Event):
    """What follows from the trial by arithmetic, and every tolerance, written before step 0."""

    event: Literal["planned"] = "planned"
    facts: PlanFacts


class Roster(Event):
    """The files that must exist for one phase of an attempt, relative to the run directory."""

    event: Literal["roster"] = "roster"
    phase: Literal["train", "reload", "probe"]
    attempt: int
    files: list[Annotated[str, Field(pattern=r"^events(/[0-9A-Za-z_][0-9A-Za-z_.-]*)+\.jsonl$")]]


class PhaseStarted(Event):
    """Ray (or the test launcher) was asked to run a group of processes."""

    event: Literal["phase_started"] = "phase_started"
    phase: Literal["train", "reload"]
    attempt: int


class PhaseEnded(Event):
    """How a group of processes ended, as the driver saw it: an observer that is not the processes themselves."""

    TEXT: ClassVar[tuple[str, ...]] = ("cause",)
    event: Literal["phase_ended"] = "phase_ended"
    phase: Literal["train", "reload"]
    attempt: int
    status: Literal["finished", "failed", "timed-out", "interrupted"]
    cause: str = ""


class StorageCanary(Event):
    """A write, read, list, rename and delete on the run's storage by this process."""

    TEXT: ClassVar[tuple[str, ...]] = ("path", "problem")
    event: Literal["storage_canary"] = "storage_canary"
    path: str
    ok: bool
    problem: str = ""


class Evaluated(Event):
    """Held-out windows scored by this process: `[window, nats, tokens, bytes]`.

    Training ranks score `before` step 0 and `after` the last step; reload processes the model as built, `base`, and as
    loaded, `reload`. A script's own items have 0 bytes, and the number rank·2³² + n where it gives no ids.
    """

    event: Literal["evaluated"] = "evaluated"
    phase: Literal["before", "after", "base", "reload"]
    step: int
    items: list[tuple[int, Measured, Count, Count]]


class Baselines(Event):
    """Table models fitted on train, scored on the same windows: nats per window in window order."""

    event: Literal["baselines"] = "baselines"
    nats: dict[str, list[Number]]
    bytes: list[Count]


class DataOpened(Event):
    """The data as this process has it. Ranks must agree on `manifest`."""

    event: Literal["data_opened"] = "data_opened"
    source: str
    manifest: str
    tokenizer: str
    train_tokens: int
    rows: int
    heldout_windows: int
    dropped: list[str] = Field(default_factory=list)
    documents: int = 0  # of train
    counted: int = 0  # targets of train that count for the loss
    truncated: int = 0  # conversations that lost their end
    bad: dict[str, int] = Field(default_factory=dict)  # rows left out, by kind
    bad_named: list[str] = Field(default_factory=list)  # the first of them
    windows: str = ""  # digest of the held-out windows as this process has them


class Isolation(Event):
    """Two documents in a row, the first one changed: by how many nats a target of its own moved at most, and another's.

    `leak` above `limit` × `effect` ends the run. With an `effect` of 0 the model answers to nothing: nothing is shown.
    """

    event: Literal["isolation"] = "isolation"
    effect: Measured
    leak: Measured
    limit: Number


class Overlap(Event):
    """How much of the held-out windows stands in the training tokens: share of n-grams found, per window."""

    event: Literal["overlap"] = "overlap"
    ngram: int
    shares: list[Number]


class CheckpointSaved(Event):
    """This rank's part of a checkpoint; rank 0 adds the manifest's digest once it is complete."""

    event: Literal["checkpoint_saved"] = "checkpoint_saved"
    step: int
    path: str
    state: dict[str, str]  # digest of each state item that this rank holds
    duration_s: Seconds
    manifest: str = ""


class CheckpointRemoved(Event):
    """Retention removed an older checkpoint."""

    event: Literal["checkpoint_removed"] = "checkpoint_removed"
    step: int
    path: str


class Reloaded(Event):
    """State after a load into a new process, a new model and a new optimizer."""

    event: Literal["reloaded"] = "reloaded"
    step: int
    path: str
    manifest: str
    state: dict[str, str]
    missing: list[str]
    updates: dict[str, int]  # optimizer state `step` of every trainable parameter; 0 where there is none
    # Trainable parameters whose second moment is all zero on this rank: no gradient ever arrived.
    dead: list[str] = Field(default_factory=list)


class DataAudited(Event):
    """Digests of the planned data, computed again from the source by a process that took no part in the training."""

    event: Literal["data_audited"] = "data_audited"
    manifest: str
    first: int  # the step of the first digest
    steps: list[str]  # digest of each step over all ranks, sorted by global index
    counted: list[int] = Field(default_factory=list)  # targets that count of each step, over all ranks
    windows: str = ""  # digest of the held-out windows


class Environment(Event):
    """One layer of the environment as this process found it."""

    TEXT: ClassVar[tuple[str, ...]] = ("content",)
    event: Literal["environment"] = "environment"
    layer: str
    content: dict[str, Any]


class Stalled(Event):
    """The driver's watchdog saw no progress within a limit of `workload.timeout`."""

    event: Literal["stalled"] = "stalled"
    limit: str
    seconds: float
    last_step: int
    waiting_for: list[int]  # ranks that were behind the others, or all


class ProcessFailed(Event):
    """The process that writes this file ends with an error."""

    TEXT: ClassVar[tuple[str, ...]] = ("error",)
    event: Literal["process_failed"] = "process_failed"
    error: str
    during: str


class Leftover(Event):
    """Processes of this run that were still there after it ended, and were ended."""

    TEXT: ClassVar[tuple[str, ...]] = ("processes",)
    event: Literal["leftover"] = "leftover"
    processes: list[str]


AnyEvent = Annotated[
    Opened
    | Closed
    | Planned
    | Roster
    | PhaseStarted
    | PhaseEnded
    | StorageCanary
    | RollCall
    | GradientRollCall
    | Parameters
    | Step
    | Evaluated
    | TaskScored
    | TaskOverlap
    | Baselines
    | DataOpened
    | Isolation
    | Overlap
    | CheckpointSaved
    | CheckpointRemoved
    | Reloaded
    | DataAudited
    | Environment
    | HostSample
    | Connectivity
    | NcclLog
    | Observing
    | Unseen
    | TokensSeen
    | DeviceMemory
    | CheckpointNoted
    | TrainAttempt
    | ScriptEnded
    | CheckpointFound
    | Stalled
    | ProcessFailed
    | Leftover,
    Field(discriminator="event"),
]


def line_schema() -> dict[str, Any]:
    """The JSON schema of one line: an event and the four fields that chain and date it."""
    schema: dict[str, Any] = TypeAdapter(AnyEvent).json_schema(by_alias=True)
    chained = {
        "seq": {"type": "integer", "minimum": 0, "description": "position in the file"},
        "prev": {"type": "string", "description": "sha256 of the previous line with its newline"},
        "utc": {"type": "string", "format": "date-time"},
        "mono": {"type": "string", "description": "monotonic clock, nanoseconds"},
    }
    for definition in schema["$defs"].values():
        if "event" in definition.get("properties", {}):
            definition["properties"] |= chained
            definition["required"] = sorted({*definition.get("required", []), "event", *chained})
    return schema
