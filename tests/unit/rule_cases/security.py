"""Cases for the rules of this name's module."""

from __future__ import annotations

import json

from tests.support.manifests import HEAD, HEAD_CONTAINER, WORKER_CONTAINER, WORKER_POD, changed
from tests.support.rule_case import Case

_RAYPROJECT = "rayproject/ray:2.52.0"


def _with_ingress(annotations: dict[str, str]) -> str:
    backend = {"service": {"name": "base-head-svc", "port": {"number": 8265}}}
    ingress = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "ray", "namespace": "ml", "annotations": annotations},
        "spec": {"rules": [{"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}]},
    }
    return f"{changed({})}\n---\n{json.dumps(ingress)}\n"


CASES: tuple[Case, ...] = (
    Case(
        "dashboard-public",
        _with_ingress({}),
        _with_ingress({"nginx.ingress.kubernetes.io/auth-url": "https://login.example.com"}),
    ),
    Case(
        "dashboard-public",
        _with_ingress({"example.com/author": "me"}),
        _with_ingress({"alb.ingress.kubernetes.io/inbound-cidrs": "10.0.0.0/8"}),
    ),
    Case(
        "dashboard-public",
        _with_ingress({"alb.ingress.kubernetes.io/auth-type": "none"}),
        _with_ingress({"alb.ingress.kubernetes.io/auth-type": "oidc"}),
    ),
    Case("ray-auth-off", {}, {"spec.authOptions": {"mode": "token"}}),
    Case(
        "ray-version-cve",
        {f"{HEAD_CONTAINER}.image": _RAYPROJECT, f"{HEAD}.rayStartParams.num-gpus": "0"},
        {"spec.rayVersion": "2.54.0"},
    ),
    Case(
        "privileged",
        {f"{WORKER_CONTAINER}.securityContext.privileged": True},
        {f"{WORKER_CONTAINER}.securityContext.capabilities.add": ["IPC_LOCK"]},
    ),
    Case(
        "trust-remote-code",
        {"spec.entrypoint": "python /fsx/train.py --trust-remote-code"},
        {"spec.entrypoint": "python /fsx/train.py --trust-remote-code=false"},
        kind="RayJob",
    ),
    Case("host-pid-ipc", {f"{WORKER_POD}.hostIPC": True}, {f"{WORKER_POD}.hostIPC": False}),
    Case(
        "run-as-root",
        {f"{WORKER_POD}.securityContext.runAsUser": 0},
        {f"{WORKER_POD}.securityContext.runAsUser": 1000},
    ),
    Case(
        "ssh-keys-in-image",
        {f"{WORKER_CONTAINER}.ports": [{"containerPort": 22}]},
        {f"{WORKER_CONTAINER}.ports": [{"containerPort": 2222}]},
    ),
)
