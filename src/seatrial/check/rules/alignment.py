"""Whether what is asked fits what there is: the instance type, its EFA interfaces, the trial's workers."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from seatrial.check.manifest import Manifest, RayClusterSpec, RayGroup
from seatrial.check.operator import number
from seatrial.check.rule import DLC_EKS, JOB_GO, Facts, Hit, nvidia, rule
from seatrial.check.values import CannotTell, Value, shown
from seatrial.hardware.instances import Instance

_EFA = "vpc.amazonaws.com/efa"
_EFA_DOCS = "https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html"
_TYPES = "https://karpenter.sh/docs/reference/instance-types/"
_SCALING = "https://docs.ray.io/en/latest/train/user-guides/using-gpus.html"


def instances_of(group: RayGroup, facts: Facts) -> list[tuple[Value, Instance]]:
    """What is known of every instance type that a group may run on. Raises CannotTell where one is unknown."""
    return [(value, facts.instance(value)) for value in group.instance_types]


def _named(group: RayGroup, facts: Facts) -> list[tuple[Value, Instance]]:
    found = instances_of(group, facts)
    if not found:
        raise CannotTell(f"no instance type is named for the {group.title}", group.spec["nodeSelector"])
    return found


def _total(amounts: list[Value], most: Fraction | int) -> Fraction:
    """The sum. Raises CannotTell for a placeholder, unless the others exceed `most` without it."""
    total = sum((amount.known_quantity() or Fraction(0) for amount in amounts if not amount.unknown), Fraction(0))
    if total <= most:
        for amount in amounts:
            amount.require_known()
    return total


def _together(amounts: list[Value]) -> str:
    return f" in {len(amounts)} containers" if len(amounts) > 1 else ""


@rule(
    "gpu-exceeds-instance",
    "error",
    "group",
    title="more GPUs than the instance has",
    fix="ask for at most what the instance has",
    source=_TYPES,
    needs=("instance",),
)
def gpu_exceeds(group: RayGroup, facts: Facts) -> Iterator[Hit]:
    """No node can ever hold the pod: it stays Pending with `Insufficient nvidia.com/gpu`."""
    limits = group.asked("nvidia.com/gpu")
    if not limits or not group.instance_types:
        return
    most = max(found.gpus for _, found in instances_of(group, facts))
    if (total := _total(limits, most)) > most:
        names = ", ".join(value.require_known() for value in group.instance_types)
        yield Hit(limits[0], f"{total} GPUs{_together(limits)}, {names} has {most}", f"at most {most}")


@rule(
    "efa-exceeds-instance",
    "error",
    "group",
    title="more EFA interfaces than the instance has",
    fix="ask for at most what the instance has",
    source=_EFA_DOCS,
    needs=("instance",),
)
def efa_exceeds(group: RayGroup, facts: Facts) -> Iterator[Hit]:
    """No node can ever hold the pod: it stays Pending with `Insufficient vpc.amazonaws.com/efa`."""
    limits = group.asked(_EFA)
    if not limits or not group.instance_types:
        return
    most = max(found.efa for _, found in instances_of(group, facts))
    if (total := _total(limits, most)) > most:
        names = ", ".join(value.require_known() for value in group.instance_types)
        yield Hit(
            limits[0],
            f"{total} EFA interfaces{_together(limits)}, {names} has {most or 'none'}",
            f"at most {most}" if most else "no EFA, or a larger size",
        )


@rule(
    "efa-missing",
    "warning",
    "cluster",
    title="EFA left unused between GPU workers",
    fix=f"add {_EFA} to limits and requests, and use an image with aws-ofi-nccl",
    source=DLC_EKS,
    needs=("instance",),
)
def efa_missing(cluster: RayClusterSpec, facts: Facts) -> Iterator[Hit]:
    """Without the device NCCL goes over TCP, slowly and without an error, also where the image selects EFA."""
    groups = [group for group in cluster.workers if nvidia(group)]
    if cluster.manifest.is_service or not groups or any(group.limit(_EFA) for group in groups):
        return
    if any(list(group.spec["resourceClaims"]) for group in groups) or sum(group.pods for group in groups) < 2:
        return
    for group in groups:
        kinds = _named(group, facts)
        if all(found.efa for _, found in kinds):
            name, count = kinds[0][0].require_known(), kinds[0][1].efa
            yield Hit(group.container["resources"], f"no {_EFA}, {name} has {count}", f'limits: {{{_EFA}: "{count}"}}')


@rule(
    "efa-not-all",
    "info",
    "worker",
    title="fewer EFA interfaces than the instance has",
    fix="take all of them",
    source=_EFA_DOCS,
    needs=("instance",),
)
def efa_not_all(group: RayGroup, facts: Facts) -> Iterator[Hit]:
    """With all GPUs taken, the rest of the bandwidth cannot be used by anyone else."""
    efa, gpus = group.limit(_EFA), group.limit("nvidia.com/gpu")
    if not efa or not gpus or not group.instance_types:
        return
    least = min((found for _, found in instances_of(group, facts)), key=lambda found: found.efa)
    if gpus.known_quantity() == least.gpus and (efa.known_quantity() or 0) < least.efa:
        yield Hit(efa, f"{efa.require_known()} of {least.efa} EFA interfaces of {least.name}", str(least.efa))


@rule(
    "efa-with-dra-and-plugin",
    "warning",
    "worker",
    title="EFA by device plugin and by resource claims at once",
    fix="use one of the two",
    source="https://docs.aws.amazon.com/eks/latest/userguide/device-management-efa.html",
)
def efa_twice(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """Both would hand out the same interfaces."""
    claims = [
        claim
        for claim in group.spec["resourceClaims"]
        if "efa" in claim["resourceClaimTemplateName"].raw + claim["name"].raw
    ]
    if claims and group.limit(_EFA):
        yield Hit(group.limit(_EFA), f"{_EFA} beside the claim {claims[0]['name'].raw}", "one of the two")


@rule(
    "cpu-mem-exceeds-allocatable",
    "error",
    "group",
    title="more CPU or memory than a node can give",
    fix="ask for less, and leave room for DaemonSets",
    source=_TYPES,
    needs=("instance",),
)
def exceeds_allocatable(group: RayGroup, facts: Facts) -> Iterator[Hit]:
    """The kubelet and the system keep a part of each node: the pod stays Pending, and Karpenter finds no instance
    type.
    """
    for key, unit in (("cpu", Fraction(1, 1000)), ("memory", Fraction(1 << 20))):
        asked = group.asked(key)
        if not asked or not group.instance_types:
            continue
        kinds = instances_of(group, facts)
        given = [found.allocatable_cpu_m if key == "cpu" else found.allocatable_memory_mib for _, found in kinds]
        if any(amount is None for amount in given):
            raise CannotTell(f"what {kinds[given.index(None)][0].require_known()} can allocate is not known", asked[0])
        most = max(amount for amount in given if amount is not None) * unit
        total = _total(asked, most - (added := _autoscaler(group, key))) + added
        if total > most:
            names = ", ".join(value.require_known() for value in group.instance_types)
            amount, sum_ = (shown(n) if key == "memory" else f"{float(n):g}" for n in (most, total))
            seen = f"{key} {sum_}{_together(asked)}, {names} can allocate {amount}"
            yield Hit(asked[0], seen, f"less than {amount}")


def _autoscaler(group: RayGroup, key: str) -> Fraction:
    """What KubeRay's sidecar asks for beside the head (BuildAutoscalerContainer), unless the options say it."""
    if not group.is_head or not group.cluster.autoscaling:
        return Fraction(0)
    own = group.cluster.value.at("autoscalerOptions", "resources")
    if not own:
        return Fraction(1, 2) if key == "cpu" else Fraction(512 << 20)
    asked = own["requests"][key] if own["requests"][key] else own["limits"][key]
    return Fraction(0) if asked.unknown else asked.known_quantity() or Fraction(0)


