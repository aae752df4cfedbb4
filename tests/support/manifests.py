"""Manifests for the rules: a clean base of each kind, and changes to it by path."""

from __future__ import annotations

import copy
import json
from typing import Any

GONE = object()  # a change to GONE removes the key

_SHM = {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "12Gi"}}
_SCRATCH = {"name": "ray-scratch", "emptyDir": {"sizeLimit": "50Gi"}}
_FSX = {"name": "fsx", "persistentVolumeClaim": {"claimName": "fsx-claim"}}
_IMAGE = "public.ecr.aws/deep-learning-containers/ray:train-ml-cuda-v1.1.0@sha256:" + "a" * 64
_STOP = {"preStop": {"exec": {"command": ["/bin/sh", "-c", "ray stop"]}}}


def _mounts() -> list[dict[str, Any]]:
    return [
        {"name": "fsx", "mountPath": "/fsx"},
        {"name": "dshm", "mountPath": "/dev/shm"},
        {"name": "ray-scratch", "mountPath": "/tmp/ray"},
    ]


def _amounts(**more: str) -> dict[str, dict[str, str]]:
    amounts = {**more, "ephemeral-storage": "60Gi"}
    return {"limits": amounts, "requests": dict(amounts)}


def cluster_spec() -> dict[str, Any]:
    """A cluster that no rule has anything to say about: CPU head, two g6.12xlarge with 4 GPUs and EFA."""
    head = {
        "rayStartParams": {"num-cpus": "0", "num-gpus": "0"},
        "template": {
            "metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}},
            "spec": {
                "serviceAccountName": "train",
                "nodeSelector": {"pool": "cpu"},
                "terminationGracePeriodSeconds": 120,
                "volumes": [_FSX, _SHM, _SCRATCH],
                "containers": [
                    {
                        "name": "ray-head",
                        "image": _IMAGE,
                        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
                        "lifecycle": _STOP,
                        "ports": [
                            {"name": "gcs-server", "containerPort": 6379},
                            {"name": "dashboard", "containerPort": 8265},
                            {"name": "client", "containerPort": 10001},
                        ],
                        "resources": _amounts(cpu="4", memory="32Gi"),
                        "volumeMounts": _mounts(),
                    }
                ],
            },
        },
    }
    worker = {
        "groupName": "gpu",
        "replicas": 2,
        "minReplicas": 2,
        "maxReplicas": 2,
        "rayStartParams": {"num-gpus": "4"},
        "template": {
            "metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}},
            "spec": {
                "serviceAccountName": "train",
                "nodeSelector": {"node.kubernetes.io/instance-type": "g6.12xlarge", "topology.kubernetes.io/zone": "a"},
                "terminationGracePeriodSeconds": 120,
                "tolerations": [
                    {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
                    {"key": "aws.amazon.com/efa", "operator": "Exists", "effect": "NoSchedule"},
                ],
                "volumes": [_FSX, {**_SHM, "emptyDir": {"medium": "Memory", "sizeLimit": "54Gi"}}, _SCRATCH],
                "containers": [
                    {
                        "name": "ray-worker",
                        "image": _IMAGE,
                        "env": [
                            {"name": "HF_HOME", "value": "/fsx/hf"},
                            {"name": "FI_EFA_USE_HUGE_PAGE", "value": "0"},
                        ],
                        "lifecycle": _STOP,
                        "resources": _amounts(
                            cpu="40", memory="160Gi", **{"nvidia.com/gpu": "4", "vpc.amazonaws.com/efa": "1"}
                        ),
                        "volumeMounts": _mounts(),
                    }
                ],
            },
        },
    }
    fresh: dict[str, Any] = json.loads(  # a deep copy would keep what head and worker share
        json.dumps({"rayVersion": "2.58.0", "headGroupSpec": head, "workerGroupSpecs": [worker]})
    )
    return fresh


def resource(kind: str = "RayCluster") -> dict[str, Any]:
    """A clean RayCluster, RayJob or RayService."""
    document: dict[str, Any] = {
        "apiVersion": "ray.io/v1",
        "kind": kind,
        "metadata": {"name": "base", "namespace": "ml"},
    }
    if kind == "RayCluster":
        document["spec"] = cluster_spec()
    elif kind == "RayJob":
        head = cluster_spec()["headGroupSpec"]["template"]["spec"]
        document["spec"] = {
            "entrypoint": "python /fsx/train.py",
            "shutdownAfterJobFinishes": True,
            "ttlSecondsAfterFinished": 600,
            "activeDeadlineSeconds": 86400,
            "preRunningDeadlineSeconds": 3600,
            "submitterPodTemplate": {
                "spec": {
                    "restartPolicy": "Never",
                    "nodeSelector": head["nodeSelector"],
                    "containers": [
                        {
                            "name": "submitter",
                            "image": _IMAGE,
                            "resources": {
                                "limits": {"cpu": "1", "memory": "1Gi"},
                                "requests": {"cpu": "1", "memory": "1Gi"},
                            },
                        }
                    ],
                }
            },
            "rayClusterSpec": cluster_spec(),
        }
        document["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "training"}
    else:
        document["spec"] = {"serveConfigV2": "applications: []\n", "rayClusterConfig": cluster_spec()}
    return document


# Short names for the places that cases change most.
HEAD = "spec.headGroupSpec"
WORKER = "spec.workerGroupSpecs.0"
HEAD_POD = f"{HEAD}.template.spec"
WORKER_POD = f"{WORKER}.template.spec"
HEAD_CONTAINER = f"{HEAD_POD}.containers.0"
WORKER_CONTAINER = f"{WORKER_POD}.containers.0"


def changed(changes: dict[str, Any], kind: str = "RayCluster") -> str:
    """The clean resource with each `a.b.0.c` set to a value, as YAML (JSON is YAML). A key with dots stands in `[…]`.

    `spec.headGroupSpec…` and `spec.workerGroupSpecs…` are found in a RayJob and a RayService too.
    """
    document = resource(kind)
    inner = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}.get(kind)
    for path, value in changes.items():
        parts = _parts(path)
        if inner and parts[0] == "spec" and parts[1] in ("headGroupSpec", "workerGroupSpecs", "rayVersion", "enableInTreeAutoscaling", "autoscalerOptions"):  # fmt: skip
            parts.insert(1, inner)
        _set(document, parts, value)
    return json.dumps(document, indent=1)


def _parts(path: str) -> list[str]:
    parts: list[str] = []
    while path:
        if path.startswith("["):
            part, _, path = path[1:].partition("]")
            path = path.removeprefix(".")
        else:
            part, _, path = path.partition(".")
        parts.append(part)
    return parts


def _set(document: Any, parts: list[str], value: Any) -> None:
    for position, part in enumerate(parts[:-1]):
        if isinstance(document, list):
            index = int(part)
            if index == len(document):
                document.append(copy.deepcopy(document[-1]) if document else {})
            document = document[index]
        else:
            document = document.setdefault(part, [] if parts[position + 1].isdigit() else {})
    last = parts[-1]
    if isinstance(document, list):
        index = int(last)
        if value is GONE:
            del document[index]
        elif index == len(document):
            document.append(value)
        else:
            document[index] = value
    elif value is GONE:
        document.pop(last, None)
    else:
        document[last] = value
