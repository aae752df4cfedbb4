"""Facts of recovery: what the final checkpoint gave back to new processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from seatrial.evidence.facts.fact import fact
from seatrial.trial.kinds import OBSERVED, RUN, SCRIPT


@dataclass(frozen=True)
class ReloadEnded:
    """How the reload ended; `load_failed` is what a process failed with while it loaded the checkpoint."""

    status: str
    cause: str
    load_failed: str


@dataclass(frozen=True)
class Reload:
    """State items of all ranks, saved against reloaded. Lists hold the first 50.

    `untrained` are those that are not what the rank held after its last step.
    """

    step: int
    equal: int
    expected: int
    tensors: int
    missing: list[str]
    different: list[str]
    untrained: list[str]
    manifest_equal: bool
    new_processes: bool


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint of the built-in training (step and manifest), or one that Ray Train lists (files on its storage)."""

    path: str
    step: int | None = None
    manifest: str | None = None
    files: int | None = None
    bytes: str | None = None
    modified: str | None = None


CHECKPOINTS = fact(
    "recovery.checkpoints",
    list[Checkpoint],
    "the checkpoints that were completed, by rank 0; of a script, those that Ray Train lists and the driver found",
    kinds=(RUN, SCRIPT),
)
STATUS = fact("recovery.status", ReloadEnded, "how the new processes that load the final checkpoint ended")
RELOAD = fact(
    "recovery.reload",
    Reload,
    "digests of every parameter, moment, step, schedule, generator and cursor, as saved and as reloaded",
    kinds=(RUN, SCRIPT),
)
NEWEST_CHECKPOINT = fact(
    "recovery.newest_checkpoint",
    dict[str, Any],
    "the newest checkpoint by Ray Train's logs on the hosts that were watched, and its age; that it loads is not shown",
    kinds=(OBSERVED,),
)
ERROR = fact("recovery.error", str, "why no fact of recovery could be made from the events")
