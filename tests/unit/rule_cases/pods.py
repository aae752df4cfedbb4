"""Cases for the rules of this name's module."""

from __future__ import annotations

import json
from typing import Any

from tests.support.manifests import GONE, HEAD_CONTAINER, WORKER, WORKER_CONTAINER, WORKER_POD, changed
from tests.support.rule_case import Case

_LABEL = f"{WORKER}.template.metadata.labels.[example.com/team]"
_TOLERATION = f"{WORKER_POD}.tolerations.0"
_SPREAD = f"{WORKER_POD}.topologySpreadConstraints"
_SUBMITTER = "spec.submitterPodTemplate.spec"


def _beside(kind: str, name: str, namespace: str) -> str:
    other = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}}
    return f"{changed({})}\n---\n{json.dumps(other)}\n"


def _skew(most: Any) -> dict[str, Any]:
    return {
        _SPREAD: [{"maxSkew": most, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}]
    }


def _configured(optional: bool) -> str:
    reference = {"name": "settings", "optional": optional}
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "other"}}
    return f"{changed({f'{WORKER_CONTAINER}.envFrom': [{'configMapRef': reference}]})}\n---\n{json.dumps(other)}\n"


CASES: tuple[Case, ...] = (
    Case("duplicate-entry", {f"{WORKER_CONTAINER}.env.2": {"name": "HF_HOME", "value": "/x"}}),
    Case(
        "duplicate-entry",
        {f"{WORKER_CONTAINER}.volumeMounts.3": {"name": "dshm", "mountPath": "/fsx"}},
        {f"{WORKER_CONTAINER}.volumeMounts.3": {"name": "fsx", "mountPath": "${PATH_OF_DATA}"}},
    ),
    Case("duplicate-entry", {f"{WORKER_POD}.volumes.3": {"name": "fsx", "emptyDir": {}}}),
    Case("duplicate-entry", {f"{WORKER_POD}.initContainers": [{"name": "ray-worker", "image": "busybox:1.36"}]}),
    Case(
        "duplicate-entry",
        {f"{WORKER_CONTAINER}.ports": [{"containerPort": 80, "name": "a"}, {"containerPort": 80, "protocol": "TCP"}]},
        {f"{WORKER_CONTAINER}.ports": [{"containerPort": 80, "name": "a"}, {"containerPort": 80, "protocol": "UDP"}]},
    ),
    Case("label-invalid", {_LABEL: "not valid!"}, {_LABEL: "vision-1.5_b"}),
    Case("label-invalid", {"metadata.labels.team": "x" * 64}, {"metadata.labels.team": "${TEAM!}"}),
    Case("label-invalid", {"metadata.labels.[a b]": "x"}, {"metadata.annotations.note": "any text: it's fine!"}),
    Case("label-invalid", {f"{WORKER_POD}.nodeSelector.pool": "gpu pool"}),
    Case("namespace-invalid", {"metadata.namespace": "My_Team"}, {"metadata.namespace": "${NAMESPACE}"}),
    Case("object-name-invalid", {f"{WORKER_POD}.serviceAccountName": "My_Account"}),
    Case(
        "object-name-invalid",
        {f"{WORKER_POD}.volumes.0.persistentVolumeClaim.claimName": "FSx"},
        {f"{WORKER_POD}.volumes.0.persistentVolumeClaim.claimName": "<claim>"},
    ),
    Case(
        "namespace-differs",
        _beside("PersistentVolumeClaim", "fsx-claim", "other"),
        _beside("PersistentVolumeClaim", "fsx-claim", "ml"),
    ),
    Case(
        "namespace-differs", _beside("ServiceAccount", "train", "other"), _beside("ServiceAccount", "train", "${SPACE}")
    ),
    Case("namespace-differs", _configured(False), _configured(True)),
    Case("group-name-invalid", {f"{WORKER}.groupName": "gpu_workers"}, {f"{WORKER}.groupName": "GPU-workers"}),
    Case("toleration-invalid", {f"{_TOLERATION}.value": "present"}, {f"{_TOLERATION}.value": ""}),
    Case("toleration-invalid", {f"{_TOLERATION}.key": GONE, f"{_TOLERATION}.operator": GONE}),
    Case(
        "toleration-invalid",
        {f"{_TOLERATION}.tolerationSeconds": 60},
        {f"{_TOLERATION}.tolerationSeconds": 60, f"{_TOLERATION}.effect": "NoExecute"},
    ),
    Case("spread-constraint-invalid", _skew(0), _skew(1)),
    Case("enum-mismatch", {f"{WORKER_POD}.restartPolicy": "never"}, {f"{WORKER_POD}.restartPolicy": "Never"}),
    Case(
        "enum-mismatch",
        {f"{HEAD_CONTAINER}.imagePullPolicy": "ifnotpresent"},
        {f"{HEAD_CONTAINER}.imagePullPolicy": "IfNotPresent"},
    ),
    Case("enum-mismatch", {f"{_TOLERATION}.effect": "NoSched"}, {f"{_TOLERATION}.effect": ""}),
    Case("containers-missing", {f"{_SUBMITTER}.containers": []}, kind="RayJob"),
    Case("containers-missing", {f"{_SUBMITTER}.containers": GONE}, kind="RayJob"),
    Case("field-missing", {"metadata": None}),
)
