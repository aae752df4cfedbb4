"""The questions to a live cluster. Each gives an answer or `Unanswered`; nothing writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from seatrial.kube import Json
from seatrial.kube.collection import Collection
from seatrial.kube.definitions import Definition, groups, published
from seatrial.kube.dry_run import Accepted, Rejected, dry_run
from seatrial.kube.failures import Unanswered
from seatrial.kube.http import ApiServer
from seatrial.kube.kuberay import LABELS, Operator
from seatrial.kube.limits import Queue, Quota
from seatrial.kube.nodes import DaemonSet, Node
from seatrial.kube.pods import KubernetesEvent, Pod
from seatrial.kube.storage import PersistentVolume, PersistentVolumeClaim, StorageClass

T = TypeVar("T")
_RAY = "ray.io/v1"
_LOG_LINES = 200


class LiveCluster:
    """Asks the API server; most questions are one request.

    `title` names the cluster in messages. `namespace` is the context's, for resources that name none.
    """

    def __init__(self, api: ApiServer, title: str, namespace: str):
        self._api, self.title, self.namespace = api, title, namespace
        self._served: dict[str, list[str]] | Unanswered | None = None

    # The whole cluster

    def definition(self, kind: str) -> Definition | Unanswered | None:
        """The CRD of a kind of group ray.io, None where it is not installed.

        For a user who may not read CRDs it comes from OpenAPI, which every user may read.
        """
        crds = Collection("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        found = self._one(crds, f"{kind.lower()}s.ray.io", Definition.of)
        if not isinstance(found, Unanswered) or found.reason != "403":
            return found
        public = self._published(kind)
        return found if isinstance(public, Unanswered) else public

    def _published(self, kind: str) -> Definition | Unanswered | None:
        served = self._groups()
        if isinstance(served, Unanswered):
            return served
        versions = {}
        for version in served.get("ray.io", ()):
            path = f"/openapi/v3/apis/ray.io/{version}"
            schema = self._api.get(path, "get /openapi/v3", lambda document: published(document, kind))
            if isinstance(schema, Unanswered):
                return schema
            if schema is not None:
                versions[version] = schema
        return Definition(kind, versions) if versions else None

    def operators(self) -> tuple[Operator, ...] | Unanswered:
        """Every Deployment that is labelled as KubeRay's operator."""
        return self._list(Collection("apps/v1", "Deployment"), Operator.of, {"labelSelector": LABELS})

    def autoscalers(self) -> tuple[str, ...] | Unanswered:
        """The names of what may add nodes.

        A NodePool shows Karpenter, and so EKS Auto Mode; a status in a ConfigMap shows the Cluster Autoscaler.
        """
        pools = self._of_group("karpenter.sh", "NodePool", _name)
        if pools and not isinstance(pools, Unanswered):
            return tuple(f"Karpenter's NodePool {name}" for name in pools)
        status = self._one(Collection("v1", "ConfigMap", "kube-system"), "cluster-autoscaler-status", _name)
        if isinstance(status, str):
            return ("the Cluster Autoscaler",)
        return next((answer for answer in (pools, status) if isinstance(answer, Unanswered)), ())

    def nodes(self) -> tuple[Node, ...] | Unanswered:
        return self._list(Collection("v1", "Node"), Node.of)

    def daemon_sets(self) -> tuple[DaemonSet, ...] | Unanswered:
        return self._list(Collection("apps/v1", "DaemonSet"), DaemonSet.of)

    def storage_classes(self) -> tuple[StorageClass, ...] | Unanswered:
        return self._list(Collection("storage.k8s.io/v1", "StorageClass"), StorageClass.of)

    def volumes(self) -> tuple[PersistentVolume, ...] | Unanswered:
        return self._list(Collection("v1", "PersistentVolume"), PersistentVolume.of)

    # One namespace

    def namespace_phase(self, namespace: str) -> str | Unanswered | None:
        """`Active` or `Terminating`; None where there is no such namespace."""
        return self._one(
            Collection("v1", "Namespace"), namespace, lambda item: str(item["status"].get("phase") or "Active")
        )

    def claims(self, namespace: str) -> tuple[PersistentVolumeClaim, ...] | Unanswered:
        return self._list(Collection("v1", "PersistentVolumeClaim", namespace), PersistentVolumeClaim.of)

    def service_accounts(self, namespace: str) -> tuple[str, ...] | Unanswered:
        return self._list(Collection("v1", "ServiceAccount", namespace), _name)

    def quotas(self, namespace: str) -> tuple[Quota, ...] | Unanswered:
        return self._list(Collection("v1", "ResourceQuota", namespace), Quota.of)

    def queues(self, namespace: str) -> tuple[Queue, ...] | Unanswered | None:
        """Kueue's LocalQueues; None where Kueue is not installed."""
        return self._of_group("kueue.x-k8s.io", "LocalQueue", Queue.of, namespace)

    def pods(self, namespace: str, selector: str) -> tuple[Pod, ...] | Unanswered:
        """The pods with these labels: `ray.io/cluster=NAME`."""
        return self._list(Collection("v1", "Pod", namespace), Pod.of, {"labelSelector": selector})

    def events(self, namespace: str, selector: str = "") -> tuple[KubernetesEvent, ...] | Unanswered:
        """Events, by a field selector such as `type=Warning`."""
        query = {"fieldSelector": selector} if selector else None
        return self._list(Collection("v1", "Event", namespace), KubernetesEvent.of, query)

    def log(self, namespace: str, pod: str, container: str = "") -> str | Unanswered | None:
        """The last lines of a container; None where there is no such pod."""
        pods = Collection("v1", "Pod", namespace)
        query = {"tailLines": str(_LOG_LINES), **({"container": container} if container else {})}
        return self._api.text(pods.member(pod, "log"), pods.needs("get", "log"), query)

    # KubeRay's resources

    def resource(self, kind: str, namespace: str, name: str) -> Json | Unanswered | None:
        """A resource of group ray.io as the cluster has it; None where there is none of that name."""
        return self._one(Collection(_RAY, kind, namespace), name, dict)

    def names(self, kind: str, namespace: str) -> tuple[str, ...] | Unanswered:
        """The names of every resource of a kind of group ray.io in a namespace."""
        return self._list(Collection(_RAY, kind, namespace), _name)

    def dry_run(self, document: Json, namespace: str) -> Accepted | Rejected | Unanswered:
        """What becomes of a resource, by a server-side dry run with strict field validation."""
        return dry_run(self._api, document, namespace)

    def _one(self, of: Collection, name: str, parse: Callable[[Json], T]) -> T | Unanswered | None:
        return self._api.get(of.member(name), of.needs("get"), parse)

    def _list(
        self, of: Collection, parse: Callable[[Json], T], query: Mapping[str, str] | None = None
    ) -> tuple[T, ...] | Unanswered:
        return self._api.items(of.path, of.needs("list"), parse, query)

    def _of_group(
        self, group: str, kind: str, parse: Callable[[Json], T], namespace: str = ""
    ) -> tuple[T, ...] | Unanswered | None:
        """A list of an API group that may be missing: None where it is."""
        served = self._groups()
        if isinstance(served, Unanswered):
            return served
        if group not in served:
            return None
        return self._list(Collection(f"{group}/{served[group][0]}", kind, namespace), parse)

    def _groups(self) -> dict[str, list[str]] | Unanswered:
        """Every API group and its versions, the preferred one first."""
        if self._served is None:
            found = self._api.get("/apis", "get /apis", groups)
            self._served = Unanswered("404") if found is None else found
        return self._served


def _name(item: Json) -> str:
    return str(item["metadata"]["name"])
