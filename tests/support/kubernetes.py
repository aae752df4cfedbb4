"""Trials for a cluster, and Kubernetes' and KubeRay's own schemas to hold manifests against."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from seatrial.ship import package
from seatrial.trial import Trial
from tests.support.trials import TINY

SHARED = Path(__file__).parents[3] / "shared"
KUBERNETES = "1.34"
PYTHON_PATH = ":".join(f"/etc/seatrial/{part.file}" for part in package())
EKS: dict[str, Any] = {
    "metadata": {"name": "qwen2.5-first look"},
    "image": "public.ecr.aws/deep-learning-containers/ray:train-ml-cuda-v1.1.0",
    "cluster": {
        "provider": "eks",
        "namespace": "training",
        "workerGroups": [{"instanceType": "g6.12xlarge", "replicas": 2}],
    },
    "storage": {"path": "/fsx/seatrial", "volume": {"claim": "fsx", "mountPath": "/fsx"}},
    "scaling": {"num_workers": 8, "gpus_per_worker": 1},
}
PLAIN: dict[str, Any] = {
    **EKS,
    "image": "registry.example/team/ray:1.0",
    "cluster": {
        "provider": "kubernetes",
        "rayVersion": "2.58.0",
        "workerGroups": [{"replicas": 4, "gpus": 2, "cpu": 8, "memory": "64Gi"}],
    },
}
# For a manifest that the team has: what stands in it is not said again.
TEAM_TRIAL: dict[str, Any] = {**EKS, "cluster": {"provider": "eks", "template": {"from": "team.yaml"}}}


def trial(base: dict[str, Any] = EKS, cluster: dict[str, Any] | None = None, **sections: Any) -> Trial:
    """A trial for a cluster; `cluster` changes keys of that section, keywords replace sections."""
    document = copy.deepcopy({**TINY, **base, **sections})
    document["workload"]["global_batch"] = 32
    document["cluster"] |= cluster or {}
    return Trial.model_validate_json(json.dumps(document))


def group(**changes: Any) -> dict[str, Any]:
    """One group of g6.12xlarge for `cluster`."""
    return {"workerGroups": [{"instanceType": "g6.12xlarge", "replicas": 2, **changes}]}


def loaded(text: str) -> list[Any]:
    """All documents, as a YAML 1.1 reader sees them."""
    return [
        document for document in yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)) if document
    ]


def pod_templates(resource: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Templates of a RayJob or RayCluster by name: head, each group, the submitter."""
    spec = resource["spec"]
    cluster = spec.get("rayClusterSpec", spec)
    found = {"head": cluster["headGroupSpec"]["template"]}
    found |= {each["groupName"]: each["template"] for each in cluster["workerGroupSpecs"]}
    return found | ({"submitter": spec["submitterPodTemplate"]} if "submitterPodTemplate" in spec else {})


def validate(document: dict[str, Any]) -> None:
    """Holds a document against its schema, unknown keys included; KubeRay's are skipped where they are not at hand."""
    if not str(document["apiVersion"]).startswith("ray.io/"):
        _core(document)
        return
    for template in pod_templates(document).values():
        _core({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}, "template": template})
    _crd(document["kind"]).validate(document)


def _core(document: dict[str, Any]) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    kubernetes_validate.validate(document, KUBERNETES, strict=True)


@cache
def _crd(kind: str) -> Any:
    jsonschema = pytest.importorskip("jsonschema")
    path = SHARED / "crds" / f"ray.io_{kind.lower()}s.yaml"
    if not path.is_file():
        pytest.skip(f"KubeRay's CRD schemas are not at {path}")
    versions = loaded(path.read_text())[0]["spec"]["versions"]
    schema = next(version["schema"]["openAPIV3Schema"] for version in versions if version["name"] == "v1")
    schema["properties"]["metadata"] = {"type": "object"}
    return jsonschema.Draft202012Validator(_strict(schema))


def _strict(schema: Any) -> Any:
    """A structural schema that refuses what the API server would prune."""
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: _strict(value) for key, value in schema.items()}
    if result.pop("x-kubernetes-int-or-string", False):
        result.pop("type", None)
    keeps = result.get("x-kubernetes-preserve-unknown-fields")
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object" and not keeps:
        result.setdefault("additionalProperties", False)
    return result
