"""The resource as an API object: version, fields, names, labels."""

from __future__ import annotations

import re
from collections.abc import Iterator

from seatrial.check.manifest import Cluster, Group, Manifest, Pod
from seatrial.check.rule import KUBERAY, POD_GO, SOURCE, VALIDATION_GO, Facts, Hit, rule
from seatrial.check.structure import table
from seatrial.check.values import CannotTell, Value
from seatrial.hardware.images import image
from seatrial.kube.apimachinery import quantity, version

_CRDS = f"{SOURCE}/config/crd/bases"
_QUANTITIES = f"{'https://kubernetes.io/docs'}/reference/kubernetes-api/common-definitions/quantity/"
_DNS1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
GATES = {
    "networkPolicy": "RayClusterNetworkPolicy",
    "tlsOptions": "RayClusterMTLS",
    "historyServerOptions": "RayClusterHistoryServer",
}
_LONGEST = {"RayCluster": 53, "RayJob": 47, "RayService": 47}


def _found_by_structure(*_: object) -> Iterator[Hit]:
    """`structure` finds these while it walks the resource; the entry here is what it reports them under."""
    return iter(())


for _id, _title, _why, _fix in (
    ("unknown-field", "a field that the resource does not have", "kubectl's strict validation refuses it; other clients drop it without a word, and what it was meant to do does not happen.", "remove or rename it"),
    ("field-missing", "a field that the resource must have", "The API server refuses the resource.", "add it"),
    ("type-not-string", "a number or boolean where text belongs", "The API server refuses the resource: values of rayStartParams, environment variables, labels and annotations are text.", "put it in quotes"),
    ("type-not-int", "something else where a number belongs", "The API server refuses the resource.", "write the number without quotes"),
    ("type-mismatch", "a value of the wrong kind", "The API server refuses the resource.", "write what the field expects"),
    ("enum-mismatch", "a word that the field does not know", "The API server refuses the resource, or every pod that KubeRay makes of it.", "use one of the known words"),
):  # fmt: skip
    rule(_id, "error", "manifest", title=_title, why=_why, fix=_fix, source=_CRDS)(_found_by_structure)


@rule(
    "quantity-invalid", "error", "group",
    title="an amount that is no Kubernetes quantity",
    why="`16GB`, `16 Gi` and `4 cores` are no quantities: the API server refuses the resource. GPUs and EFA interfaces are whole numbers.",
    fix="write it as 500m, 4 or 16Gi", source=_QUANTITIES,
)  # fmt: skip
def quantity_invalid(group: Group, _: Facts) -> Iterator[Hit]:
    for value in _amounts(group):
        if not value.scalar or value.unknown:
            continue
        amount, key = quantity(value.raw), str(value.path[-1])
        if amount is None:
            yield Hit(value, f"saw {value.raw}", "a quantity such as 500m, 4 or 16Gi")
        elif "/" in key and amount.denominator != 1:
            yield Hit(value, f"saw {value.raw}", "a whole number: extended resources are not divided")


def _amounts(group: Group) -> Iterator[Value]:
    for container in group.spec["containers"]:
        for section in ("limits", "requests"):
            yield from (value for _, value in container.at("resources", section).items())
    for volume in group.spec["volumes"]:
        yield volume.at("emptyDir", "sizeLimit")


