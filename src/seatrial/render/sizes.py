"""The resources of each pod: the trial's own numbers, else most of what its instance type can allocate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count, islice
from math import ceil

from seatrial.errors import InputError
from seatrial.hardware import Instance, instance
from seatrial.trial import Trial
from seatrial.trial.cluster import Head, WorkerGroup, mebibytes

# Daemon sets (CNI, CSI, device plugins, log agents) use the rest of what a node can allocate. With these shares a pod
# on a g6.12xlarge gets 40 CPUs and 160Gi: AWS tests its Ray Train container there with the same numbers.
CPU_SHARE = 0.85
MEMORY_SHARE = 0.92
OBJECT_STORE_SHARE = 0.30  # Ray's default: a share of the memory that it sees
SHM_SHARE = 1 / 3  # for the object store, NCCL and data loaders; /dev/shm counts as memory of the pod
SHM_USED_FOR_OBJECTS = 0.8  # if the trial's /dev/shm is smaller than Ray's default object store


@dataclass(frozen=True)
class PodSize:
    """The resources of one pod. Its requests equal its limits."""

    cpu: int
    memory: str  # a Kubernetes quantity, as are the other sizes
    shm: str
    object_store_bytes: int | None = None  # None is Ray's default
    gpus: int = 0
    efa: int = 0


@dataclass(frozen=True)
class GroupSizes:
    """A worker group with every number filled in."""

    name: str
    replicas: int
    pod: PodSize
    takes_node: bool  # a pod takes all GPUs of its node
    asked: WorkerGroup  # the group as the trial states it


def head_size(head: Head) -> PodSize:
    """The head's resources."""
    return PodSize(head.cpu, head.memory, _shm(head.memory))


def groups(trial: Trial) -> tuple[GroupSizes, ...]:
    """The worker groups. Raises InputError if a number is unknown, or if the ranks do not fit."""
    asked = trial.cluster.workerGroups
    if not asked:
        raise InputError(
            "missing",
            field="cluster.workerGroups",
            expected="at least one group, as in [{instanceType: g6.12xlarge, replicas: 2}]",
        )
    found = tuple(_group(trial, position) for position in range(len(asked)))
    _check_room(trial, found)
    return found


def _group(trial: Trial, position: int) -> GroupSizes:
    asked, field = trial.cluster.workerGroups[position], f"cluster.workerGroups.{position}"
    known = instance(asked.instanceType) if asked.instanceType else None
    gpus = _number(asked.gpus, known, field, "gpus", lambda k: k.gpus)
    if known and gpus > known.gpus:
        raise InputError(f"saw {gpus}", field=f"{field}.gpus", expected=f"at most the {known.gpus} of {known.name}")
    cpu = _number(asked.cpu, known, field, "cpu", lambda k: k.allocatable_cpu_m and _cpus(k.allocatable_cpu_m))
    memory = asked.memory or _memory(
        _number(None, known, field, "memory", lambda k: k.allocatable_memory_mib), room=MEMORY_SHARE
    )
    shm = asked.shm or _shm(memory)
    if mebibytes(shm) >= mebibytes(memory):
        raise InputError(
            f"saw {shm}",
            field=f"{field}.shm",
            expected=f"less than memory ({memory}), because /dev/shm counts as memory",
        )
    too_small = mebibytes(shm) < OBJECT_STORE_SHARE * mebibytes(memory)
    objects = int(mebibytes(shm) * SHM_USED_FOR_OBJECTS) << 20 if too_small else None
    whole = known is not None and 0 < gpus == known.gpus
    efa = _efa(trial, asked, known, gpus, field)
    if trial.cluster.require and not efa:
        raise InputError(
            f"saw {trial.cluster.require}, and {field} has no EFA interface",
            field="cluster.require",
            expected="pods that ask for vpc.amazonaws.com/efa",
            fix="set efa, or an instance type that has it: `seatrial catalog instances`",
        )
    pod = PodSize(cpu, memory, shm, objects, gpus, efa)
    return GroupSizes(asked.name or _name(trial, position), asked.replicas, pod, whole, asked)


def _name(trial: Trial, position: int) -> str:
    """The name of an unnamed group: `workers`, `workers-2` …, without names that the trial itself gives."""
    taken = {group.name for group in trial.cluster.workerGroups}
    names = ("workers" if number == 1 else f"workers-{number}" for number in count(1))
    free = (name for name in names if name not in taken)
    unnamed_before = sum(group.name is None for group in trial.cluster.workerGroups[:position])
    return next(islice(free, unnamed_before, None))


def _number(
    given: int | None, known: Instance | None, field: str, key: str, look_up: Callable[[Instance], int | None]
) -> int:
    """The trial's number, else the catalog's. Raises InputError, which names the key to set."""
    found = given if given is not None else (look_up(known) if known else None)
    if found is None:
        kind = field.rpartition(".")[0]
        raise InputError(
            "is unknown for this instance type" if known else "is unknown without an instance type of the catalog",
            field=f"{field}.{key}",
            expected=f"gpus, cpu and memory of each pod in {kind}",
            fix="`seatrial catalog` lists the instance types that are known",
        )
    return found


def _efa(trial: Trial, asked: WorkerGroup, known: Instance | None, gpus: int, field: str) -> int:
    """EFA interfaces of a pod: none outside of AWS, else its share of the node's interfaces."""
    if trial.cluster.provider != "eks":
        return 0
    if known and asked.efa is not None and asked.efa > known.efa:
        raise InputError(f"saw {asked.efa}", field=f"{field}.efa", expected=f"at most the {known.efa} of {known.name}")
    if asked.efa is not None or known is None:
        return asked.efa or 0
    return known.efa * gpus // known.gpus if known.gpus else 0


def _cpus(millicores: int) -> int:
    """Whole CPUs without the daemon sets' share, at least one; from 16 on a multiple of 4."""
    cpus = int(millicores * CPU_SHARE) // 1000
    return max(1, cpus // 4 * 4 if cpus >= 16 else cpus)


def _memory(mib: int, room: float) -> str:
    """Whole GiB without the daemon sets' share, at least one; from 32 on a multiple of 8."""
    gib = int(mib * room) // 1024
    return f"{max(1, gib // 8 * 8 if gib >= 32 else gib)}Gi"


def _shm(memory: str) -> str:
    """A third of the memory, rounded up. Ray's object store needs 30 %; more than 50 % would leave too little."""
    mib = mebibytes(memory)
    if mib >= 64 * 1024:
        return f"{ceil(mib * SHM_SHARE / 1024)}Gi"
    return f"{max(1, ceil(mib * SHM_SHARE))}Mi"


def _check_room(trial: Trial, found: tuple[GroupSizes, ...]) -> None:
    """Raises InputError if the ranks do not fit: Ray would wait forever for resources."""
    scaling = trial.scaling
    on_gpus = scaling.gpus_per_worker > 0
    room = sum(group.replicas * (group.pod.gpus if on_gpus else group.pod.cpu) for group in found)
    if scaling.num_workers > room:
        what = "GPUs" if on_gpus else "CPUs"
        raise InputError(
            f"saw {scaling.num_workers}, each with one {what[:-1]}",
            field="scaling.num_workers",
            expected=f"at most the {room} {what} of cluster.workerGroups",
        )
