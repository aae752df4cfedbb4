"""Events of a script's own training loop, as `seatrial.observe` sees it from inside."""

from __future__ import annotations

from typing import ClassVar, Literal

from seatrial.events.base import Count, Event, Number

Subject = Literal["roll_calls", "gradients", "replicas", "loss", "tokens", "data", "data_wait", "module", "memory"]


class Observing(Event):
    """What this rank's observation can rest on. `steps` and the rest are as the script told; absent is not told.

    `rank_from` says who named the rank: torch.distributed, ray.train, the environment (RANK), or nobody (`alone`).
    """

    event: Literal["observing"] = "observing"
    by: Literal["observe", "lightning", "transformers"]
    world_size: int
    rank_from: Literal["torch.distributed", "ray.train", "environment", "alone"]
    backend: str = ""  # of the default process group; empty if there is none yet
    model: bool
    optimizer: bool
    steps: int | None = None


class Unseen(Event):
    """Something that this rank could not see, once, and why: what is not recorded is unknown, never fine."""

    TEXT: ClassVar[tuple[str, ...]] = ("why",)
    event: Literal["unseen"] = "unseen"
    subject: Subject
    why: str
    step: int = 0  # from this step on


class TokensSeen(Event):
    """The first tokens that this rank's batches held, padding left out where an attention mask tells it.

    `coincidence` is the number of equal pairs over the number expected if tokens were uniform over [0, largest]: near 1
    for uniform random tokens, far above 1 for text (the index of coincidence, W. F. Friedman, 1922). None: too few.
    """

    event: Literal["tokens_seen"] = "tokens_seen"
    tokens: Count
    distinct: Count
    largest: Count
    coincidence: Number | None


class DeviceMemory(Event):
    """Peak of torch's CUDA allocator in this process, in bytes as decimal strings."""

    event: Literal["device_memory"] = "device_memory"
    device: str
    allocated_bytes: str
    reserved_bytes: str


class CheckpointNoted(Event):
    """The script says that it saved a checkpoint of so many steps; nothing here has read it."""

    TEXT: ClassVar[tuple[str, ...]] = ("path",)
    event: Literal["checkpoint_noted"] = "checkpoint_noted"
    step: int
    path: str
