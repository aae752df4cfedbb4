"""Cases for the rules of this name's module."""

from __future__ import annotations

from tests.support.manifests import GONE, WORKER, WORKER_CONTAINER, WORKER_POD
from tests.support.rule_case import Case

SHM = f"{WORKER_POD}.volumes.1.emptyDir"
PARAMS = f"{WORKER}.rayStartParams"
NO_SHM = {f"{WORKER_POD}.volumes.1": GONE, f"{WORKER_CONTAINER}.volumeMounts.1": GONE}
ENV = f"{WORKER_CONTAINER}.env.2"

CASES = (
    Case("shm-not-memory", {f"{WORKER_POD}.volumes.1": {"name": "dshm", "hostPath": {"path": "/dev/shm"}}}),
    Case("shm-not-memory", {f"{SHM}.medium": GONE}),
    Case("shm-exceeds-memory-limit", {f"{SHM}.sizeLimit": "161Gi"}, {f"{SHM}.sizeLimit": "160Gi"}),
    Case("shm-no-sizelimit", {f"{SHM}.sizeLimit": GONE}, NO_SHM),
    Case("shm-smaller-than-object-store", {f"{SHM}.sizeLimit": "8Gi"}, {f"{SHM}.sizeLimit": "20Gi"}),
    Case(
        "object-store-plus-heap",
        {f"{PARAMS}.object-store-memory": str(81 << 30)},
        {f"{PARAMS}.object-store-memory": str(40 << 30)},
    ),
    Case(
        "plasma-directory-set",
        {**NO_SHM, f"{PARAMS}.plasma-directory": "/nvme"},
        {f"{PARAMS}.plasma-directory": "/nvme"},
    ),
    Case(
        "allow-slow-storage",
        {ENV: {"name": "RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE", "value": "1"}},
        {ENV: {"name": "RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE", "value": "0"}},
    ),
    Case(
        "ray-oom-monitor-disabled",
        {ENV: {"name": "RAY_memory_monitor_refresh_ms", "value": "0"}},
        {ENV: {"name": "RAY_memory_monitor_refresh_ms", "value": "250"}},
    ),
    Case(
        "shm-volume-name-clash",
        {
            f"{WORKER_CONTAINER}.volumeMounts.1": GONE,
            f"{WORKER_POD}.volumes.1": {"name": "shared-mem", "configMap": {"name": "x"}},
        },
        {
            f"{WORKER_CONTAINER}.volumeMounts.1": GONE,
            f"{WORKER_POD}.volumes.1": {"name": "shared-mem", "emptyDir": {"medium": "Memory", "sizeLimit": "54Gi"}},
        },
    ),
    Case("shm-tiny", {f"{SHM}.sizeLimit": "512Mi"}, {f"{SHM}.sizeLimit": "1Gi"}),
)
