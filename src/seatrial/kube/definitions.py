"""What the API server serves: its API groups, and the schemas of KubeRay's resources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from seatrial.kube import Json


@dataclass(frozen=True)
class Definition:
    """A CustomResourceDefinition: the structural schema of each version that is served."""

    kind: str
    versions: Mapping[str, Json]

    @classmethod
    def of(cls, crd: Json) -> Definition:
        """A CustomResourceDefinition of apiextensions.k8s.io/v1."""
        served = {v["name"]: v["schema"]["openAPIV3Schema"] for v in crd["spec"]["versions"] if v["served"]}
        return cls(crd["spec"]["names"]["kind"], served)


def published(document: Json, kind: str) -> Json | None:
    """The schema of a kind of group ray.io in an OpenAPI v3 document, None where it has none."""
    for schema in document["components"]["schemas"].values():
        for about in schema.get("x-kubernetes-group-version-kind", ()):
            if (about["group"], about["kind"]) == ("ray.io", kind):
                found: Json = schema
                return found
    return None


def groups(listed: Json) -> dict[str, list[str]]:
    """An APIGroupList: the versions of each group, the preferred one first."""
    found = {}
    for group in listed["groups"]:
        preferred = group["preferredVersion"]["version"]
        others = [v["version"] for v in group["versions"] if v["version"] != preferred]
        found[group["name"]] = [preferred, *others]
    return found
