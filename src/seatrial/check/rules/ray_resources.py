"""GPUs, CPUs and memory that Ray is told of, beside those that the container gets."""

from __future__ import annotations

from collections.abc import Iterator

from seatrial.check.manifest import RayGroup, accelerators, gpu_key
from seatrial.check.operator import resources_param
from seatrial.check.rule import DLC_EKS, KUBERAY, POD_GO, SOURCE, Facts, Hit, rule
from seatrial.check.values import Value, whole

_NVIDIA_RUNTIME = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html"
_HIDE = {"NVIDIA_VISIBLE_DEVICES": ("void", "none", ""), "CUDA_VISIBLE_DEVICES": ("-1", "nodevfiles", "")}


def _gpu_limit(group: RayGroup) -> Value:
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
def num_gpus_mismatch(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """Too many: two actors share a GPU, or CUDA says `invalid device ordinal`. Too few: the trainer waits for ever for
    GPUs that Ray does not know of.
    """
    param = group.params["num-gpus"]
    limits = [(key, value) for key, value in group.container.at("resources", "limits").items() if gpu_key(key)]
    if not param.scalar or not limits or (len(limits) == 1 and limits[0][1].raw == param.raw):
        return  # what is written twice alike is the same number, placeholder or not
    amounts = [value.known_quantity() for _, value in limits]
    if param.known_quantity() is None or None in amounts:
        return
    if sum(amount for amount in amounts if amount is not None) != param.known_quantity():
        listed = ", ".join(f"limits.{key} {value.require_known()}" for key, value in limits)
        yield Hit(param, f"num-gpus {param.require_known()}, {listed}", "the same number")


@rule(
    "num-gpus-without-limit",
    "error",
    "group",
    title="Ray is told of GPUs that the container does not ask for",
    fix="add the nvidia.com/gpu limit",
    source=f"{KUBERAY}/issues/321",
)
def num_gpus_without_limit(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """Ray schedules GPU work there and CUDA finds none, or sees every GPU of the node beside other pods."""
    param = group.params["num-gpus"]
    claims = group.container.at("resources", "claims")
    if not param.scalar or accelerators(group) or any(claims):
        return
    if (param.known_quantity() or 0) > 0:
        yield Hit(
            param,
            f"num-gpus {param.require_known()} and no GPU limit",
            f'limits: {{nvidia.com/gpu: "{param.require_known()}"}}',
        )


@rule(
    "gpus-hidden",
    "error",
    "gpu",
    title="GPUs that the container asks for and then hides",
    fix="remove the variable; it belongs on pods without GPUs",
    source=_NVIDIA_RUNTIME,
)
def gpus_hidden(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """The pod's own variable wins over the device plugin's: the container holds the GPUs and sees none, unless the node
    hands devices out by CDI or mounts. With CUDA_VISIBLE_DEVICES empty `ray start` refuses num-gpus.
    """
    for name, words in _HIDE.items():
        entry = group.env.get(name)
        if not entry or entry["valueFrom"] or entry["value"].unknown or entry["value"].raw.lower() not in words:
            continue
        for key, value in accelerators(group):
            if not value.unknown and (value.known_quantity() or 0) > 0:
                seen = f"{name} is {entry['value'].raw or 'empty'}, and {key} {value.raw} is asked for"
                yield Hit(entry["name"], seen, "no such variable", "warning" if group.is_head else None)
                break


@rule(
    "gpu-key-not-detected",
    "error",
    "group",
    title="GPUs under a name that KubeRay does not take for GPUs",
    fix="set num-gpus in rayStartParams",
    source=f"{SOURCE}/controllers/ray/utils/resources.go",
)
def gpu_key_not_detected(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """KubeRay fills in num-gpus only for keys that end in `gpu`, or for MIG profiles. Ray then knows of no GPU unless
    its own detection finds one.
    """
    if group.params["num-gpus"].scalar or _gpu_limit(group):
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
def ray_resources_unparsable(group: RayGroup, _: Facts) -> Iterator[Hit]:
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
def num_cpus_mismatch(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """More: CPUs are shared without anyone knowing. Fewer: they lie idle. 0 on the head is a way to keep work off
    it.
    """
    param = group.params["num-cpus"]
    got = group.limit("cpu") or group.request("cpu")
    if not param.scalar or not got:
        return
    there = got.known_quantity()
    told = None if there is None else param.known_quantity()
    if there is None or told is None or (group.is_head and told == 0):
        return
    if abs(told - whole(there)) >= 1:
        request = group.request("cpu")
        asked = request.scalar and not request.unknown and request.known_quantity() == told
        seen = f"num-cpus {param.raw}, the container may use {got.raw}{', and requests as many' if asked else ''}"
        yield Hit(param, seen, f"{whole(there)}", "info" if asked else None)


@rule(
    "memory-param-vs-limit",
    "warning",
    "group",
    title="Ray is told of more memory than the container gets",
    fix="leave `memory` out of rayStartParams",
    source=POD_GO,
)
def memory_param(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """Ray schedules more than the memory cgroup allows; the kernel ends the pod."""
    param, limit = group.params["memory"], group.limit("memory")
    if param.scalar and limit and (param.known_quantity() or 0) > (limit.known_quantity() or 0):
        yield Hit(
            param,
            f"memory {param.require_known()}, the limit is {limit.require_known()}",
            f"at most {limit.require_known()}",
        )
