"""What the input would create in a cluster: Ray resources, and resources that they refer to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from seatrial.check.manifest import Manifest, is_ray, unlisted
from seatrial.check.reading import documents
from seatrial.check.values import Value
from seatrial.errors import InputError

_NOWHERE = ("Namespace", "StorageClass", "PersistentVolume")  # kinds outside namespaces
_BESIDE = (*_NOWHERE, "ServiceAccount", "PersistentVolumeClaim", "LocalQueue")


@dataclass
class Given:
    """The resources of the input, added file by file."""

    manifests: list[Manifest] = field(default_factory=list)
    others: list[Value] = field(default_factory=list)

    def add(self, roots: Sequence[Value]) -> None:
        """The resources of one file."""
        beside = tuple(root for root in roots if not is_ray(root))
        self.manifests += [Manifest(root, beside) for root in roots if is_ray(root)]
        self.others += [root for root in beside if root["kind"].raw in _BESIDE]

    def add_bytes(self, raw: bytes, name: str) -> None:
        """The resources of a file without a Ray resource, which is not checked. Unreadable documents are left out."""
        if any(kind.encode() in raw for kind in _BESIDE):
            found = (item for item in documents(raw, name) if not isinstance(item, InputError))
            self.add([root for item in found for root in unlisted(item)])

    def find(self, kind: str, namespace: str, name: str, default: str) -> Value | None:
        """A resource beside the Ray resources; `default` is the namespace of those that name none."""
        for other in self.others:
            where = "" if kind in _NOWHERE else other.at("metadata", "namespace").raw or default
            if other["kind"].raw == kind and other.at("metadata", "name").raw == name and where == namespace:
                return other
        return None
