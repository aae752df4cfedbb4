"""EC2 instance types: the hardware of a node, and what Kubernetes can allocate of it.

The rows are Karpenter's published instance reference, which is generated from the EC2 API. `network_mbps` is the
sustained rate: the table does not have the burst rate of small sizes. The allocatable columns are what Karpenter
computes for AL2023; daemon sets use a part of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from seatrial.hardware.table import rows

HYPERPOD = "ml."  # SageMaker HyperPod's prefix for the same hardware


@dataclass(frozen=True)
class Instance:
    """One instance type. A None that is not explained here is unknown; fields in `unverified` may be wrong."""

    name: str  # "g6.12xlarge"
    gpus: int  # NVIDIA GPUs
    gpu: str | None  # "L4", a name of `gpus()`; None where there is no GPU
    gpu_memory_mib: int | None  # of one GPU, as EC2 states it: CUDA sees a little less
    neuron_devices: int  # aws.amazon.com/neuron
    vcpus: int | None
    memory_mib: int | None
    allocatable_cpu_m: int | None  # millicores
    allocatable_memory_mib: int | None
    network_mbps: int | None
    efa: int  # the most EFA interfaces that it can have; 0 is none
    nvlink: str | None  # "NVSwitch 600 GB/s" between two GPUs, both directions added; None is none
    gdr: bool | None  # GPUDirect RDMA over EFA
    source: str
    unverified: tuple[str, ...]


def _order(entry: Instance) -> tuple[str, int, str]:
    family, _, size = entry.name.partition(".")
    return family, entry.vcpus or 0, size


@cache
def instances() -> tuple[Instance, ...]:
    """Every known type, by family and size."""
    return tuple(sorted((Instance(**row) for row in rows("instances.json")), key=_order))


@cache
def _by_name() -> dict[str, Instance]:
    return {entry.name: entry for entry in instances()}


def instance(name: str) -> Instance | None:
    """The type with this name, with or without HyperPod's `ml.`; None if it is unknown.

    Case matters, as in Kubernetes: `G6.12xlarge` is no instance type.
    """
    return _by_name().get(name.removeprefix(HYPERPOD))
