"""GPUs, CPUs and memory: what Ray is told, what the container gets, what the instance has."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from seatrial.check.manifest import Group, accelerators, gpu_key
from seatrial.check.operator import resources_param
from seatrial.check.rule import DLC_EKS, K8S_DOCS, KUBERAY, POD_GO, SOURCE, Facts, Hit, rule
from seatrial.check.values import CannotTell, Value, shown, whole

_EXTENDED = f"{K8S_DOCS}/tasks/configure-pod-container/extended-resource/"
_NVIDIA_RUNTIME = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html"
_HIDE = {"NVIDIA_VISIBLE_DEVICES": ("void", "none", ""), "CUDA_VISIBLE_DEVICES": ("-1", "nodevfiles", "")}


def gpu_limit(group: Group) -> Value:
    """The container's GPU limit, by the first key that KubeRay takes for one; absent if there is none."""
    for key, value in sorted(group.container.at("resources", "limits").items(), key=lambda item: item[0]):
        if gpu_key(key):
            return value
    return group.limit("nvidia.com/gpu")


@rule(
    "num-gpus-mismatch",
    "error",
    "group",
    title="Ray is told another number of GPUs than the container gets",
    fix="make them equal, or leave num-gpus out: KubeRay takes it from the limit",
    source=DLC_EKS,
)
def num_gpus_mismatch(group: Group, _: Facts) -> Iterator[Hit]:
    """Too many: two actors share a GPU, or CUDA says `invalid device ordinal`. Too few: the trainer waits for ever for
    GPUs that Ray does not know of.
    """
    param = group.params["num-gpus"]
    limits = [(key, value) for key, value in group.container.at("resources", "limits").items() if gpu_key(key)]
    if not param.scalar or not limits or (len(limits) == 1 and limits[0][1].raw == param.raw):
        return  # what is written twice alike is the same number, placeholder or not
    amounts = [value.quantity for _, value in limits]
    if param.quantity is None or None in amounts:
        return
    if sum(amount for amount in amounts if amount is not None) != param.quantity:
        listed = ", ".join(f"limits.{key} {value.text}" for key, value in limits)
        yield Hit(param, f"num-gpus {param.text}, {listed}", "the same number")


@rule(
    "num-gpus-without-limit",
    "error",
    "group",
    title="Ray is told of GPUs that the container does not ask for",
    fix="add the nvidia.com/gpu limit",
    source=f"{KUBERAY}/issues/321",
)
def num_gpus_without_limit(group: Group, _: Facts) -> Iterator[Hit]:
    """Ray schedules GPU work there and CUDA finds none, or sees every GPU of the node beside other pods."""
    param = group.params["num-gpus"]
    claims = group.container.at("resources", "claims")
    if not param.scalar or accelerators(group) or any(claims):
        return
    if (param.quantity or 0) > 0:
        yield Hit(param, f"num-gpus {param.text} and no GPU limit", f'limits: {{nvidia.com/gpu: "{param.text}"}}')


@rule(
    "gpus-hidden",
    "error",
    "gpu",
    title="GPUs that the container asks for and then hides",
    fix="remove the variable; it belongs on pods without GPUs",
    source=_NVIDIA_RUNTIME,
)
def gpus_hidden(group: Group, _: Facts) -> Iterator[Hit]:
    """The pod's own variable wins over the device plugin's: the container holds the GPUs and sees none, unless the node
    hands devices out by CDI or mounts. With CUDA_VISIBLE_DEVICES empty `ray start` refuses num-gpus.
    """
    for name, words in _HIDE.items():
        entry = group.env.get(name)
        if not entry or entry["valueFrom"] or entry["value"].unknown or entry["value"].raw.lower() not in words:
            continue
        for key, value in accelerators(group):
            if not value.unknown and (value.quantity or 0) > 0:
                seen = f"{name} is {entry['value'].raw or 'empty'}, and {key} {value.raw} is asked for"
                yield Hit(entry["name"], seen, "no such variable", "warning" if group.is_head else None)
                break


