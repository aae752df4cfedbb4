"""Whether every rank's gradient is in the one that the optimizer is given.

One small parameter is watched. What backward hands to it on this rank, before any reduction, is the rank's share; how
the shares of all ranks add up is compared with what the reduction, on its own path, made of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from seatrial.canon import measured
from seatrial.errors import RunError
from seatrial.events.base import Event
from seatrial.events.schema import GradientRollCall
from seatrial.train.observe.proofs import shard_digest


class GradientWatch(Protocol):
    """Follows one step: `start` before its first forward, `reduced` when the gradient is final, `call` after it."""

    def start(self) -> None: ...
    def reduced(self) -> None: ...
    def call(self, step: int) -> Event: ...


def choose(model: nn.Module, at_least: int = 1) -> str:
    """The trainable parameter to watch, of so many elements if there is one. Empty if nothing can be trained.

    Best is the scale of the last norm: small, and in the path of every token. Biases can have no gradient by symmetry.
    """
    candidates = [
        (p.numel() < at_least, p.dim() != 1 or not name.endswith("weight"), name.endswith("bias"), p.numel(), -at, name)
        for at, (name, p) in enumerate(model.named_parameters())
        if p.requires_grad
    ]
    return min(candidates)[-1] if candidates else ""


class LocalGradient:
    """This rank's own gradient of one parameter, added up over micro-batches while it is watched.

    A parameter that FSDP2 shards is replaced by a whole one during forward: that one is found when its module runs.
    """

    def __init__(self, model: nn.Module, name: str):
        owner, _, self._leaf = name.rpartition(".")
        self._module, self.parameter = model.get_submodule(owner), model.get_parameter(name)
        self._sum: Tensor | None = None
        self._attached: Tensor | None = None
        self._undo: list[Callable[[], None]] = []

    def start(self) -> None:
        """Watches from the next forward on, until `stop`."""
        self._undo_all()
        self._sum = None
        if isinstance(self.parameter, DTensor):
            self._undo.append(self._module.register_forward_pre_hook(self._find).remove)
        else:
            self._attach(self.parameter)

    def _find(self, module: nn.Module, _: Any) -> None:
        if torch.is_grad_enabled():
            self._attach(getattr(module, self._leaf))

    def _attach(self, weight: Tensor) -> None:
        if weight is not self._attached:  # it outlives a micro-batch: a second hook would count twice
            self._attached = weight
            self._undo.append(weight.register_hook(self._add).remove)  # type: ignore[no-untyped-call]

    def _add(self, gradient: Tensor) -> None:
        part = (gradient.to_local() if isinstance(gradient, DTensor) else gradient).detach().to(torch.float32)
        self._sum = part.clone() if self._sum is None else self._sum + part

    def stop(self) -> Tensor | None:
        """The sum in fp32; None if backward never reached the parameter."""
        self._undo_all()
        return self._sum

    def _undo_all(self) -> None:
        for undo in self._undo:
            undo()
        self._undo.clear()
        self._attached = None


class ExactWatch:
    """For a loop whose reduction is known to be a plain sum: the shares must add up to it, element by element."""

    def __init__(self, model: nn.Module, mesh: DeviceMesh):
        self._model, self._mesh = model, mesh
        self.name = choose(model)
        if not self.name:
            raise RunError("the model has no trainable parameter to watch")
        self._share = LocalGradient(model, self.name)
        self._compared = (0.0, 0.0)
        self.start = self._share.start

    def reduced(self) -> None:
        """Compares after the last backward and before clipping. All ranks call it together."""
        mine, gradient = self._share.stop(), self._share.parameter.grad
        if gradient is None:
            raise RunError(f"{self.name} has no gradient after backward")
        reduced = (gradient.full_tensor() if isinstance(gradient, DTensor) else gradient).to(torch.float32)
        share = torch.zeros_like(reduced) if mine is None else mine
        total = share.clone()
        dist.all_reduce(total)
        scale = reduced.abs().max().clamp_min(torch.finfo(torch.float32).tiny)
        self._compared = float(share.norm()), float((total - reduced).abs().max() / scale)

    def call(self, step: int) -> GradientRollCall:
        """The event, with the digest of what this rank holds after the step."""
        share, deviation = self._compared
        return GradientRollCall(
            step=step,
            parameter=self.name,
            share=measured(share),
            deviation=measured(deviation),
            shard=self._mesh.get_local_rank("dp_shard"),
            replica=shard_digest(self._model.named_parameters()),
        )


def fit(shares: Tensor, reduced: Tensor) -> dict[str, Any]:
    """Least squares for `reduced ≈ Σ coefficientᵣ·sharesᵣ`, as fields of the event.

    Shares are (ranks, elements), reduced is (elements). The standard error of a coefficient is σ·√((AᵀA)⁻¹ᵣᵣ), where σ²
    is the mean square of the residual, and at least what fp32 rounds.
    """
    wide, target = shares.double().cpu(), reduced.double().cpu()
    if not bool(torch.isfinite(wide).all() and torch.isfinite(target).all()):
        return {"unclear": "the gradient is not finite"}
    used = [rank for rank, share in enumerate(wide) if float(share.norm())]
    size = float(target.norm())
    if not used:
        return {"unclear": "every rank's share is zero"}
    if not size:
        return {"unclear": "the reduced gradient is zero"}
    if target.numel() <= len(used):
        return {"unclear": f"{target.numel()} elements cannot tell {len(used)} ranks apart"}
    # Shares of norm one: a rank with small gradients must not look like one that cannot be told apart.
    norms = wide[used].norm(dim=1)
    basis = (wide[used] / norms[:, None]).T
    u, s, vh = torch.linalg.svd(basis, full_matrices=False)
    if float(s[-1]) < 1e-9 * float(s[0]):
        return {"unclear": "ranks have the same gradient: their shares cannot be told apart"}
    solved = vh.T @ ((u.T @ target) / s)
    left = float((basis @ solved - target).norm())
    sigma = math.hypot(left / math.sqrt(target.numel() - len(used)), torch.finfo(torch.float32).eps * size)
    spread = sigma * ((vh.T / s) ** 2).sum(dim=1).sqrt() / norms
    found, errors = (solved / norms).tolist(), spread.tolist()
    ranks = range(len(wide))
    return {
        "coefficients": [found[used.index(r)] if r in used else None for r in ranks],
        "errors": [errors[used.index(r)] if r in used else None for r in ranks],
        "residual": measured(left / size),
    }
