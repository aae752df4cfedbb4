"""What a rank reports for others to check: roll calls, and digests of its shards."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from seatrial.events.schema import Parameters, RollCall
from seatrial.train.context import Rank


def roll_call(context: Rank, at: Literal["start", "checkpoint", "end"], step: int) -> None:
    """Every rank adds a one in its own place; the reduced vector shows who was counted, and how often."""
    counts = torch.zeros(context.world_size, dtype=torch.int64, device=context.device)
    counts[context.rank] = 1
    dist.all_reduce(counts)
    context.events.write(RollCall(at=at, step=step, counts=counts.tolist(), claims=context.claims))


def local_shard(tensor: Tensor) -> Tensor:
    """This rank's shard of a tensor, or the tensor itself."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def tensor_digest(tensor: Tensor) -> str:
    """128-bit hex digest of this rank's shard: dtype, shape and bytes."""
    part = local_shard(tensor.detach()).cpu().contiguous()
    hasher = hashlib.sha256(f"{part.dtype}{tuple(part.shape)}".encode())
    hasher.update(part.reshape(-1).view(torch.uint8).numpy().data)
    return hasher.hexdigest()[:32]


def parameters(model: nn.Module, step: int) -> Parameters:
    """The digest of this rank's shard of every parameter."""
    return Parameters(step=step, digests={name: tensor_digest(p) for name, p in model.named_parameters()})


def shard_digest(parameters: Iterable[tuple[str, nn.Parameter]]) -> str:
    """One digest over this rank's shards of all parameters."""
    return hashlib.sha256("".join(name + tensor_digest(p) for name, p in parameters).encode()).hexdigest()[:32]
