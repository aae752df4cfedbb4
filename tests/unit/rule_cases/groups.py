"""Cases for the rules of this name's module."""

from __future__ import annotations

from tests.support.manifests import WORKER, WORKER_CONTAINER, WORKER_POD
from tests.support.rule_case import Case

ENV = f"{WORKER_CONTAINER}.env.2"
SIDECAR = {"name": "log-shipper", "image": "fluent/fluent-bit:3.1", "resources": {"limits": {"cpu": "1"}}}


CASES = (
    Case(
        "replicas-contradict",
        {f"{WORKER}.minReplicas": 5, f"{WORKER}.maxReplicas": 2, f"{WORKER}.replicas": "${N}"},
    ),
    Case(
        "ray-container-not-first",
        {f"{WORKER_POD}.containers": [SIDECAR, {"name": "trainer", "image": "rayproject/ray:2.58.0"}]},
        {
            f"{WORKER_POD}.containers": [
                {"name": "trainer", "image": "me/train:1"},
                {**SIDECAR, "name": "ray-log-collector"},
            ]
        },
    ),
    Case("containers-missing", {f"{WORKER_POD}.containers": []}),
    Case(
        "ray-container-not-first",
        {f"{WORKER_POD}.containers": [SIDECAR, {"name": "ray-worker", "image": "rayproject/ray:2.58.0"}]},
        {f"{WORKER_POD}.containers.1": SIDECAR},
    ),
    Case(
        "reserved-label-override",
        {f"{WORKER}.template.metadata.labels.[ray.io/group]": "x"},
        {f"{WORKER}.template.metadata.labels.[team]": "x"},
    ),
    Case(
        "operator-managed-env",
        {ENV: {"name": "RAY_CLUSTER_NAME", "value": "x"}},
        {ENV: {"name": "RAY_PORT", "value": "6379"}},
    ),
    Case(
        "group-resources-conflict",
        {f"{WORKER}.resources": {"CPU": "4"}},
        {f"{WORKER}.resources": {"CPU": "4"}, f"{WORKER}.rayStartParams": {}},
    ),
    Case("ray-labels-param", {f"{WORKER}.rayStartParams.labels": "a=b"}, {f"{WORKER}.labels": {"a": "b"}}),
    Case("replicas-contradict", {f"{WORKER}.minReplicas": 3}, {f"{WORKER}.minReplicas": 1}),
)
