"""Cases for the rules of this name's module."""

from __future__ import annotations

from tests.support.manifests import GONE, HEAD, HEAD_CONTAINER, HEAD_POD, WORKER, WORKER_CONTAINER, WORKER_POD
from tests.support.rule_case import Case

_TYPE = "[node.kubernetes.io/instance-type]"
_GPU_LIMIT = f"{HEAD_CONTAINER}.resources.limits.[nvidia.com/gpu]"
_ANTI = f"{WORKER_POD}.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution"


def _apart(labels: dict[str, str]) -> list[dict[str, object]]:
    return [{"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}]


CASES: tuple[Case, ...] = (
    Case("gpu-on-head", {_GPU_LIMIT: "1"}, {_GPU_LIMIT: "0"}),
    Case(
        "head-num-gpus-unset",
        {
            f"{HEAD}.rayStartParams.num-gpus": GONE,
            f"{HEAD_CONTAINER}.env": [],
            f"{HEAD_POD}.nodeSelector": GONE,
            f"{WORKER_POD}.tolerations": GONE,
        },
        {f"{HEAD}.rayStartParams.num-gpus": GONE, f"{HEAD_CONTAINER}.env": [], f"{HEAD_POD}.nodeSelector": GONE},
    ),
    Case(
        "head-no-nvidia-void",
        {f"{HEAD_CONTAINER}.env": []},
        {f"{HEAD_CONTAINER}.env.0.value": "none"},
    ),
    Case(
        "head-on-gpu-node",
        {
            f"{HEAD_POD}.nodeSelector": {"node.kubernetes.io/instance-type": "${TYPE}"},
            f"{WORKER_POD}.nodeSelector.{_TYPE}": "${TYPE}",
        },
        {f"{HEAD_POD}.nodeSelector": {"node.kubernetes.io/instance-type": "m5.2xlarge"}},
    ),
    Case(
        "gpu-no-toleration",
        {f"{WORKER_POD}.tolerations": [{"key": "aws.amazon.com/efa", "operator": "Exists"}]},
        {f"{WORKER_POD}.tolerations": [{"operator": "Exists"}]},
    ),
    Case(
        "gpu-no-toleration",
        {f"{WORKER_POD}.tolerations": [{"key": "spot", "operator": "Exists"}]},
        {f"{WORKER_POD}.tolerations": [{"key": "dedicated", "value": "gpu-training"}]},
    ),
    Case(
        "gpu-no-toleration", {_GPU_LIMIT: "4"}, {_GPU_LIMIT: "4", f"{HEAD_POD}.tolerations": [{"operator": "Exists"}]}
    ),
    Case(
        "gpu-no-node-selector",
        {f"{WORKER_POD}.nodeSelector": GONE, f"{WORKER}.replicas": "${N}", f"{WORKER}.minReplicas": "${N}"},
        {f"{WORKER}.replicas": "${N}", f"{WORKER}.minReplicas": "${N}"},
    ),
    Case(
        "gpu-no-node-selector",
        {f"{WORKER_POD}.nodeSelector": GONE},
        {f"{WORKER_POD}.nodeSelector": {"eks.amazonaws.com/nodegroup": "gpu"}},
    ),
    Case(
        "no-worker-spread",
        {f"{WORKER_CONTAINER}.resources.limits.[nvidia.com/gpu]": "2"},
        {f"{WORKER_CONTAINER}.resources.limits.[nvidia.com/gpu]": "2", _ANTI: _apart({"app": "train"})},
    ),
    Case(
        "antiaffinity-crosses-clusters",
        {_ANTI: _apart({"ray.io/node-type": "worker"})},
        {_ANTI: _apart({"ray.io/node-type": "worker", "ray.io/cluster": "base"})},
    ),
    Case(
        "multi-az-gang",
        {f"{WORKER_POD}.nodeSelector.[topology.kubernetes.io/zone]": GONE},
        {
            f"{WORKER_POD}.nodeSelector.[topology.kubernetes.io/zone]": GONE,
            f"{WORKER}.replicas": 1,
            f"{WORKER}.minReplicas": 1,
        },
    ),
    Case(
        "hyperpod-health-selector",
        {f"{WORKER_POD}.nodeSelector.{_TYPE}": "ml.g6.12xlarge"},
        {
            f"{WORKER_POD}.nodeSelector.{_TYPE}": "ml.g6.12xlarge",
            f"{WORKER_POD}.nodeSelector.[sagemaker.amazonaws.com/node-health-status]": "Schedulable",
        },
    ),
    Case(
        "instance-type-prefix",
        {f"{WORKER_POD}.nodeSelector.[sagemaker.amazonaws.com/node-health-status]": "Schedulable"},
        {
            f"{WORKER_POD}.nodeSelector.{_TYPE}": "ml.g6.12xlarge",
            f"{WORKER_POD}.nodeSelector.[sagemaker.amazonaws.com/node-health-status]": "Schedulable",
        },
    ),
)
