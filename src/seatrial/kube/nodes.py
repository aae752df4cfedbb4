"""Nodes, and the DaemonSets that run on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from seatrial.kube import Json
from seatrial.kube.apimachinery import quantities


@dataclass(frozen=True)
class Taint:
    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


_CORDONED = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


@dataclass(frozen=True)
class Node:
    """A node as the scheduler sees it, without the pods that run on it."""

    name: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, Fraction]  # CPUs, bytes, devices
    taints: tuple[Taint, ...] = ()
    ready: bool = True

    @classmethod
    def of(cls, item: Json) -> Node:
        """A Node of v1. A cordoned node has the taint for it at once, even before the controller adds it."""
        meta, spec, status = item["metadata"], item.get("spec") or {}, item["status"]
        taints = [Taint(t["key"], t.get("value") or "", t["effect"]) for t in spec.get("taints") or ()]
        if spec.get("unschedulable") and _CORDONED not in taints:
            taints.append(_CORDONED)
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ())
        allocatable = quantities(status.get("allocatable"))
        return cls(meta["name"], meta.get("labels") or {}, allocatable, tuple(taints), ready)


@dataclass(frozen=True)
class DaemonSet:
    namespace: str
    name: str
    images: tuple[str, ...]

    @classmethod
    def of(cls, item: Json) -> DaemonSet:
        containers = item["spec"]["template"]["spec"]["containers"]
        return cls(item["metadata"]["namespace"], item["metadata"]["name"], tuple(c["image"] for c in containers))
