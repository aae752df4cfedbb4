"""A team's own training script as the workload, and the little that seatrial must know about it."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from seatrial.trial.base import Section, SectionError
from seatrial.trial.evaluation import Task
from seatrial.trial.kinds import SCRIPT, RunKind
from seatrial.trial.workload import Measure, Timeout

# seatrial sets these in the script's process. A trial that changed them would make the script invisible.
OWN_VARIABLES = ("RAY_ADDRESS", "RAY_JOB_CONFIG_JSON_ENV_VAR", "RAY_TRAIN_ENABLE_STATE_TRACKING")


class Script(Section):
    """Any script that makes a Ray Train trainer, run as it is.

    `scaling.num_workers` is the number of ranks that it is expected to train with, `steps` the number of optimizer
    steps. Without `steps` the steps that were taken cannot be compared with a plan.
    """

    run_kind: ClassVar[RunKind] = SCRIPT

    script: str = Field(min_length=1)
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    steps: int | None = Field(None, ge=1)
    synthetic: Literal["random-tokens"] | None = None
    measure: Measure = Measure()
    timeout: Timeout = Timeout()

    @property
    def evaluate(self) -> None:
        """Nothing: what a script evaluates is its own affair."""

    @property
    def tasks(self) -> tuple[Task, ...]:
        """None: tasks are scored on the built-in training's model."""
        return ()

    @field_validator("env")
    @classmethod
    def _are_free(cls, value: dict[str, str]) -> dict[str, str]:
        if taken := sorted(name for name in value if name in OWN_VARIABLES or name.startswith("SEATRIAL_")):
            raise ValueError(f"sets {taken[0]}; expected variables of the script only: seatrial sets this one itself")
        return value

    @model_validator(mode="after")
    def _has_a_steady_window(self) -> Script:
        if self.steps is not None and self.measure.warmup_steps >= self.steps:
            raise SectionError(
                f"saw {self.measure.warmup_steps}; expected fewer than steps = {self.steps}:"
                " else the steady window is empty",
                "measure",
            )
        return self
