"""Where a trial runs: the cluster, the scale, the storage and what is added to the image at submission."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_serializer, model_validator

from seatrial.trial.base import Misfit, Section
from seatrial.trial.workload import Seconds

_WORD = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_DOMAIN = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti)")
_MEBIBYTES = {"Ki": 1 / 1024, "Mi": 1.0, "Gi": 1024.0, "Ti": 1024.0 * 1024.0}
# What pods use themselves, and what the images of AWS, of Ray and of NVIDIA keep their programs and libraries in. A
# volume at one of them, in it, or above it would hide what is there.
_TAKEN = (
    "/dev", "/etc", "/proc", "/run", "/sys", "/tmp", "/var/lib", "/var/run",
    "/bin", "/boot", "/lib", "/lib32", "/lib64", "/libx32", "/root", "/sbin", "/usr",
    "/opt/amazon", "/opt/aws", "/opt/conda", "/opt/nvidia", "/opt/venv", "/home/ray/anaconda3",
)  # fmt: skip


def _text(pattern: str, expected: str) -> AfterValidator:
    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f'saw "{value}"; expected {expected}')
        return value

    return AfterValidator(check)


def _each_key(pattern: str, expected: str) -> Callable[[dict[str, str]], dict[str, str]]:
    def check(value: dict[str, str]) -> dict[str, str]:
        for key in value:
            if not re.fullmatch(pattern, key) or key.startswith("seatrial.io/"):
                raise Misfit(f"expected {expected}, not below seatrial.io/", key)
        return value

    return check


def _label_values(value: dict[str, str]) -> dict[str, str]:
    for key, text in value.items():
        if text and not re.fullmatch(_WORD, text):
            raise Misfit(f'saw "{text}"; expected at most 63 letters, digits, - _ and . as a label has', key)
    return value


_NAME = "lower-case letters, digits and -, at most 63"
_KEY = rf"({_DOMAIN}/)?{_WORD}"
Label = Annotated[str, _text(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", _NAME)]
ObjectName = Annotated[str, _text(_DOMAIN, "lower-case letters, digits, - and ., as Kubernetes names objects")]
Memory = Annotated[str, _text(_QUANTITY.pattern, "a size in Ki, Mi, Gi or Ti, as in 16Gi")]
Annotations = Annotated[dict[str, str], AfterValidator(_each_key(_KEY, "an annotation's key"))]
Labels = Annotated[dict[str, str], AfterValidator(_each_key(_KEY, "a label's key")), AfterValidator(_label_values)]


def mebibytes(memory: str) -> int:
    """`16Gi` in MiB, rounded down."""
    found = _QUANTITY.fullmatch(memory)
    assert found, memory
    return int(float(found[1]) * _MEBIBYTES[found[2]])


class Toleration(Section):
    """A taint that pods may be placed beside, in Kubernetes' own words."""

    key: str | None = None
    operator: Literal["Exists", "Equal"] = "Equal"
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    tolerationSeconds: int | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Toleration:
        if self.operator == "Exists" and self.value is not None:
            raise Misfit("was given beside operator: Exists; expected no value", "value")
        if self.operator == "Equal" and self.key is None:
            raise Misfit("has no key; expected one, or operator: Exists", "operator")
        return self


class Head(Section):
    """The head pod: it runs the driver and needs no accelerator.

    `pod` is merged into the pod's spec: maps key by key, lists of named things by name, null removes.
    """

    cpu: int = Field(4, ge=1)
    memory: Memory = "16Gi"
    nodeSelector: Labels = Field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    pod: dict[str, Any] = Field(default_factory=dict)


class WorkerGroup(Section):
    """Pods of one size. What is not given comes from the instance type: its GPUs, its EFA interfaces and most of
    its CPUs and memory, so that one pod takes one node.

    `shm` is the size of /dev/shm, a third of `memory` if not given. `pod` is merged as in `head`.
    """

    name: Label | None = None
    instanceType: str | None = Field(None, pattern=r"^(ml\.)?[a-z0-9-]+\.[a-z0-9-]+$")
    replicas: int = Field(1, ge=1)
    gpus: int | None = Field(None, ge=0)
    cpu: int | None = Field(None, ge=1)
    memory: Memory | None = None
    efa: int | None = Field(None, ge=0)
    shm: Memory | None = None
    nodeSelector: Labels = Field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    pod: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _can_be(self) -> WorkerGroup:
        if self.name in ("head", "headgroup"):
            raise Misfit(f"saw {self.name}, which KubeRay or Kueue uses for the head; expected another name", "name")
        if self.shm and self.memory and mebibytes(self.shm) >= mebibytes(self.memory):
            raise Misfit(f"saw {self.shm}; expected less than memory, which it is a part of", "shm")
        return self


class Template(Section):
    """A manifest of the team's own to add to, instead of generating one."""

    from_: str = Field(alias="from", min_length=1)

    @model_serializer
    def _as_written(self) -> dict[str, str]:
        return {"from": self.from_}


