"""What takes nodes away under a gang: Karpenter and the Cluster Autoscaler, and what holds them off."""

from __future__ import annotations

from collections.abc import Iterator

from seatrial.check.manifest import Manifest, RayClusterSpec, RayGroup
from seatrial.check.rule import POD_GO, Facts, Hit, Severity, rule
from seatrial.check.rules.placement import node_labels
from seatrial.check.values import Value
from seatrial.hardware.instances import instance

_KARPENTER = "https://karpenter.sh/docs/concepts"
_DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
_SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"


@rule(
    "disruption-annotation-on-cr",
    "error",
    "manifest",
    title="an eviction guard where nothing reads it",
    fix="put it in template.metadata.annotations of the head and of every worker group",
    source=POD_GO,
)
def disruption_on_cr(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """KubeRay does not copy the resource's annotations to pods. Karpenter and the Cluster Autoscaler look at pods:
    where one of them runs, it drains the node in the middle of training.
    """
    for key, value in manifest.metadata["annotations"].items() if manifest.cluster else ():
        if manifest.cluster and (key.startswith("karpenter.sh/do-not-") or key == _SAFE_TO_EVICT):
            without = [group.title for group in manifest.cluster.groups if not group.metadata.at("annotations", key)]
            if without:
                drains = not manifest.is_service and manifest.cluster.trains and _drained(manifest.cluster, key)
                severity: Severity | None = None if drains else "warning"
                seen = f"{key} on the {manifest.kind}, not on the pods of {', '.join(without)}"
                yield Hit(value, seen, "on the pods", severity)


def _drained(cluster: RayClusterSpec, key: str) -> bool:
    """Whether the manifest shows that what reads the guard `key` is there."""
    if key != _SAFE_TO_EVICT:
        return any(_karpenter(group) for group in cluster.groups)
    labels = [(name, value.raw) for group in cluster.groups for name, v in node_labels(group).items() for value in v]
    return any("cluster-autoscaler" in word for label in labels for word in label)


def _karpenter(group: RayGroup) -> bool:
    """Whether the manifest shows that Karpenter makes a group's nodes, or that its authors expect so."""
    for key, values in node_labels(group).items():
        words = [key, *(value.raw for value in values)]
        if any("karpenter" in word.lower() for word in words) or key == "eks.amazonaws.com/compute-type":
            return True
        if any("cluster-autoscaler" in word for word in words) or key == "eks.amazonaws.com/nodegroup":
            return False
    others = (other for other in group.cluster.groups if other.value.path != group.value.path)
    return bool(_node_pools(group.cluster.manifest)) or any(_guarded(other) for other in others)


def _guarded(group: RayGroup) -> bool:
    guard = group.metadata.at("annotations", _DO_NOT_DISRUPT)
    return bool(guard) and guard.raw != "false"


def _node_pools(manifest: Manifest) -> list[Value]:
    return [
        other for other in manifest.others if other["kind"].raw == "NodePool" and "karpenter" in other["apiVersion"].raw
    ]


@rule(
    "no-do-not-disrupt",
    "warning",
    "group",
    title="pods that Karpenter may move",
    fix='set karpenter.sh/do-not-disrupt: "true" in template.metadata.annotations',
    source=f"{_KARPENTER}/disruption/",
)
def no_do_not_disrupt(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """Karpenter drains a node that it finds underutilized or drifted: a worker goes in the middle of training, and with
    the head the whole job.
    """
    manifest = group.cluster.manifest
    if manifest.is_service or not group.cluster.trains or _guarded(group):
        return
    if not manifest.metadata.at("annotations", _DO_NOT_DISRUPT) and _karpenter(group):  # else the rule above says it
        yield Hit(group.metadata["annotations"], f"{group.title} has no {_DO_NOT_DISRUPT}", '"true"')


def _for_gpus(pool: Value) -> bool:
    template = pool.at("spec", "template", "spec")
    names = [taint["key"].raw for taint in template["taints"]] + [key for key, _ in pool.at("spec", "limits").items()]
    for requirement in template["requirements"]:
        known = (instance(value.raw) for value in requirement["values"])
        if "instance-gpu" in requirement["key"].raw or any(found and found.gpus for found in known):
            return True
    return "nvidia.com/gpu" in names


@rule(
    "nodepool-consolidates",
    "warning",
    "manifest",
    title="a GPU NodePool that removes nodes in use",
    fix="set consolidationPolicy: WhenEmpty, or a budget of 0 nodes",
    source=f"{_KARPENTER}/disruption/",
)
def nodepool_consolidates(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """With WhenEmptyOrUnderutilized, the default, Karpenter removes or replaces a node to save cost although a worker
    runs there.
    """
    trains = manifest.cluster.trains if manifest.cluster else []
    if manifest.is_service or not trains or all(_guarded(group) for group in trains):
        return
    for pool in filter(_for_gpus, _node_pools(manifest)):
        disruption = pool.at("spec", "disruption")
        closed = any(b["nodes"].raw in ("0", "0%") and not b["schedule"] for b in disruption["budgets"])
        policy = disruption["consolidationPolicy"]
        if not closed and policy.require_known() in ("", "WhenEmptyOrUnderutilized", "WhenUnderutilized"):
            yield Hit(policy, policy.require_known() or "WhenEmptyOrUnderutilized, the default", "WhenEmpty")