@rule(
    "gpu-underfill-instance",
    "info",
    "worker",
    title="GPUs left idle on the instance",
    fix="take all GPUs of the instance",
    source=_TYPES,
    needs=("instance",),
)
def gpu_underfill(group: RayGroup, facts: Facts) -> Iterator[Hit]:
    """The rest of a node's GPUs is paid for; two workers on one node share its EFA interface."""
    limit = group.limit("nvidia.com/gpu")
    if not limit or not group.instance_types:
        return
    least = min((found for _, found in instances_of(group, facts)), key=lambda found: found.gpus)
    if (limit.known_quantity() or 0) < least.gpus:
        yield Hit(limit, f"{limit.require_known()} of {least.gpus} GPUs of {least.name}", str(least.gpus))


def gpus_of(cluster: RayClusterSpec) -> int:
    """GPUs that Ray will know of, over all pods. Raises CannotTell."""
    total = Fraction(0)
    for group in cluster.groups:
        found = number(group, "num-gpus")
        total += found[0] * group.pods if found else 0
    return int(total)


@rule(
    "world-size-exceeds-gpus",
    "error",
    "cluster",
    title="more workers than the cluster has GPUs",
    fix="make num_workers × gpus_per_worker fit replicas × GPUs",
    source=_SCALING,
    needs=("trial",),
)
def world_size(cluster: RayClusterSpec, facts: Facts) -> Iterator[Hit]:
    """The trainer waits for ever for a placement group that cannot be placed."""
    asked = facts.asked
    if asked is None or not asked.gpus_per_worker:
        return
    wanted, there = asked.num_workers * asked.gpus_per_worker, gpus_of(cluster)
    if wanted > there:
        seen = f"the trial asks for {wanted} GPUs ({asked.num_workers} workers), the cluster has {there}"
        yield Hit(cluster.value["workerGroupSpecs"], seen, f"at most {there}")


@rule(
    "cpus-per-worker-infeasible",
    "error",
    "cluster",
    title="more workers than the cluster has CPUs",
    fix="make num_workers fit the CPUs",
    source=_SCALING,
    needs=("trial",),
)
def cpu_world_size(cluster: RayClusterSpec, facts: Facts) -> Iterator[Hit]:
    """Without GPUs Ray Train takes a CPU for each worker: the trainer waits for ever."""
    asked = facts.asked
    if asked is None or asked.gpus_per_worker:
        return
    there = Fraction(0)
    for group in cluster.groups:
        found = number(group, "num-cpus")
        there += found[0] * group.pods if found else 0
    if asked.num_workers > there:
        seen = f"the trial asks for {asked.num_workers} workers, the cluster has {int(there)} CPUs"
        yield Hit(cluster.value["workerGroupSpecs"], seen, f"at most {int(there)}")


@rule(
    "entrypoint-takes-gang-gpu",
    "error",
    "job",
    title="the driver takes a GPU that a worker needs",
    fix="leave entrypointNumGpus out",
    source=JOB_GO,
    needs=("trial",),
)
def entrypoint_gpu(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    """entrypointNumGpus reserves it for the driver; the gang no longer fits and the trainer waits for ever."""
    taken = manifest.spec["entrypointNumGpus"]
    if not taken or not manifest.cluster or not (taken.known_quantity() or 0):
        return
    there = gpus_of(manifest.cluster)
    if facts.asked and facts.asked.num_workers * facts.asked.gpus_per_worker + (taken.known_quantity() or 0) > there:
        yield Hit(taken, f"{taken.require_known()} of {there} GPUs, the trial needs {facts.asked.num_workers}", "0")
