"""Shards a model: DDP, FSDP and HSDP are one mesh (replicate, shard) and one call a block."""

from __future__ import annotations

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from seatrial.events.layers import Sharding, Unit
from seatrial.plan import Plan
from seatrial.plan.traffic import padded
from seatrial.trial.workload import Workload

_DTYPE = {"bf16": torch.bfloat16, "fp32": torch.float32}


def make_mesh(plan: Plan, device: torch.device) -> DeviceMesh:
    """The 2-D mesh (dp_replicate, dp_shard)."""
    return init_device_mesh(device.type, plan.mesh, mesh_dim_names=("dp_replicate", "dp_shard"))


def shard(model: nn.Module, blocks: list[nn.Module], mesh: DeviceMesh, plan: Plan, work: Workload) -> FSDPModule:
    """Applies FSDP2 to each block and to the rest.

    Gradients are summed, not averaged: the loss is already divided by the tokens of all ranks. gloo cannot
    pre-multiply, hence the forced sum.
    """
    policy = MixedPrecisionPolicy(param_dtype=_DTYPE[work.precision], reduce_dtype=_DTYPE[work.reduce_dtype])
    used = mesh["dp_shard"] if plan.mesh[0] == 1 else mesh
    for block in blocks:
        fully_shard(block, mesh=used, mp_policy=policy, reshard_after_forward=plan.reshard_after_forward)
    root = fully_shard(model, mesh=used, mp_policy=policy, reshard_after_forward=plan.reshard_after_forward)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
    return root


def describe(model: nn.Module, plan: Plan, work: Workload) -> Sharding:
    """What is sent and how much of it follows from this: each unit's parameters as they are, the mesh, the dtypes.

    `padded` counts the elements that a collective of the unit carries. A shared parameter is one, in its first unit.
    """
    degree = plan.mesh[1]
    seen: set[int] = set()
    units: list[Unit] = []
    # Inner units first: what is left over is the root's.
    owners = [name for name, module in model.named_modules() if isinstance(module, FSDPModule)]
    for name in sorted(owners, key=len, reverse=True):
        own = [p for p in model.get_submodule(name).parameters() if id(p) not in seen]
        seen |= {id(p) for p in own}
        trainable = [p for p in own if p.requires_grad]
        units.append(
            Unit(
                name=name or "root",
                tensors=len(own),
                trainable=sum(p.numel() for p in trainable),
                frozen=sum(p.numel() for p in own if not p.requires_grad),
                padded=sum(padded(p.shape, degree) for p in own),
                padded_trainable=sum(padded(p.shape, degree) for p in trainable),
            )
        )
    return Sharding(
        units=tuple(sorted(units, key=lambda unit: unit.name)),
        mesh=plan.mesh,
        param_dtype=work.precision,
        reduce_dtype=work.reduce_dtype,
        reshard_after_forward=plan.reshard_after_forward,
    )


def reshard(model: nn.Module) -> None:
    """Puts every module back to holding its shards."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()
