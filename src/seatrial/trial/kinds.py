"""The kinds of run there are, as values: what is run, which processes that takes, and which claims it can establish.

Nothing asks which kind it is by name. What differs between kinds is a field here, or a table with an entry for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PhaseName = Literal["train", "reload"]


@dataclass(frozen=True)
class Phase:
    """A group of processes that runs to its end before the next one starts. `role` is that of each process."""

    name: PhaseName
    role: str


@dataclass(frozen=True)
class RunKind:
    """One kind of run. `establishes` says which entries of the claim registry it can establish (`established_by`).

    `planned_ranks`: the event files of ranks are known before the phase starts, so that a missing one is a gap.
    `ends`: whether the run itself ends, which a job that is only looked at does not. `own_code`: the team's own code
    runs, which must travel with the run or lie where its hosts find it.
    """

    name: str
    title: str
    phases: tuple[Phase, ...]
    layers: tuple[str, ...]  # of the environment, that its processes must record
    planned_ranks: bool
    ends: bool
    own_code: bool = False
    establishes: str = "run"


TRAIN, RELOAD = Phase("train", "rank"), Phase("reload", "reload")

RUN = RunKind(
    name="run",
    title="a run of the built-in training",
    phases=(TRAIN, RELOAD),
    layers=("code", "data", "hardware", "libraries", "model", "ray", "settings", "tokenizer", "torch"),
    planned_ranks=True,
    ends=True,
)
SCRIPT = RunKind(
    name="script",
    title="a run of a team's own script",
    phases=(TRAIN,),  # a script's checkpoints are in a form of its own: no process of ours reloads them
    layers=("code", "hardware", "libraries", "module", "ray", "script", "settings", "torch"),
    planned_ranks=False,  # Ray Train says which ranks there were
    ends=True,
    own_code=True,
)
OBSERVED = RunKind(
    name="observed",
    title="a job that was looked at",
    phases=(),
    layers=(),
    planned_ranks=False,
    ends=False,
)
KINDS_OF_RUN = {kind.name: kind for kind in (RUN, SCRIPT, OBSERVED)}
