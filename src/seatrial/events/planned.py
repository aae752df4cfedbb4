"""What is planned before step 0: the arithmetic of a trial, and every tolerance of the judgement. They are facts."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from seatrial.events.base import Nonsense
from seatrial.trial.kinds import OBSERVED, RUN, SCRIPT, RunKind

T = TypeVar("T")
Positive = Annotated[int, Field(ge=1, le=1 << 53)]
Share = Annotated[float, Field(ge=0, le=1e6)]


class _Written(BaseModel):
    """A part of the plan. Only what was set is written; a key that this version does not know is left aside."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    @model_serializer(mode="wrap")
    def _set(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if name in self.model_fields_set}


class Tolerances(_Written):
    """Every tolerance of the judgement. One that is not set was not planned, and what it judges is unknown.

    `plan.batches`, `train.tasks.planned` and `launch.inspect.write` have the values, with where each comes from.
    """

    gradient_deviation_fp32: Share | None = None
    gradient_deviation_bf16: Share | None = None
    evaluation_relative: Share | None = None
    overlap_window_share: Share | None = None
    overlap_window_limit: Share | None = None
    clock_relative: Share | None = None
    clock_slack_s: Share | None = None
    wire_gloo_below: Share | None = None
    wire_gloo_above: Share | None = None
    wire_nccl_below: Share | None = None
    wire_nccl_above: Share | None = None
    wire_message_bytes: Positive | None = None
    wire_background_bytes_per_s: Positive | None = None
    carried_below: Share | None = None
    carried_least_bytes: Positive | None = None
    sample_slack_s: Share | None = None
    task_chance_p: Share | None = None
    task_disagreement_share: Share | None = None
    task_overlap_share: Share | None = None
    task_bootstrap_resamples: Positive | None = None
    task_bootstrap_seed: int | None = None
    observed_least_bytes_per_s: Share | None = None
    observed_below: Share | None = None

    def also(self, other: Tolerances) -> Tolerances:
        """These and those of `other`, which win where both are set."""
        return self.model_copy(update={name: getattr(other, name) for name in other.model_fields_set})

    def gradient_deviation(self, reduce_dtype: str | None) -> float | None:
        """Of reductions in this dtype; None for one that no tolerance was planned for."""
        return {"fp32": self.gradient_deviation_fp32, "bf16": self.gradient_deviation_bf16}.get(reduce_dtype or "")

    def wire(self, backend: str) -> tuple[float, float]:
        """(below, above) of the bytes that a backend puts on a wire. Raises Nonsense where none was planned."""
        bands = {
            "gloo": (self.wire_gloo_below, self.wire_gloo_above),
            "nccl": (self.wire_nccl_below, self.wire_nccl_above),
        }
        below, above = bands.get(backend, (None, None))
        return need(below, f"wire_{backend}_below"), need(above, f"wire_{backend}_above")


class PlannedSchedule(_Written):
    """Learning rate: linear warm-up to `peak`, then cosine."""

    peak: Annotated[float, Field(ge=0, le=1e6)]
    warmup_steps: Annotated[int, Field(ge=0)]
    steps: Positive


class PlannedTask(BaseModel):
    """A task as the trial asks for it, with the digest of its file and its items where the driver could read it."""

    model_config = ConfigDict(frozen=True, extra="allow")
    name: str
    digest: str | None = None
    items: Annotated[int, Field(ge=1)] | None = None
    lm_eval: str | None = None

    @model_serializer(mode="wrap")
    def _set(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        extra = self.model_extra or {}
        return {k: v for k, v in handler(self).items() if k in self.model_fields_set or k in extra}

    def asked(self) -> dict[str, Any]:
        """Without what the driver added."""
        return {key: value for key, value in self.model_dump().items() if key not in ("digest", "items")}


class PlanFacts(_Written):
    """The plan of a run of any kind. What a kind does not plan is not set; `kind` follows from what is.

    Of a script only what the trial says of it is planned; of a job that is looked at, the tolerances.
    """

    steps: Positive | None = None
    world_size: Positive | None = None
    mesh: tuple[Positive, Positive] | None = None  # (replicate, shard)
    micro_batches: Positive | None = None
    tokens_per_step: Positive | None = None
    checkpoints: tuple[int, ...] = ()
    gradient_roll_calls: tuple[int, ...] = ()
    roll_calls: int | None = None
    steady_from: Positive = 1
    reshard_after_forward: bool | None = None
    tolerances: Tolerances = Tolerances()
    tasks: tuple[PlannedTask, ...] = ()
    sections: dict[str, str] = {}
    synthetic: str | None = None
    heldout_windows: int | None = None
    micro_batch: Positive | None = None
    global_batch: Positive | None = None
    precision: str | None = None
    reduce_dtype: str | None = None
    strategy: str | None = None
    image: str | None = None
    schedule: PlannedSchedule | None = None
    script: str = ""
    ranks: int | None = None
    observed: bool = False
    asked: dict[str, Any] = {}

    @property
    def kind(self) -> RunKind:
        """Which kind of run this is the plan of."""
        return OBSERVED if self.observed else SCRIPT if self.script else RUN

    @property
    def known(self) -> bool:
        """Whether there is a plan: an empty one stands for a driver whose evidence ends before it."""
        return bool(self.model_fields_set)


def need(value: T | None, name: str) -> T:
    """A part of the plan without which nothing can be said. Raises Nonsense where the plan lacks it."""
    if value is None:
        raise Nonsense(f"the plan does not say {name}")
    return value
