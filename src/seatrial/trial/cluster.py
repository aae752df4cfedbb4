"""Where a trial runs: the cluster, the scale, the storage, and what a submission adds to the image."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_serializer, model_validator

from seatrial.trial.base import Section, SectionError
from seatrial.trial.workload import Seconds

_WORD = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_DOMAIN = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti)")
_MEBIBYTES = {"Ki": 1 / 1024, "Mi": 1.0, "Gi": 1024.0, "Ti": 1024.0 * 1024.0}
# Folders that pods use themselves, or that hold the programs and libraries of the images of AWS, Ray and NVIDIA.
# A volume mounted at, below or above one of them would hide its content.
_RESERVED_PATHS = (
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
                raise SectionError(f"expected {expected}, without the prefix seatrial.io/", key)
        return value

    return check


def _label_values(value: dict[str, str]) -> dict[str, str]:
    for key, text in value.items():
        if text and not re.fullmatch(_WORD, text):
            raise SectionError(f'saw "{text}"; expected a label value: at most 63 letters, digits, -, _ and .', key)
    return value


_NAME = "lower-case letters, digits and -, at most 63"
_KEY = rf"({_DOMAIN}/)?{_WORD}"
Label = Annotated[str, _text(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", _NAME)]
ObjectName = Annotated[str, _text(_DOMAIN, "lower-case letters, digits, - and ., as Kubernetes names objects")]
RayVersion = Annotated[str, _text(r"\d+\.\d+\.\d+", "the image's Ray version in three numbers, such as 2.58.0")]
Memory = Annotated[str, _text(_QUANTITY.pattern, "a size in Ki, Mi, Gi or Ti, as in 16Gi")]
Annotations = Annotated[dict[str, str], AfterValidator(_each_key(_KEY, "an annotation's key"))]
Labels = Annotated[dict[str, str], AfterValidator(_each_key(_KEY, "a label's key")), AfterValidator(_label_values)]


def mebibytes(memory: str) -> int:
    """`16Gi` in MiB, rounded down."""
    found = _QUANTITY.fullmatch(memory)
    assert found, memory
    return int(float(found[1]) * _MEBIBYTES[found[2]])


class Toleration(Section):
    """A toleration, with Kubernetes' own keys: the taint that pods tolerate."""

    key: str | None = None
    operator: Literal["Exists", "Equal"] = "Equal"
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    tolerationSeconds: int | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Toleration:
        if self.operator == "Exists" and self.value is not None:
            raise SectionError("was given beside operator: Exists; expected no value", "value")
        if self.operator == "Equal" and self.key is None:
            raise SectionError("has no key; expected one, or operator: Exists", "operator")
        return self


class Head(Section):
    """The head pod: it runs the driver and needs no accelerator.

    `pod` is merged into the pod's spec: maps key by key, lists of named items by name; a null removes a key.
    """

    cpu: int = Field(4, ge=1)
    memory: Memory = "16Gi"
    nodeSelector: Labels = Field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    pod: dict[str, Any] = Field(default_factory=dict)


class WorkerGroup(Section):
    """Pods of one size. The instance type supplies the numbers that are missing: its GPUs, its EFA interfaces and
    most of its CPUs and memory. So one pod takes one node.

    `shm` is the size of /dev/shm, by default a third of `memory`. `pod` is merged as in `head`.
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
            raise SectionError(
                f"saw {self.name}, which KubeRay or Kueue uses for the head; expected another name", "name"
            )
        if self.shm and self.memory and mebibytes(self.shm) >= mebibytes(self.memory):
            raise SectionError(f"saw {self.shm}; expected less than memory, because /dev/shm counts as memory", "shm")
        return self


class Template(Section):
    """The team's own manifest, which seatrial extends instead of generating one."""

    from_: str = Field(alias="from", min_length=1)

    @model_serializer
    def _as_written(self) -> dict[str, str]:
        return {"from": self.from_}


