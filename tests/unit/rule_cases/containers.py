"""Cases for the rules of this name's module."""

from __future__ import annotations

from typing import Any

from tests.support.manifests import GONE, WORKER_CONTAINER, WORKER_POD
from tests.support.rule_case import Case

_IMAGE = f"{WORKER_CONTAINER}.image"
_ENV = f"{WORKER_CONTAINER}.env.2"
_MOUNT = f"{WORKER_CONTAINER}.volumeMounts.3"
_VOLUME = f"{WORKER_POD}.volumes.3"
_PORTS = f"{WORKER_CONTAINER}.ports"
_PRE_STOP = f"{WORKER_CONTAINER}.lifecycle.preStop"
_PROBE = f"{WORKER_CONTAINER}.livenessProbe"
_FROM = {"fieldRef": {"fieldPath": "status.podIP"}}


def _port(number: int, name: str) -> dict[str, Any]:
    return {_PORTS: [{"containerPort": number, "name": name}]}


CASES: tuple[Case, ...] = (
    Case("image-invalid", {_IMAGE: GONE}, {_IMAGE: "localhost:5000/team/ray:2.58.0"}),
    Case("image-invalid", {_IMAGE: ""}, {_IMAGE: "{{ image }}"}),
    Case("image-invalid", {_IMAGE: "https://ghcr.io/team/ray:1"}),
    Case("image-invalid", {_IMAGE: "team/ray:"}),
    Case("image-invalid", {"spec.submitterPodTemplate.spec.containers.0.image": GONE}, kind="RayJob"),
    Case(
        "env-invalid",
        {_ENV: {"name": "IP", "value": "10.0.0.1", "valueFrom": _FROM}},
        {_ENV: {"name": "IP", "value": "", "valueFrom": _FROM}},
    ),
    Case("env-invalid", {_ENV: {"name": "IP", "valueFrom": {}}}, {_ENV: {"name": "IP"}}),
    Case(
        "volume-mount-unknown",
        {_MOUNT: {"name": "data", "mountPath": "/data"}},
        {_MOUNT: {"name": "shared-mem", "mountPath": "/shared"}},
    ),
    Case("sub-path-invalid", {f"{WORKER_CONTAINER}.volumeMounts.0.subPath": "/team"}),
    Case(
        "sub-path-invalid",
        {f"{WORKER_CONTAINER}.volumeMounts.0.subPath": "a/../../b"},
        {f"{WORKER_CONTAINER}.volumeMounts.0.subPath": "a..b/c"},
    ),
    Case("volume-source-invalid", {_VOLUME: {"name": "data", "emptyDir": {}, "hostPath": {"path": "/mnt"}}}),
    Case("volume-source-invalid", {_VOLUME: {"name": "data"}}, {_VOLUME: {"name": "data", "emptyDir": None}}),
    Case("container-port-invalid", _port(70000, "a"), _port(65535, "a")),
    Case("container-port-invalid", _port(80, "a-name-of-16-let"), _port(80, "a-name-of-15-le")),
    Case("container-port-invalid", _port(80, "Web"), _port(80, "${NAME}")),
    Case("handler-invalid", {_PRE_STOP: {}}, {_PRE_STOP: None}),
    Case("handler-invalid", {_PRE_STOP: {"exec": {}}}, {_PRE_STOP: {"sleep": {"seconds": 5}}}),
    Case("handler-invalid", {_PROBE: {"periodSeconds": 30}}, {_PROBE: {"tcpSocket": {"port": 52365}}}),
)
