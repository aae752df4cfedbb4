"""The port over a live cluster: the one of the current kubeconfig context, as the `kubernetes` client reads it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote

from seatrial.check.server import answers
from seatrial.check.server.answers import Json
from seatrial.check.server.port import (
    Accepted,
    Claim,
    DaemonSet,
    Definition,
    Node,
    Operator,
    Queue,
    Quota,
    Rejected,
    StorageClass,
    Unanswered,
    Volume,
)
from seatrial.check.server.transport import Transport, parsed, refused
from seatrial.errors import InputError, clean

T = TypeVar("T")
TIMEOUT_S = 10.0
_OPERATOR = "app.kubernetes.io/name in (kuberay-operator,kuberay)"  # labels of KubeRay's Helm chart and kustomization


def connect(timeout_s: float = TIMEOUT_S) -> LiveCluster:
    """The cluster of the current kubeconfig context. Raises InputError where there is no client or no context."""
    try:
        from kubernetes import config
    except ImportError:
        fix = "pip install 'seatrial[kubernetes]'"
        raise InputError("kubernetes is not installed", field="--server", fix=fix) from None
    where = os.environ.get("KUBECONFIG") or "~/.kube/config"
    try:
        _, active = config.list_kube_config_contexts(config_file=where)
        client = config.new_client_from_config(config_file=where, context=active["name"], persist_config=False)
        namespace = active["context"].get("namespace") or "default"
    except Exception as error:  # the client lets YAML's, the file's and its own errors through
        seen = f"no cluster to ask: {clean(' '.join(str(error).split()), 160)}"
        expected = f"a current context in {clean(where, 160)}"
        fix = "set KUBECONFIG, or choose one with `kubectl config use-context`"
        raise InputError(seen, field="--server", expected=expected, fix=fix) from None
    host = re.sub("//[^/@]*@", "//", client.configuration.host)  # a password may stand there
    return LiveCluster(client, f"{active['name']} at {host}", namespace, timeout_s)


class LiveCluster:
    """Asks the API server; a question is one request, some are a few. `title` and `namespace` are the context's."""

    def __init__(self, client: Any, title: str, namespace: str, timeout_s: float):
        self._api, self.title, self.namespace = Transport(client, timeout_s), title, namespace
        self._served: dict[str, list[str]] | Unanswered | None = None

    def dry_run(self, document: Json, namespace: str) -> Accepted | Rejected | Unanswered:
        """Create, and apply where one of that name is there already, so that one of the two permissions may do."""
        kind, name = document["kind"], document["metadata"].get("name")
        group, _, version = document["apiVersion"].partition("/")
        plural = f"{kind.lower()}s"
        path = f"/apis/{group}/{_quoted(version)}/namespaces/{_quoted(namespace)}/{plural}"
        about = f"{plural}.{group} in namespace {namespace}"
        created = self._api.request("POST", path, {}, document)
        if isinstance(created, Unanswered) or created[0] != 409 or not name:
            return _verdict(created, f"create {about}", exists=False)
        query = {"fieldManager": "seatrial", "force": "true"}
        applied = self._api.request("PATCH", f"{path}/{_quoted(name)}", query, document)
        return _verdict(applied, f"patch {about}", exists=True)

    def definition(self, kind: str) -> Definition | Unanswered | None:
        """From the CRD; where that may not be read from OpenAPI, which every user may."""
        crd = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind.lower()}s.ray.io"
        found = self._api.get(crd, "get customresourcedefinitions", answers.definition)
        if not isinstance(found, Unanswered) or found.reason != "403":
            return found
        published = self._published(kind)
        return found if isinstance(published, Unanswered) else published

    def _published(self, kind: str) -> Definition | Unanswered | None:
        groups = self._groups()
        if isinstance(groups, Unanswered):
            return groups
        versions = {}
        for version in groups.get("ray.io", ()):
            path = f"/openapi/v3/apis/ray.io/{version}"
            schema = self._api.get(path, "get /openapi/v3", lambda document: answers.published(document, kind))
            if isinstance(schema, Unanswered):
                return schema
            if schema is not None:
                versions[version] = schema
        return Definition(kind, versions) if versions else None

    def operators(self) -> tuple[Operator, ...] | Unanswered:
        path, query = "/apis/apps/v1/deployments", {"labelSelector": _OPERATOR}
        return self._api.items(path, "list deployments", answers.operator, query)

    def autoscalers(self) -> tuple[str, ...] | Unanswered:
        """Karpenter, and so EKS Auto Mode, by its NodePools; the Cluster Autoscaler by the status that it writes."""
        pools = self._of_group("karpenter.sh", "nodepools", "list nodepools.karpenter.sh", _name)
        if pools and not isinstance(pools, Unanswered):
            return tuple(f"Karpenter's NodePool {name}" for name in pools)
        path = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
        status = self._api.get(path, "get configmaps in namespace kube-system", _name)
        if isinstance(status, str):
            return ("the Cluster Autoscaler",)
        return next((answer for answer in (pools, status) if isinstance(answer, Unanswered)), ())

    def nodes(self) -> tuple[Node, ...] | Unanswered:
        return self._api.items("/api/v1/nodes", "list nodes", answers.node)

    def daemon_sets(self) -> tuple[DaemonSet, ...] | Unanswered:
        return self._api.items("/apis/apps/v1/daemonsets", "list daemonsets", answers.daemon_set)

    def storage_classes(self) -> tuple[StorageClass, ...] | Unanswered:
        path = "/apis/storage.k8s.io/v1/storageclasses"
        return self._api.items(path, "list storageclasses", answers.storage_class)

    def volumes(self) -> tuple[Volume, ...] | Unanswered:
        return self._api.items("/api/v1/persistentvolumes", "list persistentvolumes", answers.volume)

    def namespace_phase(self, namespace: str) -> str | Unanswered | None:
        path = f"/api/v1/namespaces/{_quoted(namespace)}"
        return self._api.get(path, "get namespaces", lambda item: str(item["status"].get("phase") or "Active"))

    def claims(self, namespace: str) -> tuple[Claim, ...] | Unanswered:
        return self._in(namespace, "persistentvolumeclaims", answers.claim)

    def service_accounts(self, namespace: str) -> tuple[str, ...] | Unanswered:
        return self._in(namespace, "serviceaccounts", _name)

    def quotas(self, namespace: str) -> tuple[Quota, ...] | Unanswered:
        return self._in(namespace, "resourcequotas", answers.quota)

    def queues(self, namespace: str) -> tuple[Queue, ...] | Unanswered | None:
        path = f"namespaces/{_quoted(namespace)}/localqueues"
        needs = f"list localqueues.kueue.x-k8s.io in namespace {namespace}"
        return self._of_group("kueue.x-k8s.io", path, needs, answers.queue)

    def _in(self, namespace: str, plural: str, parse: Callable[[Json], T]) -> tuple[T, ...] | Unanswered:
        path = f"/api/v1/namespaces/{_quoted(namespace)}/{plural}"
        return self._api.items(path, f"list {plural} in namespace {namespace}", parse)

    def _of_group(
        self, group: str, path: str, needs: str, parse: Callable[[Json], T]
    ) -> tuple[T, ...] | Unanswered | None:
        """A list of an API group that need not be there: None where it is not."""
        groups = self._groups()
        if isinstance(groups, Unanswered):
            return groups
        if group not in groups:
            return None
        return self._api.items(f"/apis/{group}/{groups[group][0]}/{path}", needs, parse)

    def _groups(self) -> dict[str, list[str]] | Unanswered:
        """Every API group and its versions, the preferred one first."""
        if self._served is None:
            found = self._api.get("/apis", "get /apis", answers.groups)
            self._served = Unanswered("404") if found is None else found
        return self._served


def _verdict(
    given: tuple[int, Json | None] | Unanswered, needs: str, *, exists: bool
) -> Accepted | Rejected | Unanswered:
    if isinstance(given, Unanswered):
        return given
    code, answer = given
    if code in (200, 201):
        return parsed(lambda _: Accepted(exists), answer)
    if answer is None or answer.get("kind") != "Status":
        return refused(code, needs)
    found = parsed(lambda status: answers.rejected(code, status), answer)
    if found is None and (code == 400 or code >= 500):  # a webhook that knows no dry run, or does not answer
        return Unanswered(f"{code}: {clean(str(answer.get('message')), 200)}")
    return found or refused(code, needs)


def _quoted(name: str) -> str:
    return quote(name, safe="")


def _name(item: Json) -> str:
    return str(item["metadata"]["name"])
