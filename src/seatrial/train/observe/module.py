"""What a model really is: its class, what wraps it, and how its parameters lie over the ranks."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
from torch.distributed.tensor import DTensor, Shard
from torch.nn.parallel import DataParallel, DistributedDataParallel

# Outermost first. DeepSpeed is known by name: it need not be installed.
WRAPPERS: tuple[tuple[str, type | None], ...] = (
    ("DeepSpeedEngine", None),
    ("DistributedDataParallel", DistributedDataParallel),
    ("FullyShardedDataParallel", FullyShardedDataParallel),
    ("FSDPModule", FSDPModule),
    ("DataParallel", DataParallel),
)


def wrapper_of(model: nn.Module) -> str:
    """What wraps a model or parts of it; `none` if nothing does."""
    for name, kind in WRAPPERS:
        if any(_is(module, name, kind) for module in model.modules()):
            return name
    return "none"


def _is(module: nn.Module, name: str, kind: type | None) -> bool:
    return isinstance(module, kind) if kind else any(c.__name__ == name for c in type(module).__mro__)


def is_compiled(model: nn.Module) -> bool:
    """Whether a part of a model is compiled: hooks there could change what is compiled."""
    return any(
        getattr(module, "_compiled_call_impl", None) or type(module).__name__ == "OptimizedModule"
        for module in model.modules()
    )


class Wrapping:
    """What wraps a model, asked while it first runs with gradients: it cannot know what wraps it from outside.

    A forward without gradients tells nothing: an evaluation may well run the model outside of its wrapper.
    """

    def __init__(self, model: nn.Module):
        self.model, self.name = model, wrapper_of(model)
        self._hook = None if is_compiled(model) else inner(model).register_forward_pre_hook(self._look)

    def _look(self, module: nn.Module, _: Any) -> None:
        if not torch.is_grad_enabled():
            return
        active = DistributedDataParallel._get_active_ddp_module()  # type: ignore[no-untyped-call]
        if self.name == "none" and active is not None and any(m is module for m in active.modules()):
            self.name = "DistributedDataParallel"
        self.undo()

    def undo(self) -> None:
        """Leaves the model as it was."""
        if self._hook is not None:
            self._hook.remove()


def inner(model: nn.Module) -> nn.Module:
    """The model inside its wrappers."""
    while isinstance(model, DistributedDataParallel | DataParallel | FullyShardedDataParallel) or _is(
        model, "DeepSpeedEngine", None
    ):
        model = model.get_submodule("_fsdp_wrapped_module" if isinstance(model, FullyShardedDataParallel) else "module")
    return model


def shard_of(model: nn.Module) -> int:
    """Which part of the parameters this rank holds: its place along the mesh dimensions that shard them."""
    sharded = next((p for p in model.parameters() if isinstance(p, DTensor)), None)
    coordinate = sharded.device_mesh.get_coordinate() if sharded is not None else None
    if sharded is None or coordinate is None:
        return 0
    place = 0
    for at, size, placement in zip(coordinate, sharded.device_mesh.shape, sharded.placements, strict=True):
        if isinstance(placement, Shard):
            place = place * size + at
    return place


def describe(model: nn.Module, wrapper: str, optimizer: object | None, strategy: str) -> dict[str, Any]:
    """The `module` layer. Elements are counted over all ranks where parameters are DTensors, else on this one."""
    parameters = list(model.parameters())
    distributed = [p for p in parameters if isinstance(p, DTensor)]
    flat = wrapper in ("FullyShardedDataParallel", "DeepSpeedEngine")
    found: dict[str, Any] = {
        "class": _named(_own_class(inner(model))),
        "wrapper": wrapper,
        "units": sum(isinstance(m, FSDPModule | FullyShardedDataParallel) for m in model.modules()),
        "parameters": sum(p.numel() for p in parameters),
        "trainable": sum(p.numel() for p in parameters if p.requires_grad),
        "counted": "in this rank's flat buffers" if flat else "over all ranks",
        "dtypes": dict(Counter(str(p.dtype) for p in parameters)),
        "placements": dict(Counter(_placement(p) for p in parameters)),
        "optimizer": _named(type(optimizer)) if optimizer is not None else "",
    }
    if strategy:
        found["strategy"] = strategy
    if distributed:
        mesh = distributed[0].device_mesh
        found["mesh"] = {"shape": list(mesh.shape), "names": list(mesh.mesh_dim_names or ())}
    return found


def _own_class(model: nn.Module) -> type:
    """`fully_shard` puts a class of its own, and FSDPModule, before the one that the model was made with."""
    own = type(model).__mro__
    return own[own.index(FSDPModule) + 1] if isinstance(model, FSDPModule) else own[0]


def _named(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _placement(parameter: nn.Parameter) -> str:
    return ", ".join(map(str, parameter.placements)) if isinstance(parameter, DTensor) else "whole"