@rule(
    "api-v1alpha1", "warning", "manifest",
    title="the old API version ray.io/v1alpha1",
    why="It is not the stored version and lacks newer fields (submissionMode, backoffLimit, authOptions, resources …), which are refused or dropped.",
    fix="write apiVersion: ray.io/v1", source=_CRDS,
)  # fmt: skip
def api_v1alpha1(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    if manifest.api_version == "ray.io/v1alpha1":
        yield Hit(manifest.root["apiVersion"], "saw ray.io/v1alpha1", "ray.io/v1")


@rule(
    "field-newer-than-kuberay", "error", "manifest",
    title="a field that this KubeRay's CRD does not have yet",
    why="An older CRD refuses it or drops it without a word; Helm does not upgrade CRDs.",
    fix="upgrade KubeRay and its CRDs, or leave the field out", source=f"{KUBERAY}/issues/2084", needs=("kuberay",),
)  # fmt: skip
def field_newer(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    if manifest.api_version != "ray.io/v1":
        return
    here = version(facts.kuberay)
    for key, since in table()["since"].items():
        kind, _, way = key.partition(":")
        if kind == manifest.kind and (version(since) or ()) > (here or ()):
            for value in _down(manifest.spec, way.split(".")):
                yield Hit(value, f"the field came with KubeRay {since}", f"a field of KubeRay {facts.kuberay}")


def _down(value: Value, way: list[str]) -> Iterator[Value]:
    """Every value down that way, through lists."""
    if value.node is not None and isinstance(value.node.value, list):
        for item in value:
            yield from _down(item, way)
    elif not way:
        if value:
            yield value
    else:
        yield from _down(value[way[0]], way[1:])


@rule(
    "name-too-long", "error", "manifest",
    title="a name that is too long",
    why="KubeRay derives service and pod names from it and refuses longer ones; nothing starts.",
    fix="shorten it", source=VALIDATION_GO,
)  # fmt: skip
def name_too_long(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    name, most = manifest.metadata["name"], _LONGEST[manifest.kind]
    if len(name.text) > most:
        yield Hit(name, f"{len(name.text)} characters", f"at most {most} for a {manifest.kind}")


@rule(
    "name-not-dns1035", "error", "manifest",
    title="a name that cannot be a service's",
    why="KubeRay makes a service of that name: lower case letters, digits and dashes, starting with a letter. It refuses others and nothing starts.",
    fix="use lower case letters, digits and dashes", source=VALIDATION_GO,
)  # fmt: skip
def name_not_dns1035(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    name = manifest.metadata["name"]
    if name.text and not _DNS1035.fullmatch(name.text):
        yield Hit(name, f"saw {name.text}", "[a-z]([-a-z0-9]*[a-z0-9])?")


@rule(
    "pod-name-truncated", "info", "worker",
    title="pod names that will be cut",
    why="KubeRay cuts the prefix of pod names at 50 characters; pods of two groups can look alike.",
    fix="shorten the name of the resource or of the group", source=f"{KUBERAY}/issues/425",
)  # fmt: skip
def pod_name_truncated(group: Group, _: Facts) -> Iterator[Hit]:
    cluster, name = group.cluster.manifest.metadata["name"].text, group.value["groupName"]
    if len(cluster) + 1 + len(name.text) > 50:
        yield Hit(
            name, f"{len(cluster) + 1 + len(name.text)} characters with the cluster's name", "at most 50 together"
        )


@rule(
    "generate-name-apply", "warning", "manifest",
    title="generateName without a name",
    why="`kubectl apply` cannot use generateName; only `kubectl create` can.",
    fix="give it a name, or create it", source=f"{'https://kubernetes.io/docs'}/reference/using-api/api-concepts/#generated-values",
)  # fmt: skip
def generate_name(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    if manifest.metadata["generateName"].scalar and not manifest.metadata["name"].scalar:
        yield Hit(manifest.metadata["generateName"], "generateName and no name", "a name, for kubectl apply")


@rule(
    "group-name-duplicate", "error", "cluster",
    title="two worker groups of one name",
    why="KubeRay tells pods of groups apart by that name; with its webhook off, as it is by default, nothing refuses this and each group counts the other's pods.",
    fix="give each group a name of its own", source=f"{SOURCE}/pkg/webhooks/v1/raycluster_webhook.go",
)  # fmt: skip
def group_name_duplicate(cluster: Cluster, _: Facts) -> Iterator[Hit]:
    seen: set[str] = set()
    for group in cluster.workers:
        name = group.value["groupName"]
        if name.raw and name.raw in seen:
            yield Hit(name, f"a second group named {name.raw}", "names that differ")
        seen.add(name.raw)


@rule(
    "group-name-reserved", "error", "worker",
    title="a worker group named as KubeRay names the head",
    why="`headgroup` is the head's own group label: KubeRay would take the head for one of the group's pods. Under Kueue `head` is the head's pod set.",
    fix="rename the group", source=f"{SOURCE}/controllers/ray/utils/constant.go",
)  # fmt: skip
def group_name_reserved(group: Group, _: Facts) -> Iterator[Hit]:
    name, kueue = group.value["groupName"], bool(group.cluster.manifest.kueue)
    if name.text == "headgroup" or (kueue and name.text == "head"):
        yield Hit(name, f"saw {name.text}", "another name")


@rule(
    "containers-missing", "error", "pod",
    title="a pod template without a container",
    why="KubeRay refuses a cluster whose group has no container to start Ray in. Of a RayJob's submitter it takes the first container without asking, and submits nothing.",
    fix="add the Ray container", source=VALIDATION_GO,
)  # fmt: skip
def containers_missing(pod: Pod, _: Facts) -> Iterator[Hit]:
    if pod.template and not pod.container:  # `field-missing` says it of a template
        pod.spec["containers"].text  # noqa: B018 - raises for a placeholder
        yield Hit(pod.spec["containers"], f"the {pod.title} has no container", "one that runs Ray")


@rule(
    "ray-container-not-first", "error", "group",
    title="the Ray container is not the first one",
    why="KubeRay takes the first container as the Ray container: it puts `ray start`, probes and environment into the sidecar.",
    fix="move the Ray container to the front", source=POD_GO,
)  # fmt: skip
def ray_container_first(group: Group, _: Facts) -> Iterator[Hit]:
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
    "reserved-label-override", "info", "group",
    title="labels that KubeRay sets itself",
    why="KubeRay ignores ray.io/cluster, ray.io/group and ray.io/node-type in a template and sets its own.",
    fix="remove them", source=POD_GO,
)  # fmt: skip
def reserved_label(group: Group, _: Facts) -> Iterator[Hit]:
    for key in ("ray.io/cluster", "ray.io/group", "ray.io/node-type"):
        if label := group.metadata.at("labels", key):
            yield Hit(label, f"sets {key}", "no label of that name: KubeRay sets it")


@rule(
    "operator-managed-env", "warning", "group",
    title="a variable that KubeRay sets itself",
    why="KubeRay appends its own value; of two entries of one name the last one counts. RAY_ADDRESS of a worker is kept, and one that names another head joins the wrong cluster.",
    fix="remove it", source=POD_GO,
)  # fmt: skip
def operator_managed_env(group: Group, _: Facts) -> Iterator[Hit]:
    for name in ("RAY_CLUSTER_NAME", "RAY_CLUSTER_NAMESPACE", "RAY_NODE_TYPE_NAME", "KUBERAY_GEN_RAY_START_CMD", "RAY_CLOUD_INSTANCE_ID"):  # fmt: skip
        if name in group.env:
            yield Hit(group.env[name]["name"], f"sets {name}", "no variable of that name: KubeRay sets it")
    if not group.is_head and "RAY_ADDRESS" in group.env:
        yield Hit(group.env["RAY_ADDRESS"]["name"], "sets RAY_ADDRESS on a worker", "KubeRay's own: the head service")


@rule(
    "group-resources-conflict", "error", "group",
    title="group resources beside rayStartParams for the same",
    why="KubeRay refuses a group that has both `resources` and num-cpus, num-gpus, memory or resources in rayStartParams; nothing starts.",
    fix="keep one of them", source=VALIDATION_GO,
)  # fmt: skip
def group_resources_conflict(group: Group, _: Facts) -> Iterator[Hit]:
    if not group.value["resources"].items():
        return
    for key in ("num-cpus", "num-gpus", "memory", "resources"):
        if group.params[key].scalar:
            yield Hit(group.params[key], f"{key} beside the group's resources", "one of the two")


@rule(
    "ray-labels-param", "error", "group",
    title="Ray labels in rayStartParams",
    why="KubeRay refuses rayStartParams.labels; nothing starts.",
    fix="use the group's `labels`", source=VALIDATION_GO,
)  # fmt: skip
def ray_labels_param(group: Group, _: Facts) -> Iterator[Hit]:
    if group.params["labels"].scalar:
        yield Hit(group.params["labels"], "labels in rayStartParams", "the group's own `labels`")


@rule(
    "alpha-gate-field", "warning", "cluster",
    title="a field behind a feature gate that is off by default",
    why="KubeRay refuses the resource unless the gate is on in the operator.",
    fix="turn the gate on in the operator, or leave the field out", source=f"{SOURCE}/pkg/features/features.go",
    needs=("server",),
)  # fmt: skip
def alpha_gate(cluster: Cluster, _: Facts) -> Iterator[Hit]:
    for value, gate in gated(cluster):
        yield Hit(value, f"needs feature gate {gate}", "a gate that the operator has on")


def gated(cluster: Cluster) -> Iterator[tuple[Value, str]]:
    """Each field that needs a feature gate which is off by default, and the gate."""
    yield from ((cluster.value[field], gate) for field, gate in GATES.items() if cluster.value[field])
    backend = cluster.value.at("gcsFaultToleranceOptions", "backend")
    if backend.text == "rocksdb":
        yield backend, "GCSFaultToleranceEmbeddedStorage"


@rule(
    "replicas-contradict", "error", "worker",
    title="minReplicas above maxReplicas, or a negative count",
    why="KubeRay refuses the cluster; nothing starts.",
    fix="put them in order", source=VALIDATION_GO,
)  # fmt: skip
def replicas_contradict(group: Group, _: Facts) -> Iterator[Hit]:
    least, most = group.value["minReplicas"], group.value["maxReplicas"]
    written = [value for value in (least, most, group.value["replicas"]) if value]
    for value in (value for value in written if not value.unknown and (value.integer or 0) < 0):
        yield Hit(value, f"saw {value.raw}", "0 or more")
    if least and most and not least.unknown and not most.unknown and (least.integer or 0) > (most.integer or 0):
        yield Hit(least, f"minReplicas {least.raw} above maxReplicas {most.raw}", "minReplicas ≤ maxReplicas")
    if unknown := next((value for value in written if value.unknown), None):
        raise CannotTell(f"{unknown.field} is {unknown.raw}", unknown)
