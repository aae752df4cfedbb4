"""Where pods land: the head beside the workers, taints, node labels, zones."""

from __future__ import annotations

import re
from collections.abc import Iterator

from seatrial.check.manifest import PodTemplate, RayClusterSpec, RayGroup, accelerators
from seatrial.check.rule import DLC_EKS, POD_GO, Facts, Hit, Severity, nvidia, rule
from seatrial.check.values import CannotTell, Value
from seatrial.hardware.images import image
from seatrial.hardware.instances import HYPERPOD, instance

_TAINTS = "https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/"
_AFFINITY = "https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/"
_EFA = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html"
_HYPERPOD = "https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-resiliency-node-labels.html"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_ZONES = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone", "topology.k8s.aws/zone-id")
_GPU_TAINT = re.compile("gpu|nvidia|accelerator", re.IGNORECASE)  # in the key or the value
_NO_GPU_TAINT = re.compile(r"efa\b|spot|capacity-?type|node(-role)?\.kubernetes\.io/", re.IGNORECASE)  # of any node
# Labels that KubeRay gives the pods of every cluster alike (labelPod); a copied manifest repeats the group's name.
_OF_EVERY_CLUSTER = {
    "ray.io/node-type",
    "ray.io/is-ray-node",
    "ray.io/group",
    "app.kubernetes.io/name",
    "app.kubernetes.io/created-by",
}


def node_labels(pod: PodTemplate) -> dict[str, list[Value]]:
    """The node labels that a pod requires, with the values that would do; nothing of Exists, NotIn and the like."""
    chosen = {key: [value] for key, value in pod.spec["nodeSelector"].items()}
    found: dict[str, list[Value]] = {}
    for term in pod.spec.at("affinity", "nodeAffinity", _REQUIRED, "nodeSelectorTerms"):
        for expression in term["matchExpressions"]:
            values = list(expression["values"]) if expression["operator"].raw == "In" else []
            found.setdefault(expression["key"].raw, []).extend(values)
    return {**found, **chosen}  # both must hold, and the selector names one value


def _hyperpod(pod: PodTemplate) -> bool:
    """Whether a pod asks for SageMaker HyperPod's nodes: their types begin with `ml.`."""
    labelled = any(key.startswith("sagemaker.amazonaws.com/") for key in node_labels(pod))
    return labelled or any(value.raw.startswith(HYPERPOD) for value in pod.instance_types)


def _gpu_workers(head: RayGroup) -> list[RayGroup]:
    return [group for group in head.cluster.workers if nvidia(group)]


def _pods_that_train(cluster: RayClusterSpec) -> int:
    """Pods that train together, on the head too where it holds GPUs. Raises CannotTell."""
    return sum(group.pods for group in cluster.trains)


def _alone(cluster: RayClusterSpec) -> bool:
    """Whether surely one pod trains at most."""
    try:
        return _pods_that_train(cluster) < 2
    except CannotTell:
        return False


def _beside_gpus(head: RayGroup) -> tuple[Value, str] | None:
    """What puts a head on GPU nodes: the labels it requires; two equal placeholders are equal whatever they become."""
    for value in head.instance_types:
        known = instance(value.raw)
        if known is not None and known.gpus:
            return value, f"on {value.raw}, which has GPUs"
    asked = {key: [value.raw for value in values] for key, values in node_labels(head).items()}
    for worker in _gpu_workers(head):
        types = {value.raw for value in worker.instance_types}
        for value in head.instance_types:
            if value.raw in types:
                return value, f"on {value.raw}, as {worker.title}"
        if asked and asked == {key: [value.raw for value in values] for key, values in node_labels(worker).items()}:
            return head.spec["nodeSelector"], f"on the nodes of {worker.title}"
    return None


def _may_meet_gpus(head: RayGroup) -> bool:
    """Whether a head may land on a GPU node: it asks for one, or it asks for nothing and no taint keeps it off."""
    if _beside_gpus(head):
        return True
    tainted = all(worker.tolerates("nvidia.com/gpu") for worker in _gpu_workers(head))
    return not head.pinned and (not tainted or head.tolerates("nvidia.com/gpu"))


