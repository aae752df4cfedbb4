"""Cases for the rules of this name's module."""

from __future__ import annotations

import json
from typing import Any

from seatrial.check.reading import YamlDocument, documents
from seatrial.check.rule import Asked
from seatrial.check.values import Value
from tests.support.manifests import GONE, HEAD_CONTAINER, HEAD_POD, WORKER_CONTAINER, WORKER_POD, changed
from tests.support.rule_case import Case

CLAIM = "persistentVolumeClaim"
HEAD_VOLUME, WORKER_VOLUME = f"{HEAD_POD}.volumes.0", f"{WORKER_POD}.volumes.0"
WORKER_MOUNT = f"{WORKER_CONTAINER}.volumeMounts.0"
OTHER = {"name": "fsx", CLAIM: {"claimName": "other"}}
NO_ACCELERATORS = {f"{WORKER_CONTAINER}.resources.{side}.[nvidia.com/gpu]": GONE for side in ("limits", "requests")}


def at(path: str) -> dict[str, Any]:
    return {"asked": Asked(8, 1, path)}


def volumes(kind: str, source: object) -> dict[str, object]:
    """Something else than a claim at /fsx, on head and worker."""
    gone = {f"{volume}.{CLAIM}": GONE for volume in (HEAD_VOLUME, WORKER_VOLUME)}
    return {**gone, f"{HEAD_VOLUME}.{kind}": source, f"{WORKER_VOLUME}.{kind}": source}


def claim(*modes: str, storage_class: str = "gp3") -> dict[str, Any]:
    text = json.dumps({"spec": {"accessModes": modes, "storageClassName": storage_class}})
    document = next(documents(text.encode(), "claim.yaml"))
    assert isinstance(document, YamlDocument)
    return {"claims": {("ml", "fsx-claim"): Value.of(document.root, "claim.yaml")}}


def with_volume(driver: str) -> str:
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "runs"},
        "spec": {"csi": {"driver": driver}, "claimRef": {"name": "fsx-claim"}},
    }
    return f"{changed({})}\n---\n{json.dumps(volume)}"


CASES = (
    Case("no-shared-storage", volumes("emptyDir", {"sizeLimit": "9Gi"}), {}),
    Case("no-shared-storage", {WORKER_VOLUME: OTHER}, volumes("nfs", {"server": "a", "path": "/"})),
    Case("no-shared-storage", volumes("hostPath", {"path": "/dev/x"}), volumes("hostPath", {"path": "/mnt/fsx"})),
    Case(
        "no-shared-storage",
        volumes("csi", {"driver": "secrets-store.csi.k8s.io"}),
        {**volumes("emptyDir", {}), **NO_ACCELERATORS},
    ),
    Case("storage-path-local", {}, {}, facts=at("/tmp/runs"), right_facts=at("s3://bucket/runs")),
    Case("storage-path-local", {}, {}, facts=at("/fsxruns"), right_facts=at("/fsx")),
    Case("storage-path-local", {WORKER_MOUNT: GONE}, {}, facts=at("/fsx/runs")),
    Case(
        "storage-mount-differs",
        {WORKER_VOLUME: OTHER},
        {f"{WORKER_VOLUME}.{CLAIM}.readOnly": True},
        facts=at("/fsx/runs"),
    ),
    Case(
        "storage-mount-differs",
        {f"{WORKER_MOUNT}.subPath": "runs"},
        {f"{WORKER_MOUNT}.subPath": "runs", f"{WORKER_MOUNT}.mountPath": "/fsx/runs"},
        facts=at("/fsx/runs"),
    ),
    Case(
        "storage-mount-differs",
        {f"{WORKER_MOUNT}.mountPath": "/data"},
        {f"{WORKER_CONTAINER}.volumeMounts.3": {"name": "fsx", "mountPath": "/data", "subPath": "data"}},
    ),
    Case(
        "pvc-rwo-many-pods", {}, {}, facts=claim("ReadWriteOnce"), right_facts=claim("ReadWriteOnce", "ReadWriteMany")
    ),
    Case(
        "pvc-rwo-many-pods",
        {"metadata.namespace": GONE},
        {"metadata.namespace": "other"},
        facts=claim("ReadWriteOncePod", storage_class="efs"),
    ),
    Case(
        "pvc-readonly",
        {f"{WORKER_MOUNT}.readOnly": True},
        {f"{WORKER_CONTAINER}.volumeMounts.3": {"name": "fsx", "mountPath": "/data", "readOnly": True}},
        facts=at("/fsx/runs"),
    ),
    Case("pvc-readonly", {}, {}, facts={**at("/fsx"), **claim("ReadOnlyMany")}, right_facts=at("/fsx")),
    Case(
        "mountpoint-s3-checkpoints",
        with_volume("s3.csi.aws.com"),
        with_volume("fsx.csi.aws.com"),
        facts=at("/fsx/runs"),
    ),
    Case(
        "s3-no-identity",
        {f"{WORKER_POD}.serviceAccountName": GONE},
        {},
        facts=at("s3://bucket/runs"),
    ),
    Case(
        "s3-no-identity",
        {f"{HEAD_POD}.serviceAccountName": GONE, f"{HEAD_CONTAINER}.env.1": {"name": "DATA", "value": "s3://b/x"}},
        {f"{HEAD_POD}.serviceAccountName": GONE},
    ),
)
