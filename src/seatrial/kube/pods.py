"""Pods of a Ray cluster, and events."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from seatrial.kube import Json


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

    @classmethod
    def of(cls, item: Json) -> Pod:
        """A Pod of v1. A container that has not started has no imageID, or an empty one."""
        meta, spec, status = item["metadata"], item["spec"], item.get("status") or {}
        labels, container = meta.get("labels") or {}, spec["containers"][0]
        told: Json = next((s for s in status.get("containerStatuses") or () if s["name"] == container["name"]), {})
        return cls(
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

    def json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class KubernetesEvent:
    """Something that happened to an object `count` times; `last` is a time in RFC 3339."""

    about: str  # kind/name
    type: str  # Normal | Warning
    reason: str
    message: str
    count: int
    last: str

    @classmethod
    def of(cls, item: Json) -> KubernetesEvent:
        """An Event of v1; the newer API keeps count and times in `series` and `eventTime`."""
        about, series = item["involvedObject"], item.get("series") or {}
        last = item.get("lastTimestamp") or series.get("lastObservedTime") or item.get("eventTime") or ""
        return cls(
            about=f"{about.get('kind', '')}/{about.get('name', '')}",
            type=item.get("type") or "",
            reason=item.get("reason") or "",
            message=item.get("message") or "",
            count=int(item.get("count") or series.get("count") or 1),
            last=str(last),
        )

    def json(self) -> dict[str, Any]:
        return asdict(self)
