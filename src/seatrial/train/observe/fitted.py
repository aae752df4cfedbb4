"""Gradient roll calls of a script's own loop: what it does to the gradient after the reduction is not known."""

from __future__ import annotations

import hashlib

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from seatrial.canon import measured
from seatrial.events.base import Event
from seatrial.events.observed import Unseen
from seatrial.events.schema import GradientRollCall
from seatrial.train.context import Rank
from seatrial.train.observe.gradients import LocalGradient, choose, fit
from seatrial.train.observe.module import is_compiled, shard_of, wrapper_of
from seatrial.train.observe.proofs import local_shard
from seatrial.train.observe.rendezvous import Rendezvous

ELEMENTS = 256  # compared of the parameter, or four for each rank if that is more
REPLICA_ELEMENTS = 4096  # of each parameter, evenly spread: hashing all of a large model would take seconds


class FittedWatch:
    """Fits one coefficient for each rank's share. The optimizer's step is when the gradient is final."""

    def __init__(self, model: nn.Module, name: str, rank: Rank, rendezvous: Rendezvous):
        self._model, self._name, self._rank, self._rendezvous = model, name, rank, rendezvous
        self._share = LocalGradient(model, name)
        self._gradient: Tensor | None = None
        self.start = self._share.start

    def reduced(self) -> None:
        """Keeps a copy of the gradient, without a collective: whether other ranks get here is not known yet."""
        gradient = self._share.parameter.grad
        self._gradient = None if gradient is None else gradient.detach().clone()

    def call(self, step: int) -> Event:
        """The event. All ranks come together, or there is no call on any of them."""
        share, gradient = self._share.stop(), self._gradient
        self._gradient = None
        together = self._rendezvous.all_here(f"gradient-{step}", ready=gradient is not None)
        if not together or gradient is None:
            why = self._rendezvous.off or "a rank had no gradient when its optimizer stepped, or it did not step"
            return Unseen(subject="gradients", why=why, step=step)
        whole = gradient.full_tensor() if isinstance(gradient, DTensor) else gradient
        mine = torch.zeros_like(whole, dtype=torch.float32) if share is None else share
        mine, reduced = self._some(mine), self._some(whole.to(torch.float32))
        shares = [torch.zeros_like(mine) for _ in range(self._rank.world_size)]
        if self._rank.world_size > 1:
            dist.all_gather(shares, mine)
        else:
            shares = [mine]
        return GradientRollCall(
            step=step,
            parameter=self._name,
            share=measured(float(mine.norm())),
            shard=shard_of(self._model),
            replica=sampled_digest(self._model),
            **fit(torch.stack(shares), reduced),
        )

    def _some(self, tensor: Tensor) -> Tensor:
        wanted = max(ELEMENTS, 4 * self._rank.world_size)
        return evenly(tensor.flatten(), wanted).to(self._rank.device)


def watch_for(
    model: nn.Module | None, optimizer: torch.optim.Optimizer | None, rank: Rank, rendezvous: Rendezvous
) -> tuple[FittedWatch | None, str]:
    """The watch for a model as it is wrapped, or why there is none."""
    if model is None or optimizer is None:
        return None, "observe() was not told: write observe(model=…, optimizer=…)"
    wrapper = wrapper_of(model)
    if wrapper in ("FullyShardedDataParallel", "DeepSpeedEngine"):
        return None, f"{wrapper} keeps parameters in flat buffers: a rank's share of one cannot be seen"
    if is_compiled(model):
        return None, "the model is compiled: a hook could change what is compiled"
    name = choose(model, 4 * rank.world_size)
    if not name:
        return None, "the model has no trainable parameter"
    parameter = model.get_parameter(name)
    if isinstance(parameter, DTensor) and (wrapper != "FSDPModule" or parameter.device_mesh.size() != rank.world_size):
        return None, f"{name} lies on a mesh of {parameter.device_mesh.size()} of {rank.world_size} ranks by {wrapper}"
    return FittedWatch(model, name, rank, rendezvous), ""


def evenly(flat: Tensor, wanted: int) -> Tensor:
    """At most so many elements of a flat tensor, evenly spread."""
    return flat[:: -(-flat.numel() // wanted)] if flat.numel() > wanted else flat


def sampled_digest(model: nn.Module) -> str:
    """One digest over some elements of this rank's shard of every parameter; `part:` says that they are not all."""
    hasher, part = hashlib.sha256(), False
    for name, parameter in model.named_parameters():
        held = local_shard(parameter.detach())
        some = evenly(held.flatten(), REPLICA_ELEMENTS)
        part |= some.numel() < held.numel()
        hasher.update(f"{name}{held.dtype}{tuple(held.shape)}".encode())
        hasher.update(some.cpu().contiguous().view(torch.uint8).numpy().data)
    return f"{'part:' if part else ''}{hasher.hexdigest()[:32]}"