class Cluster(Section):
    """Absent in a trial means: this machine.

    `labels` and `annotations` are put on everything that is rendered and on the pods; `queue` is a Kueue local queue.
    `deadline` is the longest life of the job; without it: what the trial's own limits allow, at most a day.
    `require: efa` pins NCCL's network: where EFA cannot be used the job fails, instead of going on over TCP.
    """

    provider: Literal["eks", "kubernetes", "ray", "local"] = "local"
    kuberayVersion: Annotated[str, _text(r"\d+\.\d+(\.\d+)?", 'a version such as "1.6"')] | None = None
    kubernetesVersion: Annotated[str, _text(r"1\.\d+(\.\d+)?", 'a version such as "1.34"')] | None = None
    rayVersion: Annotated[str, _text(r"\d+\.\d+\.\d+", "the image's Ray in three numbers, such as 2.58.0")] | None = (
        None
    )
    namespace: Label | None = None
    labels: Labels = Field(default_factory=dict)
    annotations: Annotations = Field(default_factory=dict)
    serviceAccount: ObjectName | None = None
    imagePullSecrets: tuple[ObjectName, ...] = ()
    priorityClass: ObjectName | None = None
    queue: ObjectName | None = None
    deadline: Seconds | None = Field(None, ge=60, le=2**31 - 1)
    require: Literal["efa"] | None = None
    head: Head | None = None
    workerGroups: tuple[WorkerGroup, ...] = ()
    template: Template | None = None

    @model_validator(mode="after")
    def _goes_together(self) -> Cluster:
        names = [group.name for group in self.workerGroups if group.name]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise Misfit(f"two are named {twice[0]}; expected a name of its own for each", "workerGroups")
        if self.provider != "eks" and any(group.efa for group in self.workerGroups):
            raise Misfit(f"saw {self.provider} and a group with efa; expected eks, where EFA is", "provider")
        if self.require and self.provider in ("local", "kubernetes"):
            raise Misfit(f"saw {self.require} and provider {self.provider}; expected eks, where EFA is", "require")
        return self


class RuntimeEnv(Section):
    """What is added to the image when the job is submitted; part of the record."""

    pip: tuple[str, ...] = ()
    env_vars: dict[str, str] = Field(default_factory=dict)


class Create(Section):
    """A claim to be made: on storage that many nodes can mount at once (ReadWriteMany)."""

    storageClassName: ObjectName | None = None
    size: Memory


class Volume(Section):
    """A PersistentVolumeClaim, mounted at `mountPath` in every pod. Without `create` it must exist."""

    claim: ObjectName
    mountPath: Annotated[str, _text(r"(/[A-Za-z0-9][A-Za-z0-9_.-]*)+", "an absolute path such as /fsx")]
    create: Create | None = None

    @model_validator(mode="after")
    def _is_free(self) -> Volume:
        if taken := next((path for path in _TAKEN if below(self.mountPath, path)), ""):
            raise Misfit(f"saw {self.mountPath}; expected a folder that is not below {taken}, as /fsx", "mountPath")
        if hidden := next((path for path in _TAKEN if below(path, self.mountPath)), ""):
            raise Misfit(f"saw {self.mountPath}, which would hide {hidden}; expected a folder as /fsx", "mountPath")
        return self


class Storage(Section):
    """A folder that every worker can write. In Kubernetes it lies on `volume`."""

    path: str = Field("./runs", min_length=1)
    volume: Volume | None = None

    @model_validator(mode="after")
    def _lies_on_the_volume(self) -> Storage:
        if self.volume and not below(self.path, self.volume.mountPath):
            expected = f"{self.volume.mountPath}, where storage.volume is mounted, or a folder below it"
            raise Misfit(f"saw {self.path}; expected {expected}", "path")
        return self


class Scaling(Section):
    """How many ranks, and what each of them holds."""

    num_workers: int = Field(2, ge=1, le=65536)
    gpus_per_worker: int = Field(0, ge=0, le=1)


def below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies below it, by name alone; `..` lies nowhere."""
    parts = PurePosixPath(path).parts
    return ".." not in parts and PurePosixPath(path).is_relative_to(folder)


def without_a_shared_class(cluster: Cluster, storage: Storage) -> bool:
    """Whether a claim is to be made in a class that cannot serve it.

    Without `storageClassName` a cluster's default class makes the volume. On EKS that is EBS, which one node mounts.
    """
    create = storage.volume.create if storage.volume else None
    return cluster.provider == "eks" and not cluster.template and create is not None and not create.storageClassName


def too_few_gpus(cluster: Cluster, scaling: Scaling) -> str:
    """Empty, or what is wrong where every group says its GPUs itself; other groups' are looked up when rendering."""
    given = [group.gpus for group in cluster.workerGroups]
    if not given or None in given or cluster.template:
        return ""
    room = sum(group.replicas * (group.gpus or 0) for group in cluster.workerGroups)
    wanted = scaling.num_workers * scaling.gpus_per_worker
    return f"asks for {wanted} GPUs; expected at most the {room} of cluster.workerGroups" if wanted > room else ""
