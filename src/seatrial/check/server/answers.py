"""From the API's JSON to the port's types. A shape that the API does not have raises KeyError or TypeError."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from seatrial.check.operator import version
from seatrial.check.server.port import (
    Claim,
    DaemonSet,
    Definition,
    Node,
    Operator,
    Queue,
    Quota,
    Rejected,
    StorageClass,
    Taint,
    Volume,
)
from seatrial.check.values import quantity

Json = Mapping[str, Any]
_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_UNKNOWN_FIELD = re.compile(r'(?:unknown|duplicate) field "([^"]+)"')
_NO_PERMISSION = re.compile(r"\bcannot (?:create|patch|get|list) (?:resource|path)\b")


def definition(crd: Json) -> Definition:
    """A CustomResourceDefinition of apiextensions.k8s.io/v1."""
    served = {v["name"]: v["schema"]["openAPIV3Schema"] for v in crd["spec"]["versions"] if v["served"]}
    return Definition(crd["spec"]["names"]["kind"], served)


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


def operator(deployment: Json) -> Operator:
    """A Deployment of KubeRay's operator; its container is the one of that name or of that image, else the first."""
    containers = deployment["spec"]["template"]["spec"]["containers"]
    ours = (c for c in containers if "kuberay" in c["name"] or "kuberay" in c["image"])
    container = next(ours, containers[0])
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    tag = container["image"].partition("@")[0].rpartition("/")[2].partition(":")[2]
    parsed = version(tag)
    return Operator(
        deployment["metadata"]["namespace"],
        container["image"],
        ".".join(map(str, parsed)) if parsed else "",
        _gates(_flag(words, "feature-gates") or ""),
        _scheduler(words),
    )


def _flag(words: list[str], name: str) -> str | None:
    """The value of `--name=value`, `--name value` or a bare `--name`, which is `true`; None where it is not given."""
    for position, word in enumerate(words):
        key, equals, value = word.partition("=")
        if key.lstrip("-") == name and key.startswith("-"):
            following = words[position + 1] if position + 1 < len(words) else "-"
            return value if equals else "true" if following.startswith("-") else following
    return None


def _gates(text: str) -> dict[str, bool]:
    pairs = (part.partition("=") for part in text.split(",") if "=" in part)
    return {name.strip(): value.strip().lower() == "true" for name, _, value in pairs}


def _scheduler(words: list[str]) -> str | None:
    """KubeRay's --batch-scheduler, or the older --enable-batch-scheduler, which means Volcano."""
    if _flag(words, "config") is not None:
        return None
    legacy = "volcano" if _flag(words, "enable-batch-scheduler") == "true" else ""
    return _flag(words, "batch-scheduler") or legacy


def node(item: Json) -> Node:
    """A Node of v1. A cordoned one has the taint that the scheduler acts on, even before the controller adds it."""
    spec, status = item.get("spec") or {}, item["status"]
    taints = [Taint(t["key"], t.get("value") or "", t["effect"]) for t in spec.get("taints") or ()]
    cordoned = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
    if spec.get("unschedulable") and cordoned not in taints:
        taints.append(cordoned)
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ())
    meta = item["metadata"]
    return Node(meta["name"], meta.get("labels") or {}, _amounts(status.get("allocatable")), tuple(taints), ready)


def _amounts(given: Json | None) -> dict[str, Fraction]:
    read = {key: quantity(str(value)) for key, value in (given or {}).items()}
    return {key: amount for key, amount in read.items() if amount is not None}


def daemon_set(item: Json) -> DaemonSet:
    containers = item["spec"]["template"]["spec"]["containers"]
    return DaemonSet(item["metadata"]["namespace"], item["metadata"]["name"], tuple(c["image"] for c in containers))


def storage_class(item: Json) -> StorageClass:
    annotations = item["metadata"].get("annotations") or {}
    default = any(annotations.get(key) == "true" for key in _DEFAULT_CLASS)
    return StorageClass(item["metadata"]["name"], default, item.get("volumeBindingMode") == "WaitForFirstConsumer")


def claim(item: Json) -> Claim:
    spec, status = item["spec"], item.get("status") or {}
    name, phase = item["metadata"]["name"], status.get("phase") or "Pending"
    document = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **item}  # the items of a list lack both
    return Claim(name, phase, spec.get("storageClassName") or "", spec.get("volumeName") or "", document)


def volume(item: Json) -> Volume:
    required = (item["spec"].get("nodeAffinity") or {}).get("required") or {}
    terms = tuple(required.get("nodeSelectorTerms") or ())
    return Volume(item["metadata"]["name"], item["spec"].get("storageClassName") or "", terms)


def queue(item: Json) -> Queue:
    """A LocalQueue; without the condition Active nothing is known against it."""
    conditions = (item.get("status") or {}).get("conditions") or ()
    against = [c for c in conditions if c["type"] == "Active" and c["status"] == "False"]
    return Queue(item["metadata"]["name"], against[0].get("reason") or "not active" if against else "")


def quota(item: Json) -> Quota:
    spec, status = item["spec"], item.get("status") or {}
    scoped = bool(spec.get("scopes") or spec.get("scopeSelector"))
    return Quota(item["metadata"]["name"], _amounts(spec.get("hard")), _amounts(status.get("used")), scoped)


def rejected(code: int, status: Json) -> Rejected | None:
    """A Status that refuses a resource; None where it refuses the question instead: no permission, no dry run there."""
    message = str(status.get("message") or "")
    if code in (401, 409, 429) or code >= 500 or (code == 403 and _NO_PERMISSION.search(message)):
        return None
    if "does not support dry run" in message:  # a webhook with side effects
        return None
    details = status.get("details") or {}
    causes = [(c.get("field") or "", c.get("message") or "") for c in details.get("causes") or ()]
    if not causes:
        causes = [(path, message) for path in _UNKNOWN_FIELD.findall(message)]
    return Rejected(code, message, tuple(dict.fromkeys(causes)))
