"""The Kubernetes API as this project needs it for what runs: pods, events, KubeRay's resources, logs. Only reads.

Over HTTP with the credentials of a kubeconfig context, or of the pod that this runs in. An answer is a value or
`Unanswered`: no permission, no connection and a time-out are reasons, never exceptions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol
from urllib.parse import quote

from seatrial.check.server.port import Unanswered
from seatrial.check.server.transport import Transport
from seatrial.errors import InputError, clean

Json = Mapping[str, Any]
TIMEOUT_S = 10.0
KINDS = {"rayjob": "RayJob", "raycluster": "RayCluster"}
VERSION = "ray.io/v1"
_LOG_LINES = 200


@dataclass(frozen=True)
class Pod:
    """A pod of a Ray cluster by its Ray container, which is the first one. `image_id` is what the node pulled."""

    name: str
    node: str
    ip: str
    phase: str
    type: str  # head | worker | submitter, empty where no label says it
    group: str
    image: str
    image_id: str
    ready: bool
    restarts: int

    def json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Event:
    """Something that happened to an object, `last` time (RFC 3339) of `count`."""

    about: str  # kind/name
    type: str  # Normal | Warning
    reason: str
    message: str
    count: int
    last: str

    def json(self) -> dict[str, Any]:
        return asdict(self)


class Port(Protocol):
    """A Kubernetes cluster that can be asked."""

    @property
    def title(self) -> str:
        """How messages name it."""

    @property
    def namespace(self) -> str:
        """The namespace where none is given."""

    def pods(self, namespace: str, selector: str) -> tuple[Pod, ...] | Unanswered: ...

    def events(self, namespace: str, selector: str = "") -> tuple[Event, ...] | Unanswered: ...

    def resource(self, kind: str, namespace: str, name: str) -> Json | Unanswered | None:
        """A RayJob or RayCluster as the cluster has it; None where there is none of that name."""

    def names(self, kind: str, namespace: str) -> tuple[str, ...] | Unanswered:
        """Every RayJob or RayCluster of a namespace."""

    def log(self, namespace: str, pod: str, container: str = "") -> str | Unanswered | None:
        """The last lines of a container; None where there is no such pod."""


def connect(context: str = "", timeout_s: float = TIMEOUT_S) -> LiveCluster:
    """The cluster of a kubeconfig context, the current one by default; within a pod that cluster's own.

    Raises InputError where there is no client, or no such context.
    """
    try:
        from kubernetes import client, config
    except ImportError:
        fix = "pip install 'seatrial[kubernetes]'"
        raise InputError("kubernetes is not installed", field="--context", fix=fix) from None
    where = os.environ.get("KUBECONFIG") or "~/.kube/config"
    try:
        if not context and "KUBERNETES_SERVICE_HOST" in os.environ and not _there(where):
            found = client.Configuration()
            config.load_incluster_config(client_configuration=found)
            api, name, namespace = client.ApiClient(found), "the pod's own cluster", _own_namespace()
        else:
            every, active = config.list_kube_config_contexts(config_file=where)
            chosen = active if not context else next((each for each in every if each["name"] == context), None)
            if chosen is None:
                known = ", ".join(str(each["name"]) for each in every[:10])
                raise InputError(f"there is no context {clean(context)}", field="--context", expected=f"one of {known}")
            api = config.new_client_from_config(config_file=where, context=chosen["name"], persist_config=False)
            name, namespace = chosen["name"], chosen["context"].get("namespace") or "default"
    except InputError:
        raise
    except Exception as error:  # the client lets YAML's, the file's and its own errors through
        seen = f"no cluster to ask: {clean(' '.join(str(error).split()), 160)}"
        fix = "set KUBECONFIG, or choose one with --context"
        raise InputError(seen, field="--context", expected=f"a context in {clean(where, 160)}", fix=fix) from None
    host = re.sub("//[^/@]*@", "//", api.configuration.host)  # a password may stand there
    return LiveCluster(api, f"{name} at {host}", namespace, timeout_s)


def _there(where: str) -> bool:
    return any(os.path.exists(os.path.expanduser(path)) for path in where.split(os.pathsep))


def _own_namespace() -> str:
    with open("/var/run/secrets/kubernetes.io/serviceaccount/namespace", encoding="utf-8") as file:
        return file.read().strip()


class LiveCluster:
    """Asks an API server. A list that expires between its pages (410) is asked for again, in one piece."""

    def __init__(self, client: Any, title: str, namespace: str, timeout_s: float = TIMEOUT_S):
        self._api, self.title, self.namespace = Transport(client, timeout_s), title, namespace

    def pods(self, namespace: str, selector: str) -> tuple[Pod, ...] | Unanswered:
        path, needs = f"/api/v1/namespaces/{_quoted(namespace)}/pods", f"list pods in namespace {namespace}"
        return self._api.items(path, needs, _pod, {"labelSelector": selector})

    def events(self, namespace: str, selector: str = "") -> tuple[Event, ...] | Unanswered:
        path, needs = f"/api/v1/namespaces/{_quoted(namespace)}/events", f"list events in namespace {namespace}"
        return self._api.items(path, needs, _event, {"fieldSelector": selector} if selector else None)

    def resource(self, kind: str, namespace: str, name: str) -> Json | Unanswered | None:
        needs = f"get {kind.lower()}s.ray.io in namespace {namespace}"
        return self._api.get(f"{_ray(kind, namespace)}/{_quoted(name)}", needs, dict)

    def names(self, kind: str, namespace: str) -> tuple[str, ...] | Unanswered:
        needs = f"list {kind.lower()}s.ray.io in namespace {namespace}"
        return self._api.items(_ray(kind, namespace), needs, lambda item: str(item["metadata"]["name"]))

    def log(self, namespace: str, pod: str, container: str = "") -> str | Unanswered | None:
        path = f"/api/v1/namespaces/{_quoted(namespace)}/pods/{_quoted(pod)}/log"
        query = {"tailLines": str(_LOG_LINES), **({"container": container} if container else {})}
        return self._api.text(path, f"get pods/log in namespace {namespace}", query)


def _ray(kind: str, namespace: str) -> str:
    return f"/apis/{VERSION}/namespaces/{_quoted(namespace)}/{kind.lower()}s"


def _quoted(name: str) -> str:
    return quote(name, safe="")


def _pod(item: Json) -> Pod:
    """A Pod of v1. A container that has not started has no imageID, or an empty one."""
    meta, spec, status = item["metadata"], item["spec"], item.get("status") or {}
    labels, container = meta.get("labels") or {}, spec["containers"][0]
    told: Json = next((s for s in status.get("containerStatuses") or () if s["name"] == container["name"]), {})
    return Pod(
        name=meta["name"],
        node=spec.get("nodeName") or "",
        ip=status.get("podIP") or "",
        phase=status.get("phase") or "",
        type=labels.get("ray.io/node-type") or "",
        group=labels.get("ray.io/group") or "",
        image=container.get("image") or "",
        image_id=(told.get("imageID") or "").removeprefix("docker-pullable://"),
        ready=bool(told.get("ready")),
        restarts=int(told.get("restartCount") or 0),
    )


def _event(item: Json) -> Event:
    """An Event of v1; the newer API keeps count and times in `series` and `eventTime`."""
    about, series = item["involvedObject"], item.get("series") or {}
    last = item.get("lastTimestamp") or series.get("lastObservedTime") or item.get("eventTime") or ""
    return Event(
        about=f"{about.get('kind', '')}/{about.get('name', '')}",
        type=item.get("type") or "",
        reason=item.get("reason") or "",
        message=item.get("message") or "",
        count=int(item.get("count") or series.get("count") or 1),
        last=str(last),
    )
