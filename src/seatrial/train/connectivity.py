"""A short check of the collectives before the training: that the ranks reach each other, and how fast.

It says nothing about the job's own transport: these are other messages, on an idle network.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
import torch.distributed as dist

from seatrial.events.wires import Connectivity
from seatrial.train.context import Context

SIZES = (64 << 10, 1 << 20, 4 << 20)  # bytes of the whole tensor
SIZES_CUDA = (1 << 20, 32 << 20, 256 << 20)
WARM_UP, ROUNDS = 1, 3
# Bytes over a link for each byte of the tensor, by number of ranks n: NVIDIA/nccl-tests, doc/PERFORMANCE.md. With it
# the bandwidth is that of the hardware, whatever the number of ranks.
BUS: dict[str, Callable[[int], float]] = {
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_reduce": lambda n: 2 * (n - 1) / n,
}


def check(context: Context) -> None:
    """All ranks call it together; rank 0 writes one event for each collective and size. A single rank does nothing."""
    if context.world_size < 2:
        return
    sizes = SIZES_CUDA if context.device.type == "cuda" else SIZES
    for size in sizes:
        for name, factor in BUS.items():
            seconds = _seconds(_collective(name, size, context), context)
            if context.rank == 0:
                context.events.write(
                    Connectivity(
                        collective=name,
                        size_bytes=_whole(size, context.world_size),
                        seconds=seconds,
                        busbw=factor(context.world_size)
                        * _whole(size, context.world_size)
                        / statistics.median(seconds),
                    )
                )


def _whole(size: int, ranks: int) -> int:
    """The nearest number of bytes that every rank has an equal part of, in elements of four bytes."""
    return size // (4 * ranks) * 4 * ranks


def _collective(name: str, size: int, context: Context) -> Callable[[], object]:
    n = context.world_size
    whole = torch.zeros(size // 4, dtype=torch.float32, device=context.device)
    part = torch.zeros(whole.numel() // n, dtype=torch.float32, device=context.device)
    return {
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole),
        "all_reduce": lambda: dist.all_reduce(whole),
    }[name]


def _seconds(run: Callable[[], object], context: Context) -> list[float]:
    """Seconds of each round, by the slowest rank: a collective is over when it is over everywhere."""
    taken = []
    for _ in range(WARM_UP + ROUNDS):
        dist.barrier()
        start = time.perf_counter()
        run()
        if context.device.type == "cuda":
            torch.cuda.synchronize(context.device)
        taken.append(time.perf_counter() - start)
    slowest = torch.tensor(taken[WARM_UP:], dtype=torch.float64, device=context.device)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return [float(second) for second in slowest]
