"""Cases for the rules of this name's module."""

from __future__ import annotations

from tests.support.manifests import GONE, HEAD, HEAD_CONTAINER, HEAD_POD, WORKER_CONTAINER, WORKER_POD
from tests.support.rule_case import Case

_PROBE = f"{WORKER_CONTAINER}.livenessProbe"
_SLEEPS = {"preStop": {"exec": {"command": ["/bin/sh", "-c", "sleep 2m; ray stop"]}}}
_GENTLE = {"timeoutSeconds": 10, "periodSeconds": 30, "failureThreshold": 5}


def _asks(command: str) -> dict[str, object]:
    return {"exec": {"command": ["/bin/bash", "-c", command]}, **_GENTLE}


CASES: tuple[Case, ...] = (
    Case("head-schedules-work", {f"{HEAD}.rayStartParams.num-cpus": GONE}),
    Case("head-schedules-work", {f"{HEAD}.resources.CPU": "4"}, {f"{HEAD}.resources.Cpu": "0"}),
    Case(
        "head-zero-cpu-no-workers",
        {"spec.workerGroupSpecs": []},
        {"spec.workerGroupSpecs": [], f"{HEAD}.rayStartParams.num-cpus": "4"},
    ),
    Case("no-prestop", {f"{WORKER_CONTAINER}.lifecycle": GONE}),
    Case(
        "prestop-lt-grace",
        {f"{WORKER_CONTAINER}.lifecycle": _SLEEPS},
        {f"{WORKER_CONTAINER}.lifecycle": _SLEEPS, f"{WORKER_POD}.terminationGracePeriodSeconds": 300},
    ),
    Case("prestop-lt-grace", {f"{WORKER_POD}.terminationGracePeriodSeconds": -1}),
    Case("liveness-expensive", {_PROBE: _asks("ray status")}, {_PROBE: _asks("curl -sf localhost:52365/api/healthz")}),
    Case(
        "probe-too-tight",
        {f"{HEAD_CONTAINER}.livenessProbe": {"httpGet": {"path": "/", "port": 8265}}},
        {
            f"{HEAD_CONTAINER}.livenessProbe": {
                "httpGet": {"path": "/", "port": 8265},
                **_GENTLE,
                "failureThreshold": 10,
            }
        },
    ),
    Case(
        "probe-too-tight",
        {f"{HEAD_CONTAINER}.livenessProbe": {"httpGet": {"path": "/", "port": "dashboard"}, **_GENTLE}},
        {_PROBE: {"httpGet": {"path": "/", "port": 52365}, **_GENTLE}},
    ),
    Case("wait-gcs-forever", {"spec.preRunningDeadlineSeconds": GONE}, kind="RayJob"),
    Case(
        "logs-not-persisted",
        {f"{HEAD_POD}.volumes.2": {"name": "ray-scratch", "emptyDir": {"sizeLimit": "50Gi"}}},
        {
            f"{HEAD_CONTAINER}.volumeMounts.2": {"name": "fsx", "mountPath": "/tmp/ray", "subPath": "logs"},
            f"{WORKER_CONTAINER}.volumeMounts.2": {"name": "fsx", "mountPath": "/tmp/ray", "subPath": "logs"},
        },
    ),
)
