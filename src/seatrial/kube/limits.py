"""What a namespace admits: resource quotas, and Kueue's queues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from seatrial.kube import Json
from seatrial.kube.apimachinery import quantities


@dataclass(frozen=True)
class Quota:
    """A ResourceQuota: amounts by key, `requests.cpu` or `limits.nvidia.com/gpu`."""

    name: str
    hard: Mapping[str, Fraction]
    used: Mapping[str, Fraction] = field(default_factory=dict)
    scoped: bool = False  # it counts only some of the pods

    @classmethod
    def of(cls, item: Json) -> Quota:
        spec, status = item["spec"], item.get("status") or {}
        scoped = bool(spec.get("scopes") or spec.get("scopeSelector"))
        return cls(item["metadata"]["name"], quantities(spec.get("hard")), quantities(status.get("used")), scoped)


@dataclass(frozen=True)
class Queue:
    """A Kueue LocalQueue. `inactive` says why nothing is admitted, empty where it is active."""

    name: str
    inactive: str

    @classmethod
    def of(cls, item: Json) -> Queue:
        """A queue without the condition Active counts as active."""
        conditions = (item.get("status") or {}).get("conditions") or ()
        against = [c for c in conditions if c["type"] == "Active" and c["status"] == "False"]
        return cls(item["metadata"]["name"], against[0].get("reason") or "not active" if against else "")
