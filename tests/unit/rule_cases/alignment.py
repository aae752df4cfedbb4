"""Cases for the rules of this name's module."""

from __future__ import annotations

from seatrial.check.rule import Asked
from tests.support.manifests import GONE, HEAD_CONTAINER, HEAD_POD, WORKER, WORKER_CONTAINER, WORKER_POD
from tests.support.rule_case import Case

AMOUNTS = f"{WORKER_CONTAINER}.resources"
TYPE = f"{WORKER_POD}.nodeSelector.[node.kubernetes.io/instance-type]"


def both(key: str, value: object) -> dict[str, object]:
    return {f"{AMOUNTS}.{side}.{key}": value for side in ("limits", "requests")}


def _logs(restart: str, **limits: str) -> dict[str, object]:
    return {"name": "logs", "image": "busybox:1.36", "restartPolicy": restart, "resources": {"limits": limits}}


def _sidecar(**limits: str) -> dict[str, object]:
    return {f"{WORKER_POD}.containers.1": _logs("", **limits)}


_HEAD_CPUS = {f"{HEAD_CONTAINER}.resources.{side}.cpu": "7500m" for side in ("limits", "requests")}
_HEAD_MEMORY = {f"{HEAD_CONTAINER}.resources.{side}.memory": "16Gi" for side in ("limits", "requests")}
_ON_8_CPUS = {**_HEAD_CPUS, **_HEAD_MEMORY, f"{HEAD_POD}.nodeSelector.[node.kubernetes.io/instance-type]": "g6.2xlarge"}
EIGHT = {"asked": Asked(8, 1, "/fsx/runs")}
CASES = (
    Case("gpu-exceeds-instance", {TYPE: "g6.xlarge"}, {TYPE: "g6.48xlarge"}),
    Case("efa-exceeds-instance", both("[vpc.amazonaws.com/efa]", "2"), {TYPE: "g6.48xlarge"}),
    Case(
        "efa-missing",
        both("[vpc.amazonaws.com/efa]", GONE),
        {**both("[vpc.amazonaws.com/efa]", GONE), f"{WORKER}.replicas": 1, f"{WORKER}.minReplicas": 1},
    ),
    Case(
        "efa-not-all",
        {TYPE: "p5en.48xlarge", **both("[nvidia.com/gpu]", "8"), f"{WORKER}.rayStartParams": {}},
        {TYPE: "p5en.48xlarge", **both("[nvidia.com/gpu]", "8"), **both("[vpc.amazonaws.com/efa]", "16")},
    ),
    Case(
        "efa-with-dra-and-plugin",
        {f"{WORKER_POD}.resourceClaims": [{"name": "efa", "resourceClaimTemplateName": "efa-all"}]},
        {f"{WORKER_POD}.resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]},
    ),
    Case("cpu-mem-exceeds-allocatable", both("memory", "192Gi"), both("memory", "170Gi")),
    Case("cpu-mem-exceeds-allocatable", _sidecar(cpu="20"), _sidecar(cpu="2")),
    Case("cpu-mem-exceeds-allocatable", {**_sidecar(cpu="${CPUS}"), **both("cpu", "64")}),
    Case(
        "cpu-mem-exceeds-allocatable",
        {f"{WORKER_POD}.initContainers": [_logs("Always", cpu="20")]},
        {f"{WORKER_POD}.initContainers": [_logs("", cpu="20")]},
    ),
    Case("cpu-mem-exceeds-allocatable", {**_ON_8_CPUS, "spec.enableInTreeAutoscaling": True}, _ON_8_CPUS),
    Case("gpu-exceeds-instance", _sidecar(**{"nvidia.com/gpu": "1"})),
    Case("gpu-underfill-instance", {**both("[nvidia.com/gpu]", "2"), f"{WORKER}.rayStartParams": {}}),
    Case("world-size-exceeds-gpus", {}, {}, facts={"asked": Asked(9, 1, "/fsx/runs")}, right_facts=EIGHT),
    Case(
        "cpus-per-worker-infeasible",
        {},
        {},
        facts={"asked": Asked(81, 0, "/fsx/runs")},
        right_facts={"asked": Asked(80, 0, "/fsx/runs")},
    ),
    Case(
        "entrypoint-takes-gang-gpu",
        {"spec.entrypointNumGpus": 1},
        {"spec.entrypointNumGpus": 0},
        kind="RayJob",
        facts=EIGHT,
    ),
)
