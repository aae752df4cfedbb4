"""What a rank proves about itself: roll calls, unreduced gradients, digests of its shards."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from seatrial.canon import measured
from seatrial.errors import RunError
from seatrial.events.schema import GradientRollCall, Parameters, RollCall
from seatrial.train.context import Context


def roll_call(context: Context, at: Literal["start", "checkpoint", "end"], step: int) -> None:
    """Every rank adds a one in its own place; the reduced vector shows who was counted, and how often."""
    counts = torch.zeros(context.world_size, dtype=torch.int64, device=context.device)
    counts[context.rank] = 1
    dist.all_reduce(counts)
    context.events.write(RollCall(at=at, step=step, counts=counts.tolist(), claims=context.claims))


def local(tensor: Tensor) -> Tensor:
    """This rank's shard of a tensor, or the tensor itself."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def tensor_digest(tensor: Tensor) -> str:
    """128-bit hex digest of this rank's shard: dtype, shape and bytes."""
    part = local(tensor.detach()).cpu().contiguous()
    hasher = hashlib.sha256(f"{part.dtype}{tuple(part.shape)}".encode())
    hasher.update(part.reshape(-1).view(torch.uint8).numpy().data)
    return hasher.hexdigest()[:32]


def parameters(model: nn.Module, step: int) -> Parameters:
    """The digest of this rank's shard of every parameter."""
    return Parameters(step=step, digests={name: tensor_digest(p) for name, p in model.named_parameters()})


def shard_digest(parameters: Iterable[tuple[str, nn.Parameter]]) -> str:
    """One digest over this rank's shards of all parameters."""
    return hashlib.sha256("".join(name + tensor_digest(p) for name, p in parameters).encode()).hexdigest()[:32]


class GradientWatch:
    """Records this rank's own gradient of one small parameter before the sharded backward reduces it.

    While a step is watched, the unsharded parameter that forward uses gets a hook; what backward hands to it is added
    up over micro-batches. The sum over ranks, by a plain all-reduce, must equal what FSDP reduced on its own path.
    """

    def __init__(self, model: nn.Module):
        # The scale of the last norm: small, and in the path of every token. Biases can have no gradient by symmetry.
        candidates = [
            (p.dim() != 1 or not name.endswith(".weight"), p.numel(), -at, name)
            for at, (name, p) in enumerate(model.named_parameters())
            if "." in name
        ]
        if not candidates:
            raise RunError("the model has no parameter inside a module to watch")
        self.name = min(candidates)[-1]
        self.parameter = model.get_parameter(self.name)
        self._module = model.get_submodule(self.name.rsplit(".", 1)[0])
        self._leaf = self.name.rsplit(".", 1)[1]
        self._share: Tensor | None = None
        self._undo: list[Callable[[], None]] = []

    def start(self) -> None:
        """Watches from the next forward on, until `stop`."""
        self._share = None
        self._undo.append(self._module.register_forward_pre_hook(self._attach).remove)

    def _attach(self, module: nn.Module, _: Any) -> None:
        # The unsharded tensor outlives a micro-batch: its hooks are removed one by one, or they would count twice.
        weight = getattr(module, self._leaf)
        handle = weight.register_hook(self._add)
        self._undo.append(handle.remove)
        self._detach = handle.remove

    def _add(self, gradient: Tensor) -> None:
        part = gradient.detach().to(torch.float32)
        self._share = part.clone() if self._share is None else self._share + part
        self._detach()

    def stop(self) -> tuple[float, float]:
        """This rank's share and the deviation, after the last backward and before clipping. All ranks call it together.

        The share is the L2 norm of this rank's part; the deviation is max|Σ shares − reduced| / max|reduced|.
        """
        for undo in self._undo:
            undo()
        self._undo.clear()
        gradient = self.parameter.grad
        if gradient is None:
            raise RunError(f"{self.name} has no gradient after backward")
        reduced = (gradient.full_tensor() if isinstance(gradient, DTensor) else gradient).to(torch.float32)
        share = torch.zeros_like(reduced) if self._share is None else self._share
        total = share.clone()
        dist.all_reduce(total)
        scale = reduced.abs().max().clamp_min(torch.finfo(torch.float32).tiny)
        return float(share.norm()), float((total - reduced).abs().max() / scale)

    def call(self, step: int, compared: tuple[float, float], mesh: DeviceMesh, model: nn.Module) -> GradientRollCall:
        """The event, with the digest of what this rank holds after the step."""
        share, deviation = compared
        return GradientRollCall(
            step=step,
            parameter=self.name,
            share=measured(share),
            deviation=measured(deviation),
            shard=mesh.get_local_rank("dp_shard"),
            replica=shard_digest(model.named_parameters()),
        )
