"""Events of a rank's training: roll calls, gradients, digests, and each optimizer step."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from seatrial.events.base import Count, Event, Measured, Number, Seconds


class RollCall(Event):
    """All-reduced one-hot vector: `counts[r]` is how often rank r was counted; all ones is what a full crew gives."""

    event: Literal["roll_call"] = "roll_call"
    at: Literal["start", "checkpoint", "end"]
    step: int
    counts: list[int]
    claims: str  # digest of the frozen claims as this rank read them


class GradientRollCall(Event):
    """This rank's unreduced gradient of one small parameter against what the sharded backward reduced.

    `share` is the L2 norm of this rank's part; `deviation` is max|Σ shares − reduced| / max|reduced|, by this rank.
    `replica` is the digest of this rank's parameter shards, equal among ranks of equal `shard`.

    In a script's own loop the reduced gradient is c·Σ shares with an unknown c (mean, clipping, loss scale): there is
    no `deviation`: least squares gives each rank's coefficient, its standard error, and the residual
    ‖Σ coefficientᵣ·shareᵣ − reduced‖ / ‖reduced‖. Equal coefficients with a small residual: every rank is in it.
    `unclear` says why there is no fit.
    """

    event: Literal["gradient_roll_call"] = "gradient_roll_call"
    step: int
    parameter: str
    share: Measured
    deviation: Measured | None = None
    shard: int
    replica: str
    coefficients: list[Number | None] | None = None  # by rank; None where the rank's share is zero
    errors: list[Number | None] | None = None
    residual: Measured | None = None
    unclear: str = ""


class Parameters(Event):
    """Digest of this rank's shard of each trainable parameter."""

    event: Literal["parameters"] = "parameters"
    step: int
    digests: dict[str, str]


class Step(Event):
    """One optimizer step of this rank. `samples` are `[global index, digest of the token ids given to forward]`.

    In a script's own loop they are `[ordinal of this rank's batch, digest of its tensors]`, with the pass over the data
    that each batch belongs to in `epochs`; what the script does not tell is absent, and 0 tokens are unknown tokens.
    """

    event: Literal["step"] = "step"
    step: Annotated[int, Field(ge=1)]
    samples: list[tuple[int, str]]
    tokens: Count
    tokens_from: Literal["told", "attention_mask", "input_ids", "unknown"] = "told"
    counted: Count | None = None  # targets of this rank that count for the loss
    divisor: Count | None = None  # what this rank's sum of nats was divided by: the targets of all ranks that count
    loss: Measured | None = None  # this rank's mean over its own tokens, nats per token; a script's, as it says
    gradient_norm: Measured | None = None  # global, before clipping
    lr: Number | None = None
    duration_s: Seconds
    data_wait_s: Seconds | None = None
    started_s: Seconds  # monotonic clock of this process
    epochs: list[int] = Field(default_factory=list)
    aside_s: Seconds = 0.0  # of the time before this step, by the script's word no part of the training
    updates: Count | None = None  # how often the optimizer stepped since the last event
