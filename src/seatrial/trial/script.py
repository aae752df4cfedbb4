"""A team's own training script as the workload: what seatrial must know of it, and no more."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from seatrial.trial.base import Misfit, Section
from seatrial.trial.kinds import SCRIPT, RunKind
from seatrial.trial.workload import Measure, Timeout

# Set by seatrial in the script's process; a trial that set them too would hide what is seen.
OWN_VARIABLES = ("RAY_ADDRESS", "RAY_JOB_CONFIG_JSON_ENV_VAR", "RAY_TRAIN_ENABLE_STATE_TRACKING")


class Script(Section):
    """Any script that makes a Ray Train trainer, run as it is.

    `scaling.num_workers` says how many ranks it is expected to train with, `steps` how many optimizer steps; without
    `steps` nothing can be held against the steps that were taken.
    """

    run_kind: ClassVar[RunKind] = SCRIPT

    script: str = Field(min_length=1)
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    steps: int | None = Field(None, ge=1)
    synthetic: Literal["random-tokens"] | None = None
    measure: Measure = Measure()
    timeout: Timeout = Timeout()

    @field_validator("env")
    @classmethod
    def _are_free(cls, value: dict[str, str]) -> dict[str, str]:
        if taken := sorted(name for name in value if name in OWN_VARIABLES or name.startswith("SEATRIAL_")):
            raise ValueError(f"sets {taken[0]}; expected variables of the script: this one is seatrial's")
        return value

    @model_validator(mode="after")
    def _has_a_steady_window(self) -> Script:
        if self.steps is not None and self.measure.warmup_steps >= self.steps:
            raise Misfit(
                f"saw {self.measure.warmup_steps}; expected fewer than steps = {self.steps},"
                " or the steady window is empty",
                "measure",
            )
        return self
