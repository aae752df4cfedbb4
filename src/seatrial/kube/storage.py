"""Storage classes, claims and volumes."""

from __future__ import annotations

from dataclasses import dataclass

from seatrial.kube import Json

_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


@dataclass(frozen=True)
class StorageClass:
    name: str
    default: bool
    waits: bool  # volumeBindingMode WaitForFirstConsumer: a claim stays Pending until a pod uses it

    @classmethod
    def of(cls, item: Json) -> StorageClass:
        annotations = item["metadata"].get("annotations") or {}
        default = any(annotations.get(key) == "true" for key in _DEFAULT_CLASS)
        return cls(item["metadata"]["name"], default, item.get("volumeBindingMode") == "WaitForFirstConsumer")


@dataclass(frozen=True)
class PersistentVolumeClaim:
    """A PersistentVolumeClaim; `document` is the whole of it."""

    name: str
    phase: str
    storage_class: str
    volume: str
    document: Json

    @classmethod
    def of(cls, item: Json) -> PersistentVolumeClaim:
        spec, status = item["spec"], item.get("status") or {}
        name, phase = item["metadata"]["name"], status.get("phase") or "Pending"
        document = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **item}  # the items of a list lack both
        return cls(name, phase, spec.get("storageClassName") or "", spec.get("volumeName") or "", document)


@dataclass(frozen=True)
class PersistentVolume:
    """A PersistentVolume; `terms` are the nodeSelectorTerms of its node affinity."""

    name: str
    storage_class: str
    terms: tuple[Json, ...]

    @classmethod
    def of(cls, item: Json) -> PersistentVolume:
        required = (item["spec"].get("nodeAffinity") or {}).get("required") or {}
        terms = tuple(required.get("nodeSelectorTerms") or ())
        return cls(item["metadata"]["name"], item["spec"].get("storageClassName") or "", terms)
