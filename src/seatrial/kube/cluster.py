"""The questions that a live cluster is asked, each an answer or `Unanswered`; those that only read, and dry runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar
from urllib.parse import quote

from seatrial.kube import Json
from seatrial.kube.definitions import Definition, groups, published
from seatrial.kube.dry_run import Accepted, Rejected, verdict
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
    """Asks the API server; a question is one request, some are a few.

    `title` is how messages name the cluster, `namespace` the one of the context, for resources that name none.
    """

    def __init__(self, api: ApiServer, title: str, namespace: str):
        self._api, self.title, self.namespace = api, title, namespace
        self._served: dict[str, list[str]] | Unanswered | None = None

    # What the cluster is

    def definition(self, kind: str) -> Definition | Unanswered | None:
        """The CRD of a kind of group ray.io, None where it is not installed.

        Where it may not be read it comes from OpenAPI, which every user may read.
        """
        crd = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind.lower()}s.ray.io"
        found = self._api.get(crd, "get customresourcedefinitions", Definition.of)
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
        return self._api.items("/apis/apps/v1/deployments", "list deployments", Operator.of, {"labelSelector": LABELS})

    def autoscalers(self) -> tuple[str, ...] | Unanswered:
        """What may add nodes, by name.

        Karpenter, and so EKS Auto Mode, by its NodePools; the Cluster Autoscaler by the status that it writes.
        """
        pools = self._of_group("karpenter.sh", "nodepools", "list nodepools.karpenter.sh", _name)
        if pools and not isinstance(pools, Unanswered):
            return tuple(f"Karpenter's NodePool {name}" for name in pools)
        path = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
        status = self._api.get(path, "get configmaps in namespace kube-system", _name)
        if isinstance(status, str):
            return ("the Cluster Autoscaler",)
        return next((answer for answer in (pools, status) if isinstance(answer, Unanswered)), ())

    def nodes(self) -> tuple[Node, ...] | Unanswered:
        return self._api.items("/api/v1/nodes", "list nodes", Node.of)

    def daemon_sets(self) -> tuple[DaemonSet, ...] | Unanswered:
        return self._api.items("/apis/apps/v1/daemonsets", "list daemonsets", DaemonSet.of)

    def storage_classes(self) -> tuple[StorageClass, ...] | Unanswered:
        return self._api.items("/apis/storage.k8s.io/v1/storageclasses", "list storageclasses", StorageClass.of)

    def volumes(self) -> tuple[PersistentVolume, ...] | Unanswered:
        return self._api.items("/api/v1/persistentvolumes", "list persistentvolumes", PersistentVolume.of)

    # What a namespace has

    def namespace_phase(self, namespace: str) -> str | Unanswered | None:
        """`Active` or `Terminating`; None where there is no such namespace."""
        path = f"/api/v1/namespaces/{_quoted(namespace)}"
        return self._api.get(path, "get namespaces", lambda item: str(item["status"].get("phase") or "Active"))

    def claims(self, namespace: str) -> tuple[PersistentVolumeClaim, ...] | Unanswered:
        return self._in(namespace, "persistentvolumeclaims", PersistentVolumeClaim.of)

    def service_accounts(self, namespace: str) -> tuple[str, ...] | Unanswered:
        return self._in(namespace, "serviceaccounts", _name)

    def quotas(self, namespace: str) -> tuple[Quota, ...] | Unanswered:
        return self._in(namespace, "resourcequotas", Quota.of)

    def queues(self, namespace: str) -> tuple[Queue, ...] | Unanswered | None:
        """Kueue's LocalQueues; None where Kueue is not installed."""
        path = f"namespaces/{_quoted(namespace)}/localqueues"
        needs = f"list localqueues.kueue.x-k8s.io in namespace {namespace}"
        return self._of_group("kueue.x-k8s.io", path, needs, Queue.of)

    def pods(self, namespace: str, selector: str) -> tuple[Pod, ...] | Unanswered:
        """The pods with these labels: `ray.io/cluster=NAME`."""
        return self._in(namespace, "pods", Pod.of, {"labelSelector": selector})

    def events(self, namespace: str, selector: str = "") -> tuple[KubernetesEvent, ...] | Unanswered:
        """Events, by a field selector such as `type=Warning`."""
        return self._in(namespace, "events", KubernetesEvent.of, {"fieldSelector": selector} if selector else None)

    def log(self, namespace: str, pod: str, container: str = "") -> str | Unanswered | None:
        """The last lines of a container; None where there is no such pod."""
        path = f"/api/v1/namespaces/{_quoted(namespace)}/pods/{_quoted(pod)}/log"
        query = {"tailLines": str(_LOG_LINES), **({"container": container} if container else {})}
        return self._api.text(path, f"get pods/log in namespace {namespace}", query)

    # KubeRay's resources

    def resource(self, kind: str, namespace: str, name: str) -> Json | Unanswered | None:
        """A resource of group ray.io as the cluster has it; None where there is none of that name."""
        needs = f"get {_plural(kind)}.ray.io in namespace {namespace}"
        return self._api.get(f"{_path(_RAY, namespace, kind)}/{_quoted(name)}", needs, dict)

    def names(self, kind: str, namespace: str) -> tuple[str, ...] | Unanswered:
        """The names of every resource of a kind of group ray.io in a namespace."""
        return self._api.items(
            _path(_RAY, namespace, kind), f"list {_plural(kind)}.ray.io in namespace {namespace}", _name
        )

    def dry_run(self, document: Json, namespace: str) -> Accepted | Rejected | Unanswered:
        """What becomes of a resource of group ray.io, by a server-side dry run with strict field validation.

        Create, and apply where one of that name is there already, so that one of the two permissions may do.
        """
        kind, name, api_version = document["kind"], document["metadata"].get("name"), document["apiVersion"]
        path = _path(api_version, namespace, kind)
        about = f"{_plural(kind)}.{api_version.partition('/')[0]} in namespace {namespace}"
        created = self._api.request("POST", path, {}, document)
        if isinstance(created, Unanswered) or created[0] != 409 or not name:
            return verdict(created, f"create {about}", exists=False)
        query = {"fieldManager": "seatrial", "force": "true"}
        applied = self._api.request("PATCH", f"{path}/{_quoted(name)}", query, document)
        return verdict(applied, f"patch {about}", exists=True)

    def _in(
        self, namespace: str, plural: str, parse: Callable[[Json], T], query: Mapping[str, str] | None = None
    ) -> tuple[T, ...] | Unanswered:
        """A list of the core API in a namespace."""
        path = f"/api/v1/namespaces/{_quoted(namespace)}/{plural}"
        return self._api.items(path, f"list {plural} in namespace {namespace}", parse, query)

    def _of_group(
        self, group: str, path: str, needs: str, parse: Callable[[Json], T]
    ) -> tuple[T, ...] | Unanswered | None:
        """A list of an API group that need not be there: None where it is not."""
        served = self._groups()
        if isinstance(served, Unanswered):
            return served
        if group not in served:
            return None
        return self._api.items(f"/apis/{group}/{served[group][0]}/{path}", needs, parse)

    def _groups(self) -> dict[str, list[str]] | Unanswered:
        """Every API group and its versions, the preferred one first."""
        if self._served is None:
            found = self._api.get("/apis", "get /apis", groups)
            self._served = Unanswered("404") if found is None else found
        return self._served


def _path(api_version: str, namespace: str, kind: str) -> str:
    """Where the resources of a kind are, for a kind whose plural is regular."""
    group, _, version = api_version.partition("/")
    return f"/apis/{group}/{_quoted(version)}/namespaces/{_quoted(namespace)}/{_plural(kind)}"


def _plural(kind: str) -> str:
    return f"{kind.lower()}s"


def _quoted(name: str) -> str:
    return quote(name, safe="")


def _name(item: Json) -> str:
    return str(item["metadata"]["name"])
