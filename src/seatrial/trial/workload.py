"""The built-in training: model, data, parallel strategy, batch sizes, optimizer, limits."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from seatrial.trial.base import Section, SectionError
from seatrial.trial.data import Data
from seatrial.trial.evaluation import Evaluation, Task
from seatrial.trial.kinds import RUN, RunKind

Strategy = Literal["ddp", "fsdp", "fsdp-grad-op", "hsdp"]
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(s|m|h)")
_UNIT = {"s": 1.0, "m": 60.0, "h": 3600.0}


def _seconds(value: object) -> object:
    """`10m`, `30s`, `1h` or a number of seconds, as seconds."""
    if isinstance(value, str):
        match = _DURATION.fullmatch(value)
        if not match:
            raise ValueError(f'saw "{value}"; expected a number with s, m or h, as in 5m')
        return float(match[1]) * _UNIT[match[2]]
    return value


Seconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0)]


class Model(Section):
    """A model by hub name, from a folder, or built from a Transformers config (`model_type` names the architecture)."""

    name: str | None = None
    revision: str | None = None
    path: str | None = None
    config: dict[str, Any] | None = None
    tokenizer: Literal["bytes", "model"] | None = None

    @model_validator(mode="after")
    def _exactly_one_source(self) -> Model:
        given = [key for key in ("name", "path", "config") if getattr(self, key) is not None]
        if len(given) != 1:
            raise ValueError(f"was given {', '.join(given) or 'nothing'}; expected exactly one of name, path, config")
        if self.revision is not None and self.name is None:
            raise SectionError("was given without name; expected revision only beside name", "revision")
        if self.config is not None:
            if not isinstance(self.config.get("model_type"), str):
                raise SectionError("has no model_type; expected a Transformers architecture, such as qwen2", "config")
            if self.tokenizer == "model":
                raise SectionError(
                    "saw model beside config, and a config has no tokenizer; expected bytes", "tokenizer"
                )
        return self

    @property
    def tokens_are_bytes(self) -> bool:
        return (self.tokenizer or ("bytes" if self.config is not None else "model")) == "bytes"


class Optimizer(Section):
    """AdamW with linear warm-up and cosine decay to a tenth of `lr`; `clip` bounds the global gradient norm."""

    lr: float = Field(ge=0)
    weight_decay: float = Field(0.1, ge=0)
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.95)
    warmup_steps: int = Field(0, ge=0)
    clip: float = Field(1.0, gt=0)


class Measure(Section):
    """The first steps, which the steady window of the performance evidence leaves out."""

    warmup_steps: int = Field(10, ge=0)


class CheckpointPolicy(Section):
    """A checkpoint every `every` steps, and one after the last step."""

    every: int = Field(50, ge=1)
    num_to_keep: int = Field(2, ge=1)


class Timeout(Section):
    """The longest time until the first step, and the longest time without progress after it."""

    start: Seconds = 600.0
    step: Seconds = 300.0


class Workload(Section):
    """One complete training job: two people with the same section run the same training."""

    run_kind: ClassVar[RunKind] = RUN

    model: Model
    data: Data
    strategy: Strategy = "fsdp"
    shard_degree: int | None = Field(None, ge=1)
    precision: Literal["bf16", "fp32"] = "bf16"
    reduce_dtype: Literal["fp32", "bf16"] = "fp32"
    sequence_length: int = Field(ge=8)
    micro_batch: int = Field(1, ge=1)
    global_batch: int = Field(ge=1)
    steps: int = Field(ge=1)
    optimizer: Optimizer
    measure: Measure = Measure()
    checkpoint: CheckpointPolicy = CheckpointPolicy()
    evaluate: Evaluation | None = None
    timeout: Timeout = Timeout()
    max_failures: Literal[0] = 0
    seed: int = Field(0, ge=0, le=2**32 - 1)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks that the model is scored on."""
        return self.evaluate.tasks if self.evaluate else ()

    @model_validator(mode="after")
    def _chat_needs_a_template(self) -> Workload:
        if self.data.chat and self.model.tokens_are_bytes:
            raise SectionError(
                "saw chat beside byte tokens; expected a model with a tokenizer and its chat template", "data"
            )
        return self
