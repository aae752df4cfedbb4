"""Requests and limits: what is missing, what Kubernetes refuses, what is too small."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from seatrial.check.manifest import RayGroup, gpu_key
from seatrial.check.rule import K8S_DOCS, KUBERAY, POD_GO, Facts, Hit, rule
from seatrial.check.values import CannotTell, shown

_EXTENDED = f"{K8S_DOCS}/tasks/configure-pod-container/extended-resource/"


@rule(
    "extended-resource-limits",
    "error",
    "group",
    title="an extended resource whose limit and request differ, or a request alone",
    fix="set limits and requests to the same number",
    source=_EXTENDED,
)
def extended_resource_limits(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """GPUs and EFA interfaces cannot be overcommitted: the API server refuses the pod."""
    for key, request in group.container.at("resources", "requests").items():
        if "/" not in key:
            continue
        limit = group.limit(key)
        if not limit:
            yield Hit(request, f"requests.{key} {request.raw} and no limit", f"limits.{key} {request.raw}")
        elif limit.raw != request.raw and limit.known_quantity() != request.known_quantity():
            yield Hit(request, f"requests {request.raw}, limits {limit.raw}", "the same number")


@rule(
    "no-memory-limit",
    "warning",
    "group",
    title="no memory limit",
    fix="set limits.memory (and requests.memory to the same)",
    source=f"{KUBERAY}/issues/2612",
)
def no_memory_limit(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """KubeRay passes no `memory`, so Ray takes the node's RAM for its own: it schedules, and sizes the object store, by
    memory that the pod does not have. The autoscaler fails without limits.
    """
    told = group.params["memory"].scalar or any(key.lower() == "memory" for key, _ in group.value["resources"].items())
    if group.container and not group.limit("memory") and not told:
        yield Hit(group.container["resources"], f"no limits.memory on the {group.title}", "a memory limit")


@rule(
    "memory-tiny",
    "error",
    "group",
    title="an amount of memory that no container can run in",
    fix="write Gi or Mi",
    source=f"{K8S_DOCS}/concepts/configuration/manage-resources-containers/#meaning-of-memory",
)
def memory_tiny(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """`m` is thousandths, not mega: 16000m is 16 bytes, and a number without a unit is bytes. The container cannot
    start.
    """
    for section in ("limits", "requests"):
        value = group.container.at("resources", section, "memory")
        size = None if value.unknown else value.known_quantity()
        if size is not None and size < 64 << 20:
            yield Hit(value, f"{section}.memory {value.raw} is {float(size):g} bytes", "a size in Gi")


@rule(
    "no-cpu-limit",
    "warning",
    "group",
    title="neither a CPU limit nor num-cpus",
    fix="set limits.cpu, or num-cpus",
    source=f"{KUBERAY}/issues/2612",
)
def no_cpu_limit(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """KubeRay takes num-cpus from the request; without one Ray counts the node's CPUs. The autoscaler needs limits."""
    if not group.container or group.limit("cpu") or group.params["num-cpus"].scalar or group.value["resources"].items():
        return
    request = group.request("cpu")
    seen = f"only requests.cpu {request.raw}" if request else "no CPU limit and no request"
    yield Hit(group.container["resources"], f"{seen} on the {group.title}", "a CPU limit", "info" if request else None)


@rule(
    "requests-ne-limits",
    "warning",
    "group",
    title="requests below limits",
    fix="set requests equal to limits",
    source=f"{K8S_DOCS}/concepts/workloads/pods/pod-qos/",
)
def requests_ne_limits(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """The pod is Burstable: the node may be given more than it has, and this pod is among the first to be evicted.
    Shared memory is sized by the limit.
    """
    below = []
    pairs = [(key, group.limit(key), group.request(key)) for key in ("cpu", "memory")]
    pairs = [(key, limit, request) for key, limit, request in pairs if limit and request and limit.raw != request.raw]
    for key, limit, request in (pair for pair in pairs if not pair[1].unknown and not pair[2].unknown):
        most, asked = limit.known_quantity(), request.known_quantity()
        if most is not None and asked is not None and asked < most:
            below.append((request, f"{key} {request.raw} of {limit.raw}"))
    if below:
        seen = f"the {group.title} requests {', '.join(text for _, text in below)}"
        yield Hit(below[0][0], seen, "equal amounts")
    elif unknown := next((value for pair in pairs for value in pair[1:] if value.unknown), None):
        raise CannotTell(f"{unknown.field} is {unknown.raw}", unknown)


@rule(
    "requests-exceed-limits",
    "error",
    "group",
    title="requests above limits",
    fix="set them to the same amount",
    source=f"{K8S_DOCS}/concepts/configuration/manage-resources-containers/",
)
def requests_exceed_limits(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """The API server refuses the pod."""
    for key, request in group.container.at("resources", "requests").items():
        limit = group.limit(key)
        if not limit or "/" in key or request.raw == limit.raw or request.unknown or limit.unknown:
            continue
        asked, most = request.known_quantity(), limit.known_quantity()
        if asked is not None and most is not None and asked > most:
            yield Hit(request, f"requests.{key} {request.raw}, limits.{key} {limit.raw}", f"at most {limit.raw}")


@rule(
    "sidecar-resources-missing",
    "info",
    "group",
    title="a sidecar without resources",
    fix="give it requests and limits",
    source=f"{K8S_DOCS}/concepts/workloads/pods/pod-qos/",
)
def sidecar_resources(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """The pod is no longer Guaranteed, and a LimitRange may refuse it."""
    for container in list(group.spec["containers"])[1:]:
        if not container.at("resources", "requests") and not container.at("resources", "limits"):
            yield Hit(container, f"{container['name'].raw or 'a container'} has no resources", "requests and limits")


@rule(
    "init-container-gpu",
    "warning",
    "group",
    title="an init container that asks for a device",
    fix="leave devices to the Ray container",
    source=POD_GO,
)
def init_container_gpu(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """Its request raises what the pod asks for, and the device is counted twice while it starts."""
    for container in group.spec["initContainers"]:
        for key, value in container.at("resources", "limits").items():
            if gpu_key(key) or key == "vpc.amazonaws.com/efa":
                yield Hit(value, f"{key} {value.raw} on an init container", "no device there")


@rule(
    "head-memory-small",
    "warning",
    "head",
    title="little memory for the head",
    fix="give the head 8Gi or more",
    source=f"{KUBERAY}/issues/4287",
)
def head_memory_small(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """The GCS, the dashboard and every driver run there; when the kernel ends it the whole cluster is lost."""
    limit = group.limit("memory")
    size = limit.known_quantity() if limit else None
    if size is not None and size < Fraction(8 << 30):
        severity = "error" if size < Fraction(2 << 30) else None
        yield Hit(limit, f"limits.memory {limit.require_known()}", "8Gi or more", severity)  # type: ignore[arg-type]


@rule(
    "quantity-decimal-memory",
    "info",
    "group",
    title="memory in decimal units",
    fix="write Gi or Mi",
    source=f"{KUBERAY}/issues/201",
)
def decimal_memory(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """1G is 7 % less than 1Gi; beside sizes in Gi this goes unnoticed."""
    limit = group.limit("memory")
    size = limit.known_quantity()
    if size and limit.raw.endswith(("G", "M")):
        yield Hit(limit, f"{limit.raw} is {shown(size)}", "a size in Gi")
