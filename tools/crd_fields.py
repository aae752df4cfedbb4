"""Writes src/seatrial/check/data/fields.json: the fields of KubeRay's CRDs as one compact table.

    python tools/crd_fields.py KUBERAY_CHECKOUT

The checkout is a git directory of ray-project/kuberay. Fields are those of the newest release below; for each field of
v1 the table has the first of these releases whose CRD has it, where that is not the oldest.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

RELEASES = ("1.3.2", "1.4.2", "1.5.2", "1.6.2", "1.7.0")  # the last of each minor release
KINDS = {"RayCluster": "rayclusters", "RayJob": "rayjobs", "RayService": "rayservices"}
TARGET = Path(__file__).parents[1] / "src/seatrial/check/data/fields.json"


class Table:
    """Schemas in compact form; equal ones are kept once."""

    def __init__(self) -> None:
        self.types: list[Any] = []
        self._known: dict[str, int] = {}

    def add(self, schema: dict[str, Any]) -> int:
        entry = self._compact(schema)
        key = json.dumps(entry, sort_keys=True)
        if key not in self._known:
            self._known[key] = len(self.types)
            self.types.append(entry)
        return self._known[key]

    def _compact(self, schema: dict[str, Any]) -> Any:
        properties = schema.get("properties")
        if schema.get("x-kubernetes-int-or-string"):
            return "quantity" if "pattern" in schema else "int-or-string"
        if properties and "containers" in properties.get("spec", {}).get("properties", {}):
            return "PodTemplateSpec"
        if (
            properties
            and {"apiVersion", "kind", "status"} <= properties.keys()
            and "clusterIP" in str(properties.get("spec"))
        ):
            return "Service"
        if properties:
            entry: dict[str, Any] = {"fields": {name: self.add(child) for name, child in sorted(properties.items())}}
            # what has a default is filled in before it is missed
            if required := [name for name in schema.get("required", ()) if "default" not in properties[name]]:
                entry["required"] = sorted(required)
            return entry
        if schema.get("type") == "object":
            extra = schema.get("additionalProperties")
            return {"map": self.add(extra)} if isinstance(extra, dict) else "any"
        if schema.get("type") == "array":
            return {"list": self.add(schema["items"])}
        if values := schema.get("enum"):
            return {"enum": values}
        return schema.get("type", "any")


def crd(checkout: str, release: str, plural: str) -> dict[str, Any]:
    path = f"ray-operator/config/crd/bases/ray.io_{plural}.yaml"
    text = subprocess.run(["git", "-C", checkout, "show", f"v{release}:{path}"], capture_output=True, check=True).stdout
    document = yaml.load(text, Loader=yaml.CSafeLoader)
    return {v["name"]: v["schema"]["openAPIV3Schema"] for v in document["spec"]["versions"]}


def paths(schema: dict[str, Any], way: str = "") -> set[str]:
    """Every field path of Ray's own part of a schema; list items and maps add nothing to the path."""
    found: set[str] = set()
    if "containers" in schema.get("properties", {}).get("spec", {}).get("properties", {}):
        return found
    for name, child in schema.get("properties", {}).items():
        found |= {f"{way}.{name}".lstrip("."), *paths(child, f"{way}.{name}")}
    if schema.get("type") == "array":
        found |= paths(schema["items"], way)
    return found


def main(checkout: str) -> None:
    table, roots, since = Table(), {}, {}
    for kind, plural in KINDS.items():
        newest = crd(checkout, RELEASES[-1], plural)
        for name, schema in newest.items():
            # the API server knows metadata better than any CRD does, and nobody writes a status
            roots[f"{name}/{kind}"] = table.add({"properties": {"spec": schema["properties"]["spec"]}})
        seen = paths(crd(checkout, RELEASES[0], plural)["v1"]["properties"]["spec"])
        for release in RELEASES[1:]:
            now = paths(crd(checkout, release, plural)["v1"]["properties"]["spec"])
            new = {path for path in now - seen if path.rpartition(".")[0] not in now - seen}
            since.update({f"{kind}:{path}": release.rpartition(".")[0] for path in sorted(new)})
            seen |= now
    source = "https://github.com/ray-project/kuberay/tree/v1.7.0/ray-operator/config/crd/bases"
    document = {"source": source, "roots": roots, "since": dict(sorted(since.items())), "types": table.types}
    TARGET.write_text(json.dumps(document, separators=(",", ":"), ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
