"""Whether the nodes can run the pods: fit, room, device plugins, drivers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.check.manifest import RayGroup, accelerators
from seatrial.check.operator import overwrites_command
from seatrial.check.rule import K8S_DOCS, Facts, Hit, Severity
from seatrial.check.server.fit import FITS, LABELS, TAINTS, Demand, demand, misfit, room
from seatrial.check.server.interview import Interview, NotAnswered
from seatrial.check.server.rule import server_rule
from seatrial.check.values import Value
from seatrial.kube.nodes import Node

_SCHEDULING = f"{K8S_DOCS}/concepts/scheduling-eviction/assign-pod-node/"
_DEVICE_PLUGINS = f"{K8S_DOCS}/concepts/extend-kubernetes/compute-storage-net/device-plugins/"
_CUDA = "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html"
_EFA = "vpc.amazonaws.com/efa"
_PLUGINS = {"nvidia.com/": "NVIDIA", _EFA: "EFA"}  # by the beginning of a resource: whose device plugin offers it
_DRIVER = (
    "nvidia.com/cuda.driver-version.major",
    "nvidia.com/cuda.driver.major",
)  # GPU feature discovery, new and old
_LEAST_DRIVER = {13: 580, 12: 525}  # by major version of CUDA; minor version compatibility


@server_rule(
    "no-node-fits",
    "error",
    "group",
    title="pods that fit no node",
    fix="compare with `kubectl describe nodes`",
    source=_SCHEDULING,
)
def no_node_fits(group: RayGroup, interview: Interview) -> Iterator[Hit]:
    """No node is ready, has the labels, has no taint against the pod and is large enough even when empty: the pod stays
    Pending. It is a warning where an autoscaler may add nodes.
    """
    if not _starts(group):
        return
    wanted, nodes = _demand(group, interview), interview.nodes()
    found = [misfit(node, wanted) for node in nodes]
    if any(stage == FITS for stage, _ in found):
        return
    severity, hope = _growth(interview)
    furthest = max((stage for stage, _ in found), default=LABELS)
    reasons = "; ".join(f"{count} {reason}" for reason, count in Counter(reason for _, reason in found).most_common(4))
    seen = f"no node for {group.title}: {f'of {len(nodes)}, {reasons}' if nodes else 'there are none'}{hope}"
    yield Hit(_place(group, furthest, wanted, nodes), seen, "a node that would take the pod", severity)


def _starts(group: RayGroup) -> bool:
    """Whether the group has pods, or a placeholder for their number."""
    if group.value["suspend"].known_flag():
        return False
    counts = (group.value["replicas"], group.value["minReplicas"], group.hosts)
    return group.is_head or any(count.unknown for count in counts) or group.pods > 0


def _place(group: RayGroup, stage: int, wanted: Demand, nodes: tuple[Node, ...]) -> Value:
    """The part of the pod that stops it on the nodes that pass the most tests."""
    if stage == LABELS:
        return group.spec["nodeSelector"] or group.spec["affinity"]
    if stage == TAINTS:
        return group.spec["tolerations"]
    for key in sorted(wanted.requests):
        if stage > TAINTS and all(node.allocatable.get(key, 0) < wanted.requests[key] for node in nodes):
            return group.requested(key)
    return group.container["resources"]


def _growth(interview: Interview) -> tuple[Severity | None, str]:
    """A warning and its hint where nodes may be added; None where the rule's own severity holds."""
    try:
        names = interview.autoscalers()
    except NotAnswered:
        return "warning", "; whether an autoscaler may add one is unknown"
    return ("warning", f"; {names[0]} may add one") if names else (None, "")


def _demand(group: RayGroup, interview: Interview) -> Demand:
    return demand(group, _zones(group, interview))


def _zones(group: RayGroup, interview: Interview) -> list[tuple[Mapping[str, Any], ...]]:
    """The node terms of the volumes that the group's claims are bound to, as far as the cluster says."""
    names = {mount.claim.raw for mount in group.mounts if mount.claim}
    try:
        claims = interview.claims(interview.namespace(group.cluster.manifest)) if names else ()
        bound = {claim.volume for claim in claims if claim.name in names and claim.phase == "Bound"}
        return [volume.terms for volume in interview.volumes() if volume.name in bound] if bound else []
    except NotAnswered:
        return []


