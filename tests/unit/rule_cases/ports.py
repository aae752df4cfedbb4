"""Cases for the rules of this name's module."""

from __future__ import annotations

from tests.support.manifests import HEAD, HEAD_CONTAINER, HEAD_POD, WORKER_POD
from tests.support.rule_case import Case


def _sidecar(port: int) -> dict[str, object]:
    return {"name": "exporter", "image": "exporter:1", "ports": [{"containerPort": port}]}


CASES = (
    Case(
        "port-mismatch",
        {f"{HEAD}.rayStartParams.dashboard-port": "8266"},
        {f"{HEAD}.rayStartParams.dashboard-port": "8266", f"{HEAD_CONTAINER}.ports.1.containerPort": 8266},
        kind="RayJob",
    ),
    Case(
        "head-ports-unnamed",
        {f"{HEAD_CONTAINER}.ports": [{"containerPort": 6379}, {"containerPort": 8265}]},
        {f"{HEAD_CONTAINER}.ports": []},
        kind="RayJob",
    ),
    Case(
        "head-port-gcs-missing",
        {f"{HEAD_CONTAINER}.ports.0.name": "redis"},
        {f"{HEAD_CONTAINER}.ports": []},
    ),
    Case(
        "reserved-port-used",
        {f"{WORKER_POD}.containers.1": _sidecar(52365)},
        {f"{WORKER_POD}.containers.1": _sidecar(8265)},
    ),
    Case(
        "metrics-port-clash",
        {f"{HEAD_POD}.containers.1": _sidecar(8080)},
        {f"{HEAD_POD}.containers.1": _sidecar(8080), f"{HEAD}.rayStartParams.metrics-export-port": "8090"},
    ),
)
