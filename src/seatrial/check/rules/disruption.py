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
    """Karpenter and the Cluster Autoscaler read the annotation on pods, and KubeRay does not copy it there from the
    resource. Where one of them runs, it drains nodes in the middle of training.
    """
    cluster = manifest.cluster
    if cluster is None:
        return
    for key, value in manifest.metadata["annotations"].items():
        if not key.startswith("karpenter.sh/do-not-") and key != _SAFE_TO_EVICT:
            continue
        without = [group.title for group in cluster.groups if not group.metadata.at("annotations", key)]
        if without:
            # An error only where nodes are surely drained, and a drained node ends training.
            drains = not manifest.is_service and cluster.trains and _drained(cluster, key)
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
        # compute-type selects EKS Auto Mode, which is Karpenter; a managed node group is none of its nodes.
        if any("karpenter" in word.lower() for word in words) or key == "eks.amazonaws.com/compute-type":
            return True
        if any("cluster-autoscaler" in word for word in words) or key == "eks.amazonaws.com/nodegroup":
            return False
    # No label decides: a NodePool beside the resource or a guard on another group shows that Karpenter is there.
    others = (other for other in group.cluster.groups if other.value.path != group.value.path)
    return bool(_node_pools(group.cluster.manifest)) or any(_guarded(other) for other in others)


def _guarded(group: RayGroup) -> bool:
    guard = group.metadata.at("annotations", _DO_NOT_DISRUPT)
    return bool(guard) and guard.raw != "false"  # a placeholder counts as a guard: it is there for one


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
    """Karpenter drains a node that it finds underutilized or drifted. The run loses a worker in the middle of training,
    or with the head everything.
    """
    manifest = group.cluster.manifest
    if manifest.is_service or not group.cluster.trains or _guarded(group):
        return
    if not manifest.metadata.at("annotations", _DO_NOT_DISRUPT) and _karpenter(group):  # else the rule above says it
        yield Hit(group.metadata["annotations"], f"{group.title} has no {_DO_NOT_DISRUPT}", '"true"')


def _for_gpus(pool: Value) -> bool:
    template = pool.at("spec", "template", "spec")
    # A pool says that it is for GPUs by a taint, a limit or a requirement: by category, or by types that have GPUs.
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
    """With WhenEmptyOrUnderutilized, the default, Karpenter removes or replaces a node to save cost even while a worker
    runs there.
    """
    trains = manifest.cluster.trains if manifest.cluster else []
    if manifest.is_service or not trains or all(_guarded(group) for group in trains):
        return  # Karpenter leaves a node alone while a guarded pod runs there
    for pool in filter(_for_gpus, _node_pools(manifest)):
        disruption = pool.at("spec", "disruption")
        # A budget of 0 without a schedule holds always; one with a schedule only for its hours.
        closed = any(b["nodes"].raw in ("0", "0%") and not b["schedule"] for b in disruption["budgets"])
        policy = disruption["consolidationPolicy"]
        if not closed and policy.require_known() in ("", "WhenEmptyOrUnderutilized", "WhenUnderutilized"):
            yield Hit(policy, policy.require_known() or "WhenEmptyOrUnderutilized, the default", "WhenEmpty")
