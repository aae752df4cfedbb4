"""Cases for the rules of this name's module."""

from __future__ import annotations

from tests.support.manifests import GONE, HEAD_CONTAINER, WORKER, WORKER_CONTAINER, WORKER_POD
from tests.support.rule_case import Case

LIMITS = f"{WORKER_CONTAINER}.resources.limits"
HF_HOME = f"{WORKER_CONTAINER}.env.0"
HEAD_ALONE = {"spec.workerGroupSpecs": [], f"{HEAD_CONTAINER}.resources.limits.[nvidia.com/gpu]": "4"}
NO_DISK = {f"{HEAD_CONTAINER}.resources.{side}.ephemeral-storage": GONE for side in ("limits", "requests")}


CASES = (
    Case("hf-cache-local", {HF_HOME: {"name": "HF_HOME", "value": "/root/hf"}}, {}),
    Case(
        "hf-cache-local",
        {HF_HOME: {"name": "HF_TOKEN", "value": "x"}},
        {HF_HOME: {"name": "HF_HOME", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}},
    ),
    Case(
        "hf-cache-local",
        {HF_HOME: GONE},
        {HF_HOME: GONE, f"{WORKER_CONTAINER}.volumeMounts.0.mountPath": "/root/.cache"},
    ),
    Case("tmp-ray-on-root", {f"{WORKER_CONTAINER}.volumeMounts.2": GONE}),
    Case(
        "tmp-ray-on-root",
        {f"{WORKER}.rayStartParams": {"num-gpus": "4", "temp-dir": "/ray"}},
        {f"{WORKER}.rayStartParams": {"num-gpus": "4", "temp-dir": "/tmp/ray/x"}},
    ),
    Case(
        "tmp-ray-on-root",
        {f"{HEAD_CONTAINER}.volumeMounts.2": GONE},
        {f"{HEAD_CONTAINER}.volumeMounts.2": GONE, "spec.enableInTreeAutoscaling": True},
    ),
    Case(
        "tmp-ray-on-root",
        {**HEAD_ALONE, f"{HEAD_CONTAINER}.volumeMounts.2": GONE},
        {"spec.workerGroupSpecs": [], f"{HEAD_CONTAINER}.volumeMounts.2": GONE},
    ),
    Case(
        "no-ephemeral-storage",
        {**HEAD_ALONE, **NO_DISK},
        {"spec.workerGroupSpecs": [], **NO_DISK},
    ),
    Case(
        "tmp-ray-unbounded",
        {f"{WORKER_POD}.volumes.2.emptyDir": {}, f"{LIMITS}.ephemeral-storage": GONE},
        {f"{WORKER_POD}.volumes.2.emptyDir": {}},
    ),
    Case(
        "no-ephemeral-storage",
        {f"{WORKER_CONTAINER}.resources.{side}.ephemeral-storage": GONE for side in ("limits", "requests")},
        {f"{LIMITS}.ephemeral-storage": GONE},
    ),
    Case(
        "ephemeral-limit-lt-emptydir", {f"{LIMITS}.ephemeral-storage": "40Gi"}, {f"{LIMITS}.ephemeral-storage": "50Gi"}
    ),
    Case(
        "hostpath-volume",
        {f"{WORKER_POD}.volumes.3": {"name": "data", "hostPath": {"path": "/data"}}},
        {f"{WORKER_POD}.volumes.3": {"name": "nvme", "hostPath": {"path": "/mnt/k8s-disks/0"}}},
    ),
    Case(
        "hostpath-volume",
        {f"{WORKER_POD}.volumes.3": {"name": "shm", "hostPath": {"path": "/dev/shm"}}},
        {f"{WORKER_POD}.volumes.3": {"name": "ib", "hostPath": {"path": "/dev/infiniband"}}},  # infiniband-hostpath
    ),
)
