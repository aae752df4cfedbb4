"""An existing RayJob or RayCluster: its pods and their images, its events, what KubeRay makes of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Protocol

from seatrial.check.effective import lines
from seatrial.check.manifest import Manifest, unlisted
from seatrial.check.operator import DEFAULT_KUBERAY
from seatrial.check.reading import documents
from seatrial.errors import InputError, clean
from seatrial.kube import Json
from seatrial.kube.connect import connect
from seatrial.kube.failures import Unanswered
from seatrial.kube.pods import KubernetesEvent, Pod

KINDS = {"rayjob": "RayJob", "raycluster": "RayCluster"}
_SHOWN_EVENTS = 50
_STATUS = {
    "RayJob": (
        "jobId",
        "jobStatus",
        "jobDeploymentStatus",
        "message",
        "reason",
        "failed",
        "rayClusterName",
        "startTime",
    ),
    "RayCluster": ("state", "reason", "readyWorkerReplicas", "desiredWorkerReplicas", "head"),
}


class ResourceApi(Protocol):
    """What `seatrial inspect` needs of a cluster, as `seatrial.kube.cluster` gives it. It only reads."""

    @property
    def title(self) -> str:
        """How messages name it."""

    @property
    def namespace(self) -> str:
        """The namespace where none is given."""

    def pods(self, namespace: str, selector: str) -> tuple[Pod, ...] | Unanswered: ...

    def events(self, namespace: str, selector: str = "") -> tuple[KubernetesEvent, ...] | Unanswered: ...

    def resource(self, kind: str, namespace: str, name: str) -> Json | Unanswered | None:
        """A RayJob or RayCluster as the cluster has it; None where there is none of that name."""

    def names(self, kind: str, namespace: str) -> tuple[str, ...] | Unanswered:
        """Every RayJob or RayCluster of a namespace."""


@dataclass(frozen=True)
class Resource:
    """What the Kubernetes API said. `job` is the submission id of a RayJob that has started, else empty."""

    name: str
    job: str
    seen: dict[str, Any]
    how_to_reach: str


def look_up(text: str, namespace: str, context: str, api: ResourceApi | None = None) -> Resource:
    """Asks for a resource, `rayjob/NAME` or `raycluster/NAME`. Raises InputError where the cluster gives none."""
    kind, name = _parsed(text)
    api = api or connect(context)
    namespace = namespace or api.namespace
    item = _get(api, kind, namespace, name)
    status = item.get("status") or {}
    cluster, job = name, ""
    if kind == "RayJob":
        cluster, job = str(status.get("rayClusterName") or ""), str(status.get("jobId") or "")
    seen: dict[str, Any] = {
        "resource": f"{kind} {namespace}/{name}",
        "cluster": api.title,
        "status": {key: status[key] for key in _STATUS[kind] if key in status},
        "ray_cluster": cluster,
        **_pods(api, namespace, cluster),
        **_effective(item, kind),
    }
    seen |= _events(api, namespace, {name, cluster, *(pod["name"] for pod in seen["pods"])})
    return Resource(name, job, seen, _how(api, kind, namespace, cluster, item))


def _parsed(text: str) -> tuple[str, str]:
    kind, slash, name = text.partition("/")
    kind = kind.lower().removesuffix(".ray.io").removesuffix("s")
    if kind not in KINDS or not slash or not name:
        raise InputError(f'saw "{clean(text)}"', field="resource", expected="rayjob/NAME or raycluster/NAME")
    return KINDS[kind], name


def _get(api: ResourceApi, kind: str, namespace: str, name: str) -> Json:
    item = api.resource(kind, namespace, name)
    if isinstance(item, Unanswered):
        raise InputError(f"{clean(api.title, 160)} does not tell: {item}", field="resource")
    if item is not None:
        return item
    names = api.names(kind, namespace)
    known = () if isinstance(names, Unanswered) else names
    close = get_close_matches(name, known, n=1, cutoff=0.6)
    listed = f"there are {', '.join(known[:5])}" if known else "there is none"
    hint = f"did you mean {close[0]}?" if close else listed
    raise InputError(f"no {kind} {clean(name)} in namespace {clean(namespace)}", field="resource", fix=hint)


def _pods(api: ResourceApi, namespace: str, cluster: str) -> dict[str, Any]:
    if not cluster:
        return {"pods": [], "unknown": "the RayJob has no cluster yet"}
    pods = api.pods(namespace, f"ray.io/cluster={cluster}")
    if isinstance(pods, Unanswered):
        return {"pods": [], "unknown": f"the pods could not be listed: {pods}"}
    if not pods:
        return {"pods": [], "unknown": f"Ray cluster {cluster} has no pods now"}
    return {"pods": [pod.json() for pod in pods]}


def _events(api: ResourceApi, namespace: str, names: set[str]) -> dict[str, Any]:
    """Warnings about the resource, its Ray cluster and its pods. Kubernetes keeps them for an hour."""
    events = api.events(namespace, "type=Warning")
    if isinstance(events, Unanswered):
        return {"warnings": {"unknown": str(events)}}
    own = [event for event in events if event.about.partition("/")[2] in names]
    own.sort(key=lambda event: event.last, reverse=True)
    return {"warnings": [event.json() for event in own[:_SHOWN_EVENTS]]}


def _effective(item: Json, kind: str) -> dict[str, Any]:
    """What KubeRay derives from the resource, as `seatrial check --effective` shows it."""
    meta = {key: item["metadata"].get(key) for key in ("name", "namespace", "labels", "annotations")}
    document = {"apiVersion": item.get("apiVersion") or "ray.io/v1", "kind": kind, "metadata": meta}
    text = json.dumps({**document, "spec": item["spec"]}).encode()
    (read,) = documents(text, f"{kind} {meta['name']}")
    roots = [] if isinstance(read, InputError) else list(unlisted(read))
    if not roots:
        return {"effective_unknown": "the resource cannot be read as a manifest"}
    derived = [
        {"part": line.part, "name": line.name, "value": line.value, "reason": line.reason}
        for line in lines(Manifest(roots[0]), DEFAULT_KUBERAY)
    ]
    return {"effective": derived, "kuberay_assumed": DEFAULT_KUBERAY}


def _how(api: ResourceApi, kind: str, namespace: str, cluster: str, item: Json) -> str:
    """The commands that show the rest."""
    holder = item if kind == "RayCluster" else api.resource("RayCluster", namespace, cluster) if cluster else None
    head = {} if holder is None or isinstance(holder, Unanswered) else (holder.get("status") or {}).get("head") or {}
    service = head.get("serviceName") or (f"{cluster}-head-svc" if cluster else "")
    if not service:
        return "there is no Ray cluster yet to look into"
    forward = f"kubectl -n {namespace} port-forward service/{service} 8265"
    look = f"seatrial inspect {kind.lower()}/{item['metadata']['name']} -n {namespace} --address http://localhost:8265"
    return f"`{forward}` and `{look}` show the processes too"