class Cluster(Section):
    """The cluster. A trial without this section runs on this machine.

    All rendered objects and the pods get `labels` and `annotations`. `queue` is a Kueue local queue. `deadline` is the
    longest time that the job may take; by default as long as the trial's own limits allow, at most a day.
    `require: efa` pins NCCL's network: without EFA the job fails, instead of going on over TCP.
    """

    provider: Literal["eks", "kubernetes", "ray", "local"] = "local"
    kuberayVersion: Annotated[str, _text(r"\d+\.\d+(\.\d+)?", 'a version such as "1.6"')] | None = None
    kubernetesVersion: Annotated[str, _text(r"1\.\d+(\.\d+)?", 'a version such as "1.34"')] | None = None
    rayVersion: (
        Annotated[str, _text(r"\d+\.\d+\.\d+", "the image's Ray version in three numbers, such as 2.58.0")] | None
    ) = None
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
            raise SectionError(f"two groups are named {twice[0]}; expected a different name for each", "workerGroups")
        if self.provider != "eks" and any(group.efa for group in self.workerGroups):
            raise SectionError(f"saw {self.provider}, and a group asks for EFA; expected eks", "provider")
        if self.require and self.provider in ("local", "kubernetes"):
            raise SectionError(f"saw {self.require} with provider {self.provider}; expected provider eks", "require")
        return self


class RuntimeEnv(Section):
    """What a submission adds to the image. The record holds it."""

    pip: tuple[str, ...] = ()
    env_vars: dict[str, str] = Field(default_factory=dict)


class Create(Section):
    """A claim that seatrial creates, on storage that many nodes can mount at once (ReadWriteMany)."""

    storageClassName: ObjectName | None = None
    size: Memory


class Volume(Section):
    """A PersistentVolumeClaim, mounted at `mountPath` in every pod. Without `create` it must exist."""

    claim: ObjectName
    mountPath: Annotated[str, _text(r"(/[A-Za-z0-9][A-Za-z0-9_.-]*)+", "an absolute path such as /fsx")]
    create: Create | None = None

    @model_validator(mode="after")
    def _is_free(self) -> Volume:
        if taken := next((path for path in _RESERVED_PATHS if below(self.mountPath, path)), ""):
            raise SectionError(f"saw {self.mountPath}; expected a folder outside of {taken}, such as /fsx", "mountPath")
        if hidden := next((path for path in _RESERVED_PATHS if below(path, self.mountPath)), ""):
            raise SectionError(
                f"saw {self.mountPath}, which would hide {hidden}; expected a folder such as /fsx", "mountPath"
            )
        return self


class Storage(Section):
    """A folder that every worker can write. In Kubernetes it is on `volume`."""

    path: str = Field("./runs", min_length=1)
    volume: Volume | None = None

    @model_validator(mode="after")
    def _lies_on_the_volume(self) -> Storage:
        if self.volume and not below(self.path, self.volume.mountPath):
            expected = f"{self.volume.mountPath}, where storage.volume is mounted, or a folder below it"
            raise SectionError(f"saw {self.path}; expected {expected}", "path")
        return self


class Scaling(Section):
    """The number of ranks, and the GPUs of each rank."""

    num_workers: int = Field(2, ge=1, le=65536)
    gpus_per_worker: int = Field(0, ge=0, le=1)


def below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or is below it. Only names are compared; a path with `..` is below nothing."""
    parts = PurePosixPath(path).parts
    return ".." not in parts and PurePosixPath(path).is_relative_to(folder)


def without_a_shared_class(cluster: Cluster, storage: Storage) -> bool:
    """Whether the trial creates a claim that only one node could mount.

    Without `storageClassName` the cluster's default class applies. On EKS this is EBS, which one node mounts.
    """
    create = storage.volume.create if storage.volume else None
    return cluster.provider == "eks" and not cluster.template and create is not None and not create.storageClassName


def too_few_gpus(cluster: Cluster, scaling: Scaling) -> str:
    """The problem, or empty. Groups that do not state their GPUs are checked when the trial is rendered."""
    given = [group.gpus for group in cluster.workerGroups]
    if not given or None in given or cluster.template:
        return ""
    room = sum(group.replicas * (group.gpus or 0) for group in cluster.workerGroups)
    wanted = scaling.num_workers * scaling.gpus_per_worker
    return f"asks for {wanted} GPUs; expected at most the {room} of cluster.workerGroups" if wanted > room else ""
