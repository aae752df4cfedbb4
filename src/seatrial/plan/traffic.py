"""What a training step sends: message bytes of its collectives, and the wire bytes that follow, two numbers.

A message is the whole tensor of one collective, S. For it, one rank puts `rounds · (n − 1)/n · S` on a wire, to one
neighbour of its ring; whether that leaves the host depends on who sits where.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from seatrial.events.base import Nonsense
from seatrial.events.layers import Sharding

Dimension = Literal["replicate", "shard"]
WIDTH = {"bf16": 2, "fp32": 4}  # bytes of an element
STATE_BYTES = 12  # of a trainable element in a checkpoint: fp32 master, first and second moment
METADATA_BYTES = 4096  # of a tensor in a checkpoint's plan, for each rank: names, shapes, offsets, as DCP pickles them


@dataclass(frozen=True)
class Ring:
    """How a backend does one collective: `rounds` times around a ring, to the next rank (+1) or the last one (-1)."""

    rounds: int
    direction: int


# Sources. gloo: benchmarks/gloo_wire.py with torch 2.13.0, where every layout of 2 to 6 ranks on 2 and 3 hosts sent
# (n − 1)/n · S for an all-gather to rank + 1 and 2(n − 1)/n · S for both others to rank − 1, plus 0.1 to 0.4 %; its
# reduce-scatter is an all-reduce of which a part is kept. nccl: nccl-tests, doc/PERFORMANCE.md; trees, LL and NVLS
# send otherwise, which is what NCCL's wide band is for.
RINGS: dict[str, dict[str, Ring]] = {
    "gloo": {"all_gather": Ring(1, 1), "reduce_scatter": Ring(2, -1), "all_reduce": Ring(2, -1)},
    "nccl": {"all_gather": Ring(1, 1), "reduce_scatter": Ring(1, 1), "all_reduce": Ring(2, 1)},
}


@dataclass(frozen=True)
class Message:
    """One collective over one dimension of the mesh: S in bytes, and how often a step does it."""

    collective: str
    dimension: Dimension
    size: int
    times: int


@dataclass(frozen=True)
class Sent:
    """What one rank puts on a wire for another in one step: payload in bytes, and in how many messages."""

    size: float = 0.0
    messages: int = 0

    def __add__(self, other: Sent) -> Sent:
        return Sent(self.size + other.size, self.messages + other.messages)


def padded(shape: Sequence[int], degree: int) -> int:
    """Elements of a parameter as FSDP2 sends them: dimension 0 is filled up to a multiple of the shard degree."""
    first = shape[0] if shape else 1
    return -(-first // degree) * degree * math.prod(shape[1:])


def messages(sharding: Sharding, micro_batches: int) -> list[Message]:
    """The collectives of one optimizer step, in DESIGN's words for the strategies, one entry for each unit and kind.

    FSDP gathers a unit for each micro-batch's forward, and again for its backward if it was given up in between; it
    reduces once a step, after the last micro-batch. DDP and HSDP add up the shards of replicas in the same place.
    `sharding` is the environment layer that rank 0 writes (train.shard.describe). Raises Nonsense for a dtype that no
    training of ours sends.
    """
    replicate, shard = sharding.mesh
    gather, reduce = _width(sharding.param_dtype), _width(sharding.reduce_dtype)
    gathers = micro_batches * (2 if sharding.reshard_after_forward else 1)
    found: list[Message] = []
    for unit in sharding.units:
        whole, trainable = unit.padded, unit.padded_trainable
        if shard > 1:
            found.append(Message("all_gather", "shard", whole * gather, gathers))
            found.append(Message("reduce_scatter", "shard", trainable * reduce, 1))
        if replicate > 1:
            found.append(Message("all_reduce", "replicate", trainable * reduce // shard, 1))
    return [message for message in found if message.size]


def _width(dtype: str) -> int:
    if dtype not in WIDTH:
        raise Nonsense(f"elements of type {dtype}: expected one of {', '.join(WIDTH)}")
    return WIDTH[dtype]


def sent(
    work: Sequence[Message], mesh: Sequence[int], backend: str, hosts: Sequence[str]
) -> dict[tuple[int, int], Sent]:
    """What each rank sends to each other rank in one step; `hosts` are by rank. Raises KeyError for an unknown backend.

    gloo's ring is in rank order. NCCL's visits a host once, whatever the order of ranks. Raises Nonsense for a mesh of
    another number of ranks.
    """
    if math.prod(mesh) != len(hosts):
        raise Nonsense(f"a mesh of {' × '.join(map(str, mesh))} ranks, {len(hosts)} took part")
    found: dict[tuple[int, int], Sent] = defaultdict(Sent)
    for message in work:
        ring = RINGS[backend][message.collective]
        for group in groups(mesh, message.dimension):
            order = sorted(group, key=lambda r: hosts[r]) if backend == "nccl" else group
            n = len(order)
            each = Sent(message.times * ring.rounds * (n - 1) / n * message.size, message.times * ring.rounds * (n - 1))
            for place, rank in enumerate(order):
                found[rank, order[(place + ring.direction) % n]] += each
    return dict(found)


def bus_bytes(work: Sequence[Message], mesh: Sequence[int]) -> float:
    """Bytes of one step over one link of a rank, by the factors of nccl-tests (doc/PERFORMANCE.md): what bus bandwidth
    counts, whatever a backend really sends."""
    degree = dict(zip(("replicate", "shard"), mesh, strict=True))
    rounds = {"all_gather": 1, "reduce_scatter": 1, "all_reduce": 2}
    return math.fsum(
        rounds[m.collective] * (n - 1) / n * m.size * m.times for m in work if (n := degree[m.dimension]) > 1
    )


def groups(mesh: Sequence[int], dimension: Dimension) -> list[list[int]]:
    """The ranks of each process group along one dimension of the mesh (replicate, shard), ranks row by row."""
    replicate, shard = mesh
    if dimension == "shard":
        return [[row * shard + column for column in range(shard)] for row in range(replicate)]
    return [[row * shard + column for row in range(replicate)] for column in range(shard)]


def checkpoint_bytes(sharding: Sharding, world_size: int) -> float:
    """The most that one rank's part of a checkpoint, with the words about it, can put on a network."""
    elements = sum(unit.padded for unit in sharding.units)
    tensors = sum(unit.tensors for unit in sharding.units)
    degree = sharding.mesh[1]
    return elements * STATE_BYTES / degree + 3 * tensors * METADATA_BYTES * world_size