@rule(
    "extended-resource-limits",
    "error",
    "group",
    title="an extended resource whose limit and request differ, or a request alone",
    fix="set limits and requests to the same number",
    source=_EXTENDED,
)
def extended_resource_limits(group: Group, _: Facts) -> Iterator[Hit]:
    """GPUs and EFA interfaces cannot be overcommitted: the API server refuses the pod."""
    for key, request in group.container.at("resources", "requests").items():
        if "/" not in key:
            continue
        limit = group.limit(key)
        if not limit:
            yield Hit(request, f"requests.{key} {request.raw} and no limit", f"limits.{key} {request.raw}")
        elif limit.raw != request.raw and limit.quantity != request.quantity:
            yield Hit(request, f"requests {request.raw}, limits {limit.raw}", "the same number")


@rule(
    "gpu-key-not-detected",
    "error",
    "group",
    title="GPUs under a name that KubeRay does not take for GPUs",
    fix="set num-gpus in rayStartParams",
    source=f"{SOURCE}/controllers/ray/utils/resources.go",
)
def gpu_key_not_detected(group: Group, _: Facts) -> Iterator[Hit]:
    """KubeRay fills in num-gpus only for keys that end in `gpu`, or for MIG profiles. Ray then knows of no GPU unless
    its own detection finds one.
    """
    if group.params["num-gpus"].scalar or gpu_limit(group):
        return
    for key, value in group.container.at("resources", "limits").items():
        if key.startswith(("nvidia.com/gpu", "nvidia.com/mig-")) and not gpu_key(key):
            yield Hit(value, f"{key} without num-gpus", "num-gpus in rayStartParams")


@rule(
    "ray-resources-unparsable",
    "error",
    "group",
    title="rayStartParams.resources that KubeRay cannot parse",
    fix="""write it as '{"x": 1}', and set num-gpus""",
    source=POD_GO,
)
def ray_resources_unparsable(group: Group, _: Facts) -> Iterator[Hit]:
    """KubeRay parses it as JSON after trimming quotes; where that fails it logs a line, and fills in neither num-gpus
    nor other accelerators.
    """
    if resources_param(group) is None:
        severity = "error" if accelerators(group) and not group.params["num-gpus"].scalar else "warning"
        yield Hit(group.params["resources"], "no JSON map after quotes are trimmed", """'{"x": 1}'""", severity)  # type: ignore[arg-type]


@rule(
    "num-cpus-mismatch",
    "warning",
    "group",
    title="Ray is told another number of CPUs than the container gets",
    fix="leave num-cpus out: KubeRay takes it from the limit",
    source="https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/config.html",
)
def num_cpus_mismatch(group: Group, _: Facts) -> Iterator[Hit]:
    """More: CPUs are shared without anyone knowing. Fewer: they lie idle. 0 on the head is a way to keep work off
    it.
    """
    param = group.params["num-cpus"]
    got = group.limit("cpu") or group.request("cpu")
    if not param.scalar or not got or got.quantity is None or param.quantity is None:
        return
    if group.is_head and param.quantity == 0:
        return
    if abs(param.quantity - whole(got.quantity)) >= 1:
        request = group.request("cpu")
        asked = request.scalar and not request.unknown and request.quantity == param.quantity
        seen = f"num-cpus {param.text}, the container may use {got.text}{', and requests as many' if asked else ''}"
        yield Hit(param, seen, f"{whole(got.quantity)}", "info" if asked else None)


@rule(
    "memory-param-vs-limit",
    "warning",
    "group",
    title="Ray is told of more memory than the container gets",
    fix="leave `memory` out of rayStartParams",
    source=POD_GO,
)
def memory_param(group: Group, _: Facts) -> Iterator[Hit]:
    """Ray schedules more than the memory cgroup allows; the kernel ends the pod."""
    param, limit = group.params["memory"], group.limit("memory")
    if param.scalar and limit and (param.quantity or 0) > (limit.quantity or 0):
        yield Hit(param, f"memory {param.text}, the limit is {limit.text}", f"at most {limit.text}")


