"""The questions that `seatrial check --server` has for a cluster, and the answers' types.

An answer is a value or `Unanswered`: no permission, no connection, a time-out and an answer in a strange shape are
reasons, never exceptions. Nothing here writes: `dry_run` is the only question that sends a resource.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol


@dataclass(frozen=True)
class Unanswered:
    """Why the cluster gave no answer."""

    reason: str  # `403`, `timed out after 10 s`, `connection refused`
    needs: str = ""  # the permission that would bring one: `list nodes`
    lost: bool = False  # nor will it answer anything else

    def __str__(self) -> str:
        return f"{self.reason} (needs {self.needs})" if self.needs else self.reason


@dataclass(frozen=True)
class Accepted:
    """The API server would take the resource; `exists` where one of that name is there already."""

    exists: bool = False


@dataclass(frozen=True)
class Rejected:
    """The API server, or an admission webhook behind it, would refuse the resource."""

    code: int
    message: str
    causes: tuple[tuple[str, str], ...] = ()  # field path (empty where none is named) and what is wrong there


@dataclass(frozen=True)
class Definition:
    """A CustomResourceDefinition: the structural schema of each version that is served."""

    kind: str
    versions: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Operator:
    """A KubeRay operator, as its Deployment shows it."""

    namespace: str
    image: str
    version: str  # of the image tag, `1.6.1`; empty where the tag says none
    gates: Mapping[str, bool]  # as given by --feature-gates; the others are as by default
    scheduler: str | None  # batch scheduler, empty for none; None where a file in the pod says it


@dataclass(frozen=True)
class Taint:
    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True)
class Node:
    """A node as the scheduler sees it, without what already runs on it."""

    name: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, Fraction]  # CPUs, bytes, devices
    taints: tuple[Taint, ...] = ()
    ready: bool = True


@dataclass(frozen=True)
class DaemonSet:
    namespace: str
    name: str
    images: tuple[str, ...]


@dataclass(frozen=True)
class StorageClass:
    name: str
    default: bool
    waits: bool  # volumeBindingMode WaitForFirstConsumer: a claim stays Pending until a pod uses it


@dataclass(frozen=True)
class Claim:
    """A PersistentVolumeClaim; `document` is the whole of it."""

    name: str
    phase: str
    storage_class: str
    volume: str
    document: Mapping[str, Any]


@dataclass(frozen=True)
class Volume:
    """A PersistentVolume; `terms` are the nodeSelectorTerms of its node affinity."""

    name: str
    storage_class: str
    terms: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Queue:
    """A Kueue LocalQueue. `inactive` says why nothing is admitted, empty where it is active."""

    name: str
    inactive: str


@dataclass(frozen=True)
class Quota:
    """A ResourceQuota: amounts by key, `requests.cpu` or `limits.nvidia.com/gpu`."""

    name: str
    hard: Mapping[str, Fraction]
    used: Mapping[str, Fraction] = field(default_factory=dict)
    scoped: bool = False  # it counts only some of the pods


class Cluster(Protocol):
    """A cluster that can be asked."""

    @property
    def title(self) -> str:
        """How messages name it."""

    @property
    def namespace(self) -> str:
        """The namespace of resources that name none."""

    def dry_run(self, document: Mapping[str, Any], namespace: str) -> Accepted | Rejected | Unanswered:
        """What becomes of a resource of group ray.io, by a server-side dry run with strict field validation."""

    def definition(self, kind: str) -> Definition | Unanswered | None:
        """The CRD of a kind of group ray.io; None where it is not installed."""

    def operators(self) -> tuple[Operator, ...] | Unanswered: ...

    def autoscalers(self) -> tuple[str, ...] | Unanswered:
        """What may add nodes, by name."""

    def nodes(self) -> tuple[Node, ...] | Unanswered: ...

    def daemon_sets(self) -> tuple[DaemonSet, ...] | Unanswered: ...

    def storage_classes(self) -> tuple[StorageClass, ...] | Unanswered: ...

    def volumes(self) -> tuple[Volume, ...] | Unanswered: ...

    def namespace_phase(self, namespace: str) -> str | Unanswered | None:
        """`Active` or `Terminating`; None where there is no such namespace."""

    def claims(self, namespace: str) -> tuple[Claim, ...] | Unanswered: ...

    def service_accounts(self, namespace: str) -> tuple[str, ...] | Unanswered: ...

    def queues(self, namespace: str) -> tuple[Queue, ...] | Unanswered | None:
        """Kueue's LocalQueues; None where Kueue is not installed."""

    def quotas(self, namespace: str) -> tuple[Quota, ...] | Unanswered: ...