@server_rule(
    "too-few-nodes",
    "error",
    "group",
    title="more pods than the nodes have room for",
    fix="ask for fewer or smaller pods, or add nodes",
    source=_SCHEDULING,
)
def too_few_nodes(group: RayGroup, interview: Interview) -> Iterator[Hit]:
    """The nodes that fit cannot hold all of the group's pods at once, even when empty. It is a warning where an
    autoscaler may add nodes.
    """
    if not _starts(group) or group.pods < 2:
        return
    wanted = _demand(group, interview)
    fitting = [node for node in interview.nodes() if misfit(node, wanted)[0] == FITS]
    places = sum(room(node, wanted) for node in fitting)
    if 0 < places < group.pods:
        severity, hope = _growth(interview)
        where = "one node" if len(fitting) == 1 else f"{len(fitting)} nodes"
        seen = f"{group.pods} pods of {group.title}, room for {places} on {where}{hope}"
        yield Hit(group.value["replicas"], seen, f"room for {group.pods}", severity)


@server_rule(
    "device-plugin-missing",
    "error",
    "group",
    title="a device that no node and no device plugin offers",
    fix="install the NVIDIA device plugin or GPU operator, and the EFA device plugin",
    source=_DEVICE_PLUGINS,
)
def device_plugin_missing(group: RayGroup, interview: Interview) -> Iterator[Hit]:
    """The scheduler knows GPUs and EFA interfaces only from a device plugin on the nodes. It is a warning where an
    autoscaler may add nodes: their image may bring the plugin.
    """
    wanted = {
        key: value for key, value in [*accelerators(group), (_EFA, group.requested(_EFA))] if value.known_quantity()
    }
    for prefix, whose in _PLUGINS.items():
        value = next((value for key, value in wanted.items() if key.startswith(prefix)), None)
        if value is None or not _starts(group) or _offered(prefix, interview) or _has_plugin(whose.lower(), interview):
            continue
        severity, hope = _growth(interview)
        seen = f"no node offers {value.path[-1]}, and there is no {whose} device plugin{hope}"
        yield Hit(value, seen, f"the {whose} device plugin", severity)


def _offered(prefix: str, interview: Interview) -> bool:
    return any(
        key.startswith(prefix) and amount for node in interview.nodes() for key, amount in node.allocatable.items()
    )


def _has_plugin(word: str, interview: Interview) -> bool:
    """Whether a DaemonSet is that maker's device plugin, by its name or image."""
    names = (name for daemon_set in interview.daemon_sets() for name in (daemon_set.name, *daemon_set.images))
    return any(word in name and "device-plugin" in name for name in names)


@server_rule(
    "cuda-driver-too-old",
    "error",
    "gpu",
    title="nodes whose NVIDIA driver is too old for the image",
    fix="use nodes with a newer driver, or an image of an older CUDA",
    source=_CUDA,
)
def cuda_driver_too_old(group: RayGroup, interview: Interview) -> Iterator[Hit]:
    """CUDA 13 needs driver 580 or later, CUDA 12 driver 525. With an older one `torch.cuda.is_available()` is False and
    NCCL does not start. The image's own check does not run under KubeRay.
    """
    cuda = Facts("").image(group.image).cuda or ""
    least = _LEAST_DRIVER.get(int(cuda.partition(".")[0] or 0))
    if least is None or overwrites_command(group):  # such a command may load CUDA's compatibility libraries
        return
    wanted = _demand(group, interview)
    fitting = [node for node in interview.nodes() if misfit(node, wanted)[0] == FITS]
    drivers = {node.name: driver for node in fitting if (driver := _driver(node))}
    old = {name: driver for name, driver in drivers.items() if driver < least}
    if old:
        name, driver = next(iter(old.items()))
        seen = f"CUDA {cuda} on driver {driver} of {name}: {len(old)} of {len(fitting)} that would take the pod"
        yield Hit(group.image, seen, f"driver {least} or later", None if len(old) == len(fitting) else "warning")


def _driver(node: Node) -> int:
    """The major version of the node's driver, 0 where no label says it."""
    labels = (node.labels.get(key, "") for key in _DRIVER)
    return next((int(label) for label in labels if label.isdigit()), 0)