@rule(
    "no-memory-limit",
    "warning",
    "group",
    title="no memory limit",
    fix="set limits.memory (and requests.memory to the same)",
    source=f"{KUBERAY}/issues/2612",
)
def no_memory_limit(group: Group, _: Facts) -> Iterator[Hit]:
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
def memory_tiny(group: Group, _: Facts) -> Iterator[Hit]:
    """`m` is thousandths, not mega: 16000m is 16 bytes, and a number without a unit is bytes. The container cannot
    start.
    """
    for section in ("limits", "requests"):
        value = group.container.at("resources", section, "memory")
        if value and not value.unknown and value.quantity is not None and value.quantity < 64 << 20:
            yield Hit(value, f"{section}.memory {value.text} is {float(value.quantity):g} bytes", "a size in Gi")


@rule(
    "no-cpu-limit",
    "warning",
    "group",
    title="neither a CPU limit nor num-cpus",
    fix="set limits.cpu, or num-cpus",
    source=f"{KUBERAY}/issues/2612",
)
def no_cpu_limit(group: Group, _: Facts) -> Iterator[Hit]:
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
def requests_ne_limits(group: Group, _: Facts) -> Iterator[Hit]:
    """The pod is Burstable: the node may be given more than it has, and this pod is among the first to be evicted.
    Shared memory is sized by the limit.
    """
    below = []
    pairs = [(key, group.limit(key), group.request(key)) for key in ("cpu", "memory")]
    pairs = [(key, limit, request) for key, limit, request in pairs if limit and request and limit.raw != request.raw]
    for key, limit, request in (pair for pair in pairs if not pair[1].unknown and not pair[2].unknown):
        if limit.quantity is not None and request.quantity is not None and request.quantity < limit.quantity:
            below.append((request, f"{key} {request.text} of {limit.text}"))
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
def requests_exceed_limits(group: Group, _: Facts) -> Iterator[Hit]:
    """The API server refuses the pod."""
    for key, request in group.container.at("resources", "requests").items():
        limit = group.limit(key)
        if not limit or "/" in key or request.raw == limit.raw or request.unknown or limit.unknown:
            continue
        if request.quantity is not None and limit.quantity is not None and request.quantity > limit.quantity:
            yield Hit(request, f"requests.{key} {request.text}, limits.{key} {limit.text}", f"at most {limit.text}")


@rule(
    "sidecar-resources-missing",
    "info",
    "group",
    title="a sidecar without resources",
    fix="give it requests and limits",
    source=f"{K8S_DOCS}/concepts/workloads/pods/pod-qos/",
)
def sidecar_resources(group: Group, _: Facts) -> Iterator[Hit]:
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
def init_container_gpu(group: Group, _: Facts) -> Iterator[Hit]:
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
def head_memory_small(group: Group, _: Facts) -> Iterator[Hit]:
    """The GCS, the dashboard and every driver run there; when the kernel ends it the whole cluster is lost."""
    limit = group.limit("memory")
    size = limit.quantity if limit else None
    if size is not None and size < Fraction(8 << 30):
        severity = "error" if size < Fraction(2 << 30) else None
        yield Hit(limit, f"limits.memory {limit.text}", "8Gi or more", severity)  # type: ignore[arg-type]


@rule(
    "quantity-decimal-memory",
    "info",
    "group",
    title="memory in decimal units",
    fix="write Gi or Mi",
    source=f"{KUBERAY}/issues/201",
)
def decimal_memory(group: Group, _: Facts) -> Iterator[Hit]:
    """1G is 7 % less than 1Gi; beside sizes in Gi this goes unnoticed."""
    limit = group.limit("memory")
    if limit.text.endswith(("G", "M")) and limit.quantity:
        yield Hit(limit, f"{limit.text} is {shown(limit.quantity)}", "a size in Gi")