@rule("gpu-on-head", "warning", "head", title="GPUs on the head", fix="leave GPUs to worker groups", source=DLC_EKS)
def gpu_on_head(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """The GCS, the dashboard and the driver share a node with training: what runs out of memory there ends the whole
    cluster, and its workers are unlike the others.
    """
    alone = not group.cluster.workers or group.cluster.manifest.is_service
    for key, value in accelerators(group)[:1]:
        if value.known_quantity():
            yield Hit(
                value, f"{key} {value.require_known()} on the head", "GPUs on workers only", "info" if alone else None
            )


@rule(
    "head-num-gpus-unset",
    "warning",
    "head",
    title="a head that may take a node's GPUs for its own",
    fix='set num-gpus: "0" in the head\'s rayStartParams',
    source=DLC_EKS,
)
def head_num_gpus(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """Without a GPU limit and without num-gpus Ray counts the GPUs that it sees. CUDA images ask the NVIDIA runtime for
    all of them: on a GPU node Ray then runs training workers on the head.
    """
    names = ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
    hidden = any(name in group.env and group.variable(name).raw != "all" for name in names)
    if hidden or accelerators(group) or group.params["num-gpus"].scalar or not _gpu_workers(group):
        return
    if _may_meet_gpus(group):
        yield Hit(group.params, "neither num-gpus nor a GPU limit, and GPU nodes are open to the head", 'num-gpus: "0"')


@rule(
    "head-no-nvidia-void",
    "warning",
    "head",
    title="a CUDA image on a head without GPUs",
    fix="set NVIDIA_VISIBLE_DEVICES to void on the head",
    source=DLC_EKS,
)
def head_no_void(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """Where nvidia is the node's default runtime its hook looks for a driver for every CUDA image: on a node without
    GPUs the head then never starts.
    """
    if accelerators(group) or "NVIDIA_VISIBLE_DEVICES" in group.env or not _gpu_workers(group):
        return
    known = image(group.image.raw)
    cuda = known is not None and known.dlc and bool(known.cuda)
    yield Hit(group.container["env"], "no NVIDIA_VISIBLE_DEVICES on the head", "void", None if cuda else "info")


@rule(
    "head-on-gpu-node",
    "warning",
    "head",
    title="a head without GPUs on the workers' GPU nodes",
    fix="give the head nodes of its own",
    source=DLC_EKS,
)
def head_on_gpu_node(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """It takes CPU and memory from a GPU node: a worker that wants the whole node no longer fits and stays Pending."""
    if not accelerators(group) and _gpu_workers(group) and (found := _beside_gpus(group)):
        yield Hit(found[0], f"the head is {found[1]}", "a CPU node")


@rule(
    "gpu-no-toleration",
    "warning",
    "gpu",
    title="GPU pods that tolerate no GPU taint",
    fix="tolerate nvidia.com/gpu with operator Exists; harmless where there is no taint",
    source=_TAINTS,
)
def gpu_no_toleration(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """GPU nodes are commonly tainted with nvidia.com/gpu to keep other pods off; on such nodes the pods stay Pending
    with `untolerated taint`.
    """
    given, cluster = group.spec["tolerations"], group.cluster
    if group.tolerates("nvidia.com/gpu") or any(_GPU_TAINT.search(t["key"].raw + t["value"].raw) for t in given):
        return
    own = any(not _NO_GPU_TAINT.search(toleration["key"].raw) for toleration in given)  # a taint that someone chose
    # HyperPod has no taints by default; Kueue's flavours tolerate.
    elsewhere = own or cluster.manifest.kueue or any(_hyperpod(other) for other in cluster.groups)
    severity: Severity | None = "info" if elsewhere else None
    yield Hit(given, f"{group.title} tolerates no GPU taint", "nvidia.com/gpu: Exists", severity)


@rule(
    "gpu-no-node-selector",
    "warning",
    "gpu",
    title="GPU pods that any GPU node may take",
    fix="select the instance type, node group or capacity reservation",
    source=_AFFINITY,
)
def gpu_no_node_selector(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """Nothing says which GPU: an autoscaler picks the cheapest type that fits, pods of one gang get different GPUs, or
    nodes without EFA.
    """
    manifest = group.cluster.manifest
    if group.pinned or manifest.kueue:  # Kueue's resource flavours bring node labels
        return
    severity: Severity | None = "info" if manifest.is_service or _alone(group.cluster) else None
    yield Hit(group.spec["nodeSelector"], f"{group.title} selects no nodes", "an instance type", severity)


@rule(
    "no-worker-spread",
    "info",
    "gpu",
    title="workers that may share a node",
    fix="spread them by podAntiAffinity on kubernetes.io/hostname, or take whole nodes",
    source=_AFFINITY,
    needs=("instance",),
)
def no_worker_spread(group: RayGroup, facts: Facts) -> Iterator[Hit]:
    """The pod takes a part of its instance type only: two of them on one node share its network."""
    spread = group.spec.at("affinity", "podAntiAffinity") or group.spec["topologySpreadConstraints"]
    limit = group.limit("nvidia.com/gpu")
    if spread or not limit or not group.instance_types or group.pods < 2:
        return
    for value in group.instance_types:
        known = facts.instance(value)
        if (limit.known_quantity() or 0) < known.gpus:
            seen = f"{limit.require_known()} of the {known.gpus} GPUs of {value.require_known()}, and no anti-affinity"
            yield Hit(limit, seen, "one pod for each node")
            return


@rule(
    "antiaffinity-crosses-clusters",
    "warning",
    "group",
    title="anti-affinity that holds between clusters too",
    fix="match ray.io/cluster, or a label of your own, as well",
    source=POD_GO,
)
def antiaffinity_crosses(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """KubeRay labels the pods of every cluster so: two clusters in a namespace keep each other's workers off, and the
    second one stays Pending.
    """
    for term in group.spec.at("affinity", "podAntiAffinity", _REQUIRED):
        selector = term["labelSelector"]
        keys = {key for key, _ in selector["matchLabels"].items()}
        keys |= {expression["key"].raw for expression in selector["matchExpressions"]}
        if keys and keys <= _OF_EVERY_CLUSTER and not list(term["matchLabelKeys"]):
            yield Hit(selector, f"matches {', '.join(sorted(keys))} of any cluster", "a label of this cluster")


@rule(
    "multi-az-gang",
    "info",
    "gpu",
    title="an EFA gang that is not held in one zone",
    fix="select one topology.kubernetes.io/zone",
    source=_EFA,
)
def multi_az_pods_that_train(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """EFA traffic cannot cross Availability Zones: pods in two zones talk over TCP, or not at all."""
    labels, manifest = node_labels(group), group.cluster.manifest
    if not group.limit("vpc.amazonaws.com/efa") or manifest.is_service or manifest.kueue:
        return
    zones = [value for key in _ZONES for value in labels.get(key, [])]
    names = {zone.raw for zone in zones}
    if len(names) > 1 and _pods_that_train(group.cluster) > 1:
        yield Hit(zones[0], f"{len(names)} zones for a gang with EFA", "one zone", "warning")
    held = any("nodegroup" in key or "capacity-" in key for key in labels)  # mostly of one zone
    if not zones and not held and not group.spec.at("affinity", "podAffinity") and _pods_that_train(group.cluster) > 1:
        yield Hit(group.spec["nodeSelector"], f"no zone for {group.title}, with EFA", "one zone")


@rule(
    "hyperpod-health-selector",
    "info",
    "group",
    title="HyperPod nodes in any state of health",
    fix="select sagemaker.amazonaws.com/node-health-status: Schedulable",
    source=_HYPERPOD,
)
def hyperpod_health(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """Without the selector pods land on nodes whose deep health checks still run."""
    for value in group.instance_types[:1]:
        if value.raw.startswith(HYPERPOD) and "sagemaker.amazonaws.com/node-health-status" not in node_labels(group):
            yield Hit(value, f"{value.raw} without a health selector", "node-health-status: Schedulable")


@rule(
    "instance-type-prefix",
    "error",
    "group",
    title="an instance type that such nodes never have",
    fix="write the type as the nodes are labelled",
    source=_HYPERPOD,
)
def instance_type_prefix(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """HyperPod's nodes are labelled with `ml.` before the type, those of EKS node groups without: no node matches both
    selectors, and the pods stay Pending.
    """
    labels = node_labels(group)
    sagemaker = any(key.startswith("sagemaker.amazonaws.com/") for key in labels)
    for value in group.instance_types:
        prefixed = value.raw.startswith(HYPERPOD)
        if sagemaker and not prefixed and not value.unknown:
            yield Hit(
                value, f"{value.require_known()} beside a HyperPod selector", f"{HYPERPOD}{value.require_known()}"
            )
        elif prefixed and "eks.amazonaws.com/nodegroup" in labels:
            yield Hit(value, f"{value.raw} beside eks.amazonaws.com/nodegroup", value.raw.removeprefix(HYPERPOD))
