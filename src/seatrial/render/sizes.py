"""What each pod asks for: the trial's own numbers, and for what it leaves out most of what a node can hand out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from seatrial.errors import InputError
from seatrial.hardware import Instance, instance
from seatrial.trial import Trial
from seatrial.trial.cluster import Head, WorkerGroup, mebibytes

# Daemon sets (CNI, CSI, device plugins, log agents) take their share of what a node can hand out. With these two a
# g6.12xlarge gives what AWS tests its Ray Train container with there: 40 CPUs and 160Gi.
CPU_SHARE = 0.85
MEMORY_SHARE = 0.92
OBJECT_STORE_SHARE = 0.30  # Ray's default, of the memory that it sees
SHM_SHARE = 1 / 3  # the object store and some room for NCCL and data loaders; it counts as memory of the pod
SHM_USED_FOR_OBJECTS = 0.8  # where the trial gives less /dev/shm than Ray's default object store needs


@dataclass(frozen=True)
class Pod:
    """The resources of one pod; requests are limits."""

    cpu: int
    memory: str  # a Kubernetes quantity, as are the other sizes
    shm: str
    object_store_bytes: int | None = None  # None is Ray's default
    gpus: int = 0
    efa: int = 0


@dataclass(frozen=True)
class Group:
    """A worker group with every number filled in."""

    name: str
    replicas: int
    pod: Pod
    takes_node: bool  # all GPUs of the instance: one pod a node
    asked: WorkerGroup


def head_pod(head: Head) -> Pod:
    """The head's resources."""
    return Pod(head.cpu, head.memory, _shm(head.memory))


def groups(trial: Trial) -> tuple[Group, ...]:
    """The worker groups. Raises InputError for numbers that nobody knows, or that the ranks do not fit into."""
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


def _group(trial: Trial, position: int) -> Group:
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
            f"saw {shm}", field=f"{field}.shm", expected=f"less than memory, {memory}, which it is a part of"
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
    pod = Pod(cpu, memory, shm, objects, gpus, efa)
    return Group(asked.name or _name(trial, position), asked.replicas, pod, whole, asked)


def _name(trial: Trial, position: int) -> str:
    """`workers`, `workers-2` …, or the next number that no group of the trial has taken."""
    taken = {group.name for group in trial.cluster.workerGroups}
    free = (n for i in range(1, 1000) if (n := "workers" if i == 1 else f"workers-{i}") not in taken)
    unnamed = sum(group.name is None for group in trial.cluster.workerGroups[:position])
    return [name for name, _ in zip(free, range(unnamed + 1), strict=False)][-1]


def _number(
    given: int | None, known: Instance | None, field: str, key: str, look_up: Callable[[Instance], int | None]
) -> int:
    """The trial's number, else the table's. Raises InputError that names the key to set."""
    found = given if given is not None else (look_up(known) if known else None)
    if found is None:
        kind = field.rpartition(".")[0]
        raise InputError(
            "is not known for this instance type" if known else "is not known without an instance type in the catalog",
            field=f"{field}.{key}",
            expected=f"gpus, cpu and memory of each pod in {kind}",
            fix="`seatrial catalog` lists the instance types that are known",
        )
    return found


def _efa(trial: Trial, asked: WorkerGroup, known: Instance | None, gpus: int, field: str) -> int:
    """EFA interfaces: none outside AWS, a pod's share of the node's otherwise."""
    if trial.cluster.provider != "eks":
        return 0
    if known and asked.efa is not None and asked.efa > known.efa:
        raise InputError(f"saw {asked.efa}", field=f"{field}.efa", expected=f"at most the {known.efa} of {known.name}")
    if asked.efa is not None or known is None:
        return asked.efa or 0
    return known.efa * gpus // known.gpus if known.gpus else 0


def _cpus(millicores: int) -> int:
    """Whole CPUs after the daemon sets' share, large numbers in fours; at least one."""
    cpus = int(millicores * CPU_SHARE) // 1000
    return max(1, cpus // 4 * 4 if cpus >= 16 else cpus)


def _memory(mib: int, room: float) -> str:
    """Whole GiB after the daemon sets' share, large sizes in eights; at least one."""
    gib = int(mib * room) // 1024
    return f"{max(1, gib // 8 * 8 if gib >= 32 else gib)}Gi"


def _shm(memory: str) -> str:
    """A third of the memory, rounded up: from 30 % on Ray's object store fits, from 50 % on too little is left."""
    mib = mebibytes(memory)
    if mib >= 64 * 1024:
        return f"{ceil(mib * SHM_SHARE / 1024)}Gi"
    return f"{max(1, ceil(mib * SHM_SHARE))}Mi"


def _check_room(trial: Trial, found: tuple[Group, ...]) -> None:
    """Raises InputError if the ranks do not fit: Ray would wait for resources that never come."""
    scaling = trial.scaling
    on_gpus = scaling.gpus_per_worker > 0
    room = sum(group.replicas * (group.pod.gpus if on_gpus else group.pod.cpu) for group in found)
    if scaling.num_workers > room:
        what = "GPUs" if on_gpus else "CPUs"
        raise InputError(
            f"saw {scaling.num_workers}, each with one of the {what}",
            field="scaling.num_workers",
            expected=f"at most the {room} {what} of cluster.workerGroups",
        )
