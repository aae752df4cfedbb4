"""The pod template and the fields of one group: which container is Ray's, and what KubeRay sets by itself."""

from __future__ import annotations

from collections.abc import Iterator

from seatrial.check.manifest import PodTemplate, RayGroup
from seatrial.check.rule import POD_GO, VALIDATION_GO, Facts, Hit, rule
from seatrial.check.values import CannotTell, Value
from seatrial.hardware.images import image


@rule(
    "containers-missing",
    "error",
    "pod",
    title="a pod template without a container",
    fix="add the Ray container",
    source=VALIDATION_GO,
)
def containers_missing(pod: PodTemplate, _: Facts) -> Iterator[Hit]:
    """KubeRay refuses a cluster whose group has no container to start Ray in. Of a RayJob's submitter it takes the
    first container without asking, and submits nothing.
    """
    if pod.template and not pod.container:  # `field-missing` says it of a template
        pod.spec["containers"].require_known()  # a placeholder may become a list of them
        yield Hit(pod.spec["containers"], f"the {pod.title} has no container", "one that runs Ray")


@rule(
    "ray-container-not-first",
    "error",
    "group",
    title="the Ray container is not the first one",
    fix="move the Ray container to the front",
    source=POD_GO,
)
def ray_container_first(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """KubeRay takes the first container as the Ray container: it puts `ray start`, probes and environment into the
    sidecar.
    """
    containers = list(group.spec["containers"])
    if len(containers) < 2 or _is_ray(containers[0]):
        return
    for later in containers[1:]:
        if _is_ray(later):
            yield Hit(containers[0]["name"], f"{containers[0]['name'].raw} is first", f"{later['name'].raw} first")


def _is_ray(container: Value) -> bool:
    """By the name that KubeRay's documentation gives it, or by an image that the table knows."""
    known = not container["image"].unknown and image(container["image"].raw) is not None
    return known or container["name"].raw in ("ray", "ray-head", "ray-worker")


@rule(
    "reserved-label-override",
    "info",
    "group",
    title="labels that KubeRay sets itself",
    fix="remove them",
    source=POD_GO,
)
def reserved_label(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """KubeRay ignores ray.io/cluster, ray.io/group and ray.io/node-type in a template and sets its own."""
    for key in ("ray.io/cluster", "ray.io/group", "ray.io/node-type"):
        if label := group.metadata.at("labels", key):
            yield Hit(label, f"sets {key}", "no label of that name: KubeRay sets it")


@rule(
    "operator-managed-env",
    "warning",
    "group",
    title="a variable that KubeRay sets itself",
    fix="remove it",
    source=POD_GO,
)
def operator_managed_env(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """KubeRay appends its own value; of two entries of one name the last one counts. RAY_ADDRESS of a worker is kept,
    and one that names another head joins the wrong cluster.
    """
    for name in (
        "RAY_CLUSTER_NAME",
        "RAY_CLUSTER_NAMESPACE",
        "RAY_NODE_TYPE_NAME",
        "KUBERAY_GEN_RAY_START_CMD",
        "RAY_CLOUD_INSTANCE_ID",
    ):
        if name in group.env:
            yield Hit(group.env[name]["name"], f"sets {name}", "no variable of that name: KubeRay sets it")
    if not group.is_head and "RAY_ADDRESS" in group.env:
        yield Hit(group.env["RAY_ADDRESS"]["name"], "sets RAY_ADDRESS on a worker", "KubeRay's own: the head service")


@rule(
    "group-resources-conflict",
    "error",
    "group",
    title="group resources beside rayStartParams for the same",
    fix="keep one of them",
    source=VALIDATION_GO,
)
def group_resources_conflict(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """KubeRay refuses a group that has both `resources` and num-cpus, num-gpus, memory or resources in rayStartParams;
    nothing starts.
    """
    if not group.value["resources"].items():
        return
    for key in ("num-cpus", "num-gpus", "memory", "resources"):
        if group.params[key].scalar:
            yield Hit(group.params[key], f"{key} beside the group's resources", "one of the two")


@rule(
    "ray-labels-param",
    "error",
    "group",
    title="Ray labels in rayStartParams",
    fix="use the group's `labels`",
    source=VALIDATION_GO,
)
def ray_labels_param(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """KubeRay refuses rayStartParams.labels; nothing starts."""
    if group.params["labels"].scalar:
        yield Hit(group.params["labels"], "labels in rayStartParams", "the group's own `labels`")


@rule(
    "replicas-contradict",
    "error",
    "worker",
    title="minReplicas above maxReplicas, or a negative count",
    fix="put them in order",
    source=VALIDATION_GO,
)
def replicas_contradict(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """KubeRay refuses the cluster; nothing starts."""
    least, most = group.value["minReplicas"], group.value["maxReplicas"]
    written = [value for value in (least, most, group.value["replicas"]) if value]
    for value in (value for value in written if not value.unknown and (value.known_integer() or 0) < 0):
        yield Hit(value, f"saw {value.raw}", "0 or more")
    if (
        least
        and most
        and not least.unknown
        and not most.unknown
        and (least.known_integer() or 0) > (most.known_integer() or 0)
    ):
        yield Hit(least, f"minReplicas {least.raw} above maxReplicas {most.raw}", "minReplicas ≤ maxReplicas")
    if unknown := next((value for value in written if value.unknown), None):
        raise CannotTell(f"{unknown.field} is {unknown.raw}", unknown)
