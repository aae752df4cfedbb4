"""Cases for the rules of this name's module."""

from __future__ import annotations

from tests.support.manifests import GONE, HEAD_CONTAINER, WORKER, WORKER_CONTAINER, WORKER_POD
from tests.support.rule_case import Case

LIMITS, REQUESTS = f"{WORKER_CONTAINER}.resources.limits", f"{WORKER_CONTAINER}.resources.requests"
PARAMS = f"{WORKER}.rayStartParams"
SIDECAR = {"name": "log-shipper", "image": "fluent/fluent-bit:3.1"}


CASES = (
    Case("memory-tiny", {f"{LIMITS}.memory": "16000m"}, {f"{LIMITS}.memory": "16000Mi"}),
    Case("memory-tiny", {f"{REQUESTS}.memory": "16"}),
    Case("requests-exceed-limits", {f"{REQUESTS}.memory": "200Gi"}, {f"{REQUESTS}.memory": "100Gi"}),
    Case(
        "no-memory-limit",
        {f"{LIMITS}.memory": GONE},
        {f"{LIMITS}.memory": GONE, f"{WORKER}.resources": {"Memory": "16Gi"}},
    ),
    Case(
        "requests-ne-limits",
        {f"{REQUESTS}.memory": "100Gi", f"{REQUESTS}.cpu": "${A}", f"{LIMITS}.cpu": "${B}"},
        {f"{REQUESTS}.cpu": "${A}", f"{LIMITS}.cpu": "${A}"},
    ),
    Case("extended-resource-limits", {f"{LIMITS}.[nvidia.com/gpu]": GONE}, {f"{REQUESTS}.[nvidia.com/gpu]": GONE}),
    Case("no-memory-limit", {f"{LIMITS}.memory": GONE}, {f"{LIMITS}.memory": GONE, f"{PARAMS}.memory": str(100 << 30)}),
    Case(
        "no-cpu-limit",
        {f"{LIMITS}.cpu": GONE, f"{REQUESTS}.cpu": GONE},
        {f"{LIMITS}.cpu": GONE, f"{PARAMS}.num-cpus": "40"},
    ),
    Case("requests-ne-limits", {f"{REQUESTS}.memory": "100Gi"}, {f"{REQUESTS}.memory": "163840Mi"}),
    Case(
        "sidecar-resources-missing",
        {f"{WORKER_POD}.containers.1": SIDECAR},
        {f"{WORKER_POD}.containers.1": {**SIDECAR, "resources": {"limits": {"cpu": "1"}}}},
    ),
    Case(
        "init-container-gpu",
        {
            f"{WORKER_POD}.initContainers": [
                {"name": "warm", "image": "x:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}
            ]
        },
        {f"{WORKER_POD}.initContainers": [{"name": "warm", "image": "x:1", "resources": {"limits": {"cpu": 1}}}]},
    ),
    Case(
        "head-memory-small",
        {f"{HEAD_CONTAINER}.resources.limits.memory": "4Gi"},
        {f"{HEAD_CONTAINER}.resources.limits.memory": "8Gi"},
    ),
    Case("quantity-decimal-memory", {f"{LIMITS}.memory": "160G"}),
)
