"""A cluster out of recorded answers: what each path of the API says, in the API's own shape; and a port over it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from seatrial.kube.definitions import Definition, groups
from seatrial.kube.dry_run import Accepted, Rejected, rejected
from seatrial.kube.failures import Unanswered
from seatrial.kube.kuberay import Operator
from seatrial.kube.limits import Queue, Quota
from seatrial.kube.nodes import DaemonSet, Node
from seatrial.kube.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from tests.support.manifests import _parts, _set

T = TypeVar("T")
HERE = Path(__file__).parent
ML = "/api/v1/namespaces/ml"
NODES = "/api/v1/nodes"
DEPLOYMENTS = "/apis/apps/v1/deployments"
DAEMON_SETS = "/apis/apps/v1/daemonsets"
STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = f"{ML}/persistentvolumeclaims"
ACCOUNTS = f"{ML}/serviceaccounts"
QUOTAS = f"{ML}/resourcequotas"
QUEUES = "/apis/kueue.x-k8s.io/v1beta2/namespaces/ml/localqueues"
NODE_POOLS = "/apis/karpenter.sh/v1/nodepools"
AUTOSCALER = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD = f"{CRDS}/rayclusters.ray.io"
OPENAPI = "/openapi/v3/apis/ray.io/v1"
CREATE = "/apis/ray.io/v1/namespaces/ml/rayclusters"

_BASE = {
    "/apis": "apis",
    NODES: "nodes",
    DEPLOYMENTS: "deployments",
    DAEMON_SETS: "daemonsets",
    STORAGE_CLASSES: "storageclasses",
    VOLUMES: "persistentvolumes",
    CLAIMS: "persistentvolumeclaims",
    ACCOUNTS: "serviceaccounts",
    QUOTAS: "resourcequotas",
    QUEUES: "localqueues",
    ML: "namespace",
    CRD: "crd_rayclusters",
    f"{CRDS}/rayjobs.ray.io": "crd_rayjobs",
    OPENAPI: "openapi_ray",
}


def recorded(name: str) -> Any:
    """A recorded answer, fresh."""
    return json.loads((HERE / f"{name}.json").read_text())


def status(name: str) -> tuple[int, Any]:
    """A recorded Status with its code."""
    answer = recorded(f"status_{name}")
    return answer["code"], answer


def empty(kind: str = "List") -> tuple[int, Any]:
    return 200, {"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": "4711"}, "items": []}


@dataclass
class World:
    """Code and JSON by path; a path that is not here is answered 404. `posted` is what a dry run is answered with."""

    answers: dict[str, tuple[int, Any]] = field(
        default_factory=lambda: {p: (200, recorded(n)) for p, n in _BASE.items()}
    )
    posted: dict[tuple[str, str], tuple[int, Any]] = field(default_factory=dict)  # by method and path

    def set(self, path: str, changes: dict[str, Any]) -> World:
        """Changes in the answer of a path, each by `items.0.status.phase`."""
        content = copy.deepcopy(self.answers[path][1])
        for way, value in changes.items():
            _set(content, _parts(way), value)
        self.answers[path] = (200, content)
        return self

    def say(self, path: str, answer: tuple[int, Any]) -> World:
        self.answers[path] = answer
        return self

    def post(self, answer: tuple[int, Any], path: str = CREATE, method: str = "POST") -> World:
        self.posted[method, path] = answer
        return self

    def lose(self, path: str, name: str) -> World:
        """Removes an item of a list."""
        content = copy.deepcopy(self.answers[path][1])
        content["items"] = [item for item in content["items"] if item["metadata"]["name"] != name]
        return self.say(path, (200, content))

    def with_karpenter(self) -> World:
        """The API group karpenter.sh, and a NodePool."""
        group = {"groupVersion": "karpenter.sh/v1", "version": "v1"}
        entry = {"name": "karpenter.sh", "versions": [group], "preferredVersion": group}
        return self.set("/apis", {"groups.5": entry}).say(NODE_POOLS, (200, recorded("nodepools")))

    def get(self, path: str) -> tuple[int, Any]:
        if path in self.answers:
            return self.answers[path]
        return 404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}


@dataclass
class Recorded:
    """The port over a world, without HTTP."""

    world: World
    title: str = "recorded"
    namespace: str = "ml"

    def _get(self, path: str, parse: Callable[[Any], T]) -> T | Unanswered | None:
        code, content = self.world.get(path)
        if code == 404:
            return None
        if code == 200:
            return parse(content)
        return Unanswered(str(code), f"get {path}" if code == 403 else "", lost=code == 401)

    def _list(self, path: str, parse: Callable[[Any], T]) -> tuple[T, ...] | Unanswered:
        found = self._get(path, lambda content: tuple(parse(item) for item in content["items"]))
        return Unanswered("404") if found is None else found

    def dry_run(self, document: Any, namespace: str) -> Accepted | Rejected | Unanswered:
        path = f"/apis/{document['apiVersion']}/namespaces/{namespace}/{document['kind'].lower()}s"
        code, content = self.world.posted.get(("POST", path), (201, document))
        if code in (201, 409):
            return Accepted(exists=code == 409)
        return rejected(code, content) or Unanswered(str(code), f"create {path}")

    def definition(self, kind: str) -> Definition | Unanswered | None:
        return self._get(f"{CRDS}/{kind.lower()}s.ray.io", Definition.of)

    def operators(self) -> tuple[Operator, ...] | Unanswered:
        return self._list(DEPLOYMENTS, Operator.of)

    def autoscalers(self) -> tuple[str, ...] | Unanswered:
        found = self._list(NODE_POOLS, lambda item: f"NodePool {item['metadata']['name']}")
        return () if isinstance(found, Unanswered) and found.reason == "404" else found

    def nodes(self) -> tuple[Node, ...] | Unanswered:
        return self._list(NODES, Node.of)

    def daemon_sets(self) -> tuple[DaemonSet, ...] | Unanswered:
        return self._list(DAEMON_SETS, DaemonSet.of)

    def storage_classes(self) -> tuple[StorageClass, ...] | Unanswered:
        return self._list(STORAGE_CLASSES, StorageClass.of)

    def volumes(self) -> tuple[PersistentVolume, ...] | Unanswered:
        return self._list(VOLUMES, PersistentVolume.of)

    def namespace_phase(self, namespace: str) -> str | Unanswered | None:
        return self._get(f"/api/v1/namespaces/{namespace}", lambda item: str(item["status"]["phase"]))

    def claims(self, namespace: str) -> tuple[PersistentVolumeClaim, ...] | Unanswered:
        return self._list(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims", PersistentVolumeClaim.of)

    def service_accounts(self, namespace: str) -> tuple[str, ...] | Unanswered:
        return self._list(f"/api/v1/namespaces/{namespace}/serviceaccounts", lambda item: str(item["metadata"]["name"]))

    def queues(self, namespace: str) -> tuple[Queue, ...] | Unanswered | None:
        found = self._get("/apis", groups)
        if isinstance(found, dict) and "kueue.x-k8s.io" not in found:
            return None
        return self._list(QUEUES, Queue.of)

    def quotas(self, namespace: str) -> tuple[Quota, ...] | Unanswered:
        return self._list(f"/api/v1/namespaces/{namespace}/resourcequotas", Quota.of)
