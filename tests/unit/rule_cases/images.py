"""Cases for the rules of this name's module."""

from __future__ import annotations

from tests.support.manifests import GONE, HEAD_CONTAINER, WORKER_CONTAINER
from tests.support.rule_case import Case

DLC = "public.ecr.aws/deep-learning-containers/ray"
DIGEST = "@sha256:" + "b" * 64
ENV = f"{WORKER_CONTAINER}.env.2"
OWN_COMMAND = {"metadata.annotations": {"ray.io/overwrite-container-cmd": "true"}}


def images(reference: str) -> dict[str, object]:
    return {f"{container}.image": reference for container in (HEAD_CONTAINER, WORKER_CONTAINER)}


CASES = (
    Case(
        "ray-version-mismatch",
        {f"{HEAD_CONTAINER}.image": "me/private:1", f"{WORKER_CONTAINER}.image": "rayproject/ray:2.9.0"},
        {},
    ),
    Case("image-floating-tag", images("rayproject/ray:nightly-py311-gpu"), images("rayproject/ray:2.58.0")),
    Case("image-not-digest", images("${REGISTRY}/x:latest"), images(f"${{REGISTRY}}/x{DIGEST}")),
    Case("ray-version-missing", {"spec.rayVersion": GONE}),
    Case("ray-version-unparsable", {"spec.rayVersion": "latest"}, {"spec.rayVersion": "2.58.0"}),
    Case(
        "ray-version-mismatch",
        {"spec.rayVersion": "2.57.0"},
        {**images("rayproject/ray:2.55.1-py312"), "spec.rayVersion": "2.55.1"},
    ),
    Case("image-floating-tag", images(f"{DLC}:train-ml-cuda"), images(f"{DLC}:train-ml-cuda-v1.1.0")),
    Case("image-not-digest", images(f"{DLC}:train-ml-cuda-v1.1.0"), images(f"{DLC}:train-ml-cuda-v1.1.0{DIGEST}")),
    Case(
        "mixed-images",
        {f"{WORKER_CONTAINER}.image": "rayproject/ray:2.55.1"},
        images(f"mirror.example:5000/ray{DIGEST}"),
    ),
    Case(
        "image-wrong-dlc",
        images(f"{DLC}:serve-ml-cuda-v1.3.0"),
        {f"{HEAD_CONTAINER}.image": f"{DLC}:serve-ml-cuda-v1.3.0"},
    ),
    Case(
        "entrypoint-bypassed",
        {},
        {
            **OWN_COMMAND,
            f"{WORKER_CONTAINER}.args": ["$KUBERAY_GEN_RAY_START_CMD"],
            f"{HEAD_CONTAINER}.args": ["$KUBERAY_GEN_RAY_START_CMD"],
        },
    ),
    Case(
        "overwrite-cmd-without-start",
        {**OWN_COMMAND, f"{HEAD_CONTAINER}.args": ["ray start --head"], f"{WORKER_CONTAINER}.args": ["sleep infinity"]},
        {**OWN_COMMAND, f"{HEAD_CONTAINER}.args": ["ray start --head"], f"{WORKER_CONTAINER}.args": ["ray start"]},
    ),
    Case(
        "container-command-set",
        {f"{WORKER_CONTAINER}.command": ["sleep", "infinity"]},
        {f"{WORKER_CONTAINER}.command": ["ray start --block"]},
    ),
    Case(
        "path-override",
        {ENV: {"name": "PATH", "value": "/usr/bin:/bin"}},
        {ENV: {"name": "PATH", "value": "/opt/venv/bin:/usr/bin"}},
    ),
    Case(
        "ld-library-path-override",
        {ENV: {"name": "LD_LIBRARY_PATH", "value": "/usr/local/cuda/lib64"}},
        {ENV: {"name": "LD_LIBRARY_PATH", "value": "/opt/amazon/ofi-nccl/lib64:/opt/amazon/efa/lib"}},
    ),
    Case(
        "pull-always-large-image",
        {f"{WORKER_CONTAINER}.imagePullPolicy": "Always"},
        {f"{HEAD_CONTAINER}.imagePullPolicy": "Always"},
    ),
)
