"""What a cluster's API says about a RayJob at work, in the API's own shape: by path, with the code."""

from __future__ import annotations

from typing import Any

ML = "/api/v1/namespaces/ml"
PODS, EVENTS = f"{ML}/pods", f"{ML}/events"
JOBS = "/apis/ray.io/v1/namespaces/ml/rayjobs"
CLUSTERS = "/apis/ray.io/v1/namespaces/ml/rayclusters"
JOB, CLUSTER = f"{JOBS}/tune", f"{CLUSTERS}/tune-x7k2p"
LOG = f"{PODS}/tune-x7k2p-gpu-worker-1/log"
TAG = "public.ecr.aws/deep-learning-containers/ray:train-ml-cuda-v1.1.0"
DIGEST = "sha256:" + "ab" * 32
IMAGE_ID = f"public.ecr.aws/deep-learning-containers/ray@{DIGEST}"


def pod(name: str, kind: str, image_id: str = IMAGE_ID, **status: Any) -> dict[str, Any]:
    container = {"name": "ray-worker", "image": TAG, "resources": {"limits": {"nvidia.com/gpu": "4"}}}
    told = {
        "name": "ray-worker", "image": TAG, "imageID": image_id, "ready": True, "restartCount": 0, "started": True,
        "state": {"running": {"startedAt": "2026-11-30T10:00:00Z"}},
    }  # fmt: skip
    return {
        "metadata": {
            "name": name,
            "namespace": "ml",
            "labels": {"ray.io/cluster": "tune-x7k2p", "ray.io/node-type": kind, "ray.io/group": f"{kind}group"},
        },
        "spec": {"nodeName": "ip-10-0-1-7.ec2.internal", "containers": [container, {"name": "sidecar", "image": "s"}]},
        "status": {
            "phase": "Running",
            "podIP": "10.0.1.31",
            "containerStatuses": [{"name": "sidecar", "imageID": "other@sha256:00"}, told],
            **status,
        },
    }


def event(about: str, reason: str, message: str) -> dict[str, Any]:
    kind, name = about.split("/")
    return {
        "metadata": {"name": f"{name}.17d0", "namespace": "ml"},
        "involvedObject": {"kind": kind, "namespace": "ml", "name": name},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "count": 3,
        "lastTimestamp": "2026-11-30T10:01:00Z",
    }


def listed(*items: dict[str, Any]) -> tuple[int, Any]:
    return 200, {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "4711"}, "items": list(items)}


def _group(**more: Any) -> dict[str, Any]:
    container = {"name": "ray-worker", "image": TAG, "resources": {"limits": {"cpu": "4", "memory": "16Gi"}}}
    return {"rayStartParams": {}, "template": {"spec": {"containers": [container]}}, **more}


def ray_job(**status: Any) -> dict[str, Any]:
    workers = _group(groupName="gpu", replicas=2, minReplicas=2, maxReplicas=2)
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "tune", "namespace": "ml", "uid": "u", "resourceVersion": "9", "managedFields": [{}]},
        "spec": {
            "entrypoint": "python train.py",
            "rayClusterSpec": {"rayVersion": "2.58.0", "headGroupSpec": _group(), "workerGroupSpecs": [workers]},
        },
        "status": {
            "jobId": "tune-abcde",
            "jobStatus": "RUNNING",
            "jobDeploymentStatus": "Running",
            "rayClusterName": "tune-x7k2p",
            "failed": 0,
            **status,
        },
    }


def ray_cluster() -> dict[str, Any]:
    job = ray_job()
    head = {"serviceName": "tune-x7k2p-head-svc", "podIP": "10.0.1.30"}
    return {
        **job,
        "kind": "RayCluster",
        "metadata": {**job["metadata"], "name": "tune-x7k2p"},
        "spec": job["spec"]["rayClusterSpec"],
        "status": {"state": "ready", "head": head, "readyWorkerReplicas": 2, "desiredWorkerReplicas": 2},
    }


def at_work() -> dict[str, tuple[int, Any]]:
    """A RayJob whose three pods run."""
    names = (("tune-x7k2p-head", "head"), ("tune-x7k2p-gpu-worker-1", "worker"), ("tune-x7k2p-gpu-worker-2", "worker"))
    return {
        PODS: listed(*(pod(name, kind) for name, kind in names)),
        EVENTS: listed(
            event("Pod/tune-x7k2p-gpu-worker-1", "Unhealthy", "Readiness probe failed"),
            event("Pod/somebody-elses", "BackOff", "not ours"),
        ),
        JOB: (200, ray_job()),
        JOBS: listed(ray_job()),
        CLUSTER: (200, ray_cluster()),
        CLUSTERS: listed(ray_cluster()),
        LOG: (200, "line 1\nline 2\n"),
    }
