"""The questions to the cluster, each sent once. A question without an answer becomes a note."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, cast

from seatrial.check.given import Given
from seatrial.check.manifest import Manifest
from seatrial.check.values import Value, plain
from seatrial.kube import Json
from seatrial.kube.definitions import Definition
from seatrial.kube.dry_run import Accepted, Rejected
from seatrial.kube.failures import Unanswered
from seatrial.kube.kuberay import Operator
from seatrial.kube.limits import Queue, Quota
from seatrial.kube.nodes import DaemonSet, Node
from seatrial.kube.storage import PersistentVolume, PersistentVolumeClaim, StorageClass

T = TypeVar("T")


class ClusterApi(Protocol):
    """What `seatrial check --server` needs of a cluster, as `seatrial.kube.cluster` gives it. Nothing writes."""

    @property
    def title(self) -> str:
        """How messages name it."""

    @property
    def namespace(self) -> str:
        """The namespace of resources that name none."""

    def dry_run(self, document: Json, namespace: str) -> Accepted | Rejected | Unanswered:
        """What becomes of a resource, by a server-side dry run with strict field validation."""

    def definition(self, kind: str) -> Definition | Unanswered | None:
        """The CRD of a kind of group ray.io; None where it is not installed."""

    def operators(self) -> tuple[Operator, ...] | Unanswered: ...

    def autoscalers(self) -> tuple[str, ...] | Unanswered:
        """What may add nodes, by name."""

    def nodes(self) -> tuple[Node, ...] | Unanswered: ...

    def daemon_sets(self) -> tuple[DaemonSet, ...] | Unanswered: ...

    def storage_classes(self) -> tuple[StorageClass, ...] | Unanswered: ...

    def volumes(self) -> tuple[PersistentVolume, ...] | Unanswered: ...

    def namespace_phase(self, namespace: str) -> str | Unanswered | None:
        """`Active` or `Terminating`; None where there is no such namespace."""

    def claims(self, namespace: str) -> tuple[PersistentVolumeClaim, ...] | Unanswered: ...

    def service_accounts(self, namespace: str) -> tuple[str, ...] | Unanswered: ...

    def queues(self, namespace: str) -> tuple[Queue, ...] | Unanswered | None:
        """Kueue's LocalQueues; None where Kueue is not installed."""

    def quotas(self, namespace: str) -> tuple[Quota, ...] | Unanswered: ...


class NotAnswered(Exception):
    """A check needs an answer that the cluster did not give. The question has left a note."""


@dataclass
class Interview:
    """The questions and their answers. A method raises NotAnswered where there is no answer."""

    cluster: ClusterApi
    given: Given
    notes: list[str] = field(default_factory=list)
    lost: Unanswered | None = None
    _answers: dict[str, Any] = field(default_factory=dict)

    def _ask(self, note: str, question: Callable[..., T | Unanswered], *about: Any) -> T:
        """The answer, remembered under `note`, which says what is unknown without it."""
        if note not in self._answers:
            if self.lost:
                raise NotAnswered
            answer = self._answers[note] = question(*about)
            if isinstance(answer, Unanswered) and answer.lost:
                self.lost = answer
            elif isinstance(answer, Unanswered):
                self.note(f"{note}: {answer}")
        if isinstance(self._answers[note], Unanswered):
            raise NotAnswered
        return cast(T, self._answers[note])

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def namespace(self, manifest: Manifest) -> str:
        """The namespace that a resource goes to. Raises CannotTell for a placeholder."""
        return manifest.metadata["namespace"].require_known() or self.cluster.namespace

    def brings(self, kind: str, namespace: str, name: str) -> Value | None:
        """A resource of the input, which the cluster may not have yet."""
        return self.given.find(kind, namespace, name, self.cluster.namespace)

    def phase(self, namespace: str) -> str | None:
        """The phase of a namespace, None where it does not exist."""
        return self._ask(f"namespace {namespace} is unknown", self.cluster.namespace_phase, namespace)

    def _exists(self, namespace: str) -> bool:
        """Whether the cluster has a namespace; True if that is unknown.

        Raises NotAnswered for a namespace that neither the cluster nor the input has.
        """
        try:
            phase = self.phase(namespace)
        except NotAnswered:
            return True
        if phase is None and not self.brings("Namespace", "", namespace):
            raise NotAnswered  # `namespace-missing` reports it
        return phase is not None

    def dry_run(self, manifest: Manifest) -> Accepted | Rejected:
        """Placeholders are sent as text. Raises CannotTell for one in the name or namespace."""
        document, namespace = plain(manifest.root), self.namespace(manifest)
        name, generated = manifest.metadata["name"], manifest.metadata["generateName"]
        title = f"{manifest.kind} {name.require_known() or generated.require_known()}"
        note = f"{title} in {manifest.root.file}:{manifest.root.line} was not tried by a server-side dry run"
        if not self._exists(namespace):
            self.note(f"{note}: its namespace {namespace} does not exist yet")
            raise NotAnswered
        verdict = self._ask(note, self.cluster.dry_run, document, namespace)
        assert isinstance(verdict, Accepted | Rejected)
        return verdict

    def definition(self, kind: str) -> Definition | None:
        return self._ask(f"the CRD of {kind} is unknown", self.cluster.definition, kind)

    def operator(self) -> Operator:
        """The one operator of the cluster."""
        found = self._ask("KubeRay's operator is unknown", self.cluster.operators)
        if len({(one.image, one.scheduler, tuple(one.gates.items())) for one in found}) == 1:
            return found[0]
        why = f"its {len(found)} Deployments differ" if found else "no Deployment has its labels"
        self.note(f"KubeRay's operator is unknown: {why}")
        raise NotAnswered

    def autoscalers(self) -> tuple[str, ...]:
        return self._ask("autoscalers of nodes are unknown", self.cluster.autoscalers)

    def nodes(self) -> tuple[Node, ...]:
        return self._ask("nodes are unknown", self.cluster.nodes)

    def daemon_sets(self) -> tuple[DaemonSet, ...]:
        return self._ask("device plugins are unknown", self.cluster.daemon_sets)

    def storage_classes(self) -> tuple[StorageClass, ...]:
        return self._ask("storage classes are unknown", self.cluster.storage_classes)

    def volumes(self) -> tuple[PersistentVolume, ...]:
        return self._ask("persistent volumes are unknown", self.cluster.volumes)

    def claims(self, namespace: str) -> tuple[PersistentVolumeClaim, ...]:
        return self._listed(namespace, "claims", self.cluster.claims)

    def service_accounts(self, namespace: str) -> tuple[str, ...]:
        return self._listed(namespace, "service accounts", self.cluster.service_accounts)

    def quotas(self, namespace: str) -> tuple[Quota, ...]:
        return self._listed(namespace, "resource quotas", self.cluster.quotas)

    def queues(self, namespace: str) -> tuple[Queue, ...] | None:
        """None where Kueue is not installed."""
        note = f"Kueue's queues of namespace {namespace} are unknown"
        return self._ask(note, self.cluster.queues, namespace) if self._exists(namespace) else ()

    def _listed(
        self, namespace: str, what: str, question: Callable[[str], tuple[T, ...] | Unanswered]
    ) -> tuple[T, ...]:
        note = f"{what} of namespace {namespace} are unknown"
        return self._ask(note, question, namespace) if self._exists(namespace) else ()
