"""Environment layers that only a training process knows: its packages, its torch, its device."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist

from seatrial.events.schema import Environment
from seatrial.probe.packages import installed
from seatrial.train.context import Rank


def process_layers(context: Rank) -> Iterator[Environment]:
    """`torch` from every rank, `packages` from one rank a host."""
    yield Environment(layer="torch", content=_torch(context))
    if context.is_local_rank_zero:
        yield Environment(
            layer="packages", content={"python": sys.version, "prefix": sys.prefix, "installed": installed()}
        )


def _torch(context: Rank) -> dict[str, Any]:
    content: dict[str, Any] = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "backend": dist.get_backend() if dist.is_available() and dist.is_initialized() else "",
        "device": str(context.device),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }
    if context.device.type == "cuda":
        content["gpu"] = torch.cuda.get_device_name(context.device)
        content["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))  # type: ignore[no-untyped-call]
    return content
