"""Events about a team's own script: what Ray Train and the driver see of it from outside."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from seatrial.events.base import Event


class TrainWorker(BaseModel):
    """A rank by Ray Train's account; `node` is the Ray node id. What else it says stays with it."""

    model_config = ConfigDict(frozen=True, extra="allow")
    rank: int
    node: str
    pid: int = 0


class TrainAttempt(Event):
    """One attempt of a Ray Train run, as Ray Train's own state export tells it; written whenever it has changed.

    `attempt` counts from 1 over all runs of the script, in the order of their start. `workers` are
    `{rank, local_rank, node, ip, pid, gpus}` by rank.
    """

    TEXT: ClassVar[tuple[str, ...]] = ("detail",)
    event: Literal["train_attempt"] = "train_attempt"
    attempt: int
    id: str
    run: str
    name: str
    run_status: str
    status: str
    detail: str
    storage: str
    backend: str
    workers: list[TrainWorker]


class ScriptEnded(Event):
    """The script's process has ended; `exit_code` is negative for a signal. `observed`: its ranks wrote event files."""

    TEXT: ClassVar[tuple[str, ...]] = ("said",)
    event: Literal["script_ended"] = "script_ended"
    exit_code: int
    said: str
    observed: bool
    state_seen: bool


class CheckpointFound(Event):
    """A checkpoint that Ray Train's own list names, as it lies on the storage after the run."""

    TEXT: ClassVar[tuple[str, ...]] = ("path",)
    event: Literal["checkpoint_found"] = "checkpoint_found"
    path: str
    files: int
    bytes: str
    modified: str
