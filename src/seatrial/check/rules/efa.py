"""EFA and NCCL: what a pod gets of the fabric, and the variables that keep NCCL from it."""

from __future__ import annotations

from collections.abc import Iterator

from seatrial.check.manifest import RayGroup, accelerators
from seatrial.check.rule import K8S_DOCS, Facts, Hit, Severity, rule
from seatrial.check.values import Value
from seatrial.hardware.instances import HYPERPOD

_OFI = "https://github.com/aws/aws-ofi-nccl"
_SHEET = f"{_OFI}/blob/2daf7d303aa139a03140aa530957d10521e4478d/doc/efa-env-var.md"
_NCCL = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
_TORCH = "https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html"
_HUGEPAGES = f"{K8S_DOCS}/tasks/manage-hugepages/scheduling-hugepages/"
_TRUE = ("1", "true", "yes", "on")
# EFA without RDMA read: g4dn (ofiwg/libfabric#12160) and g5 (Nitro 3, aws/aws-ofi-nccl#981). Nitro 4 and later have it.
_NO_RDMA_READ = ("g4dn", "g5")


def efa(group: RayGroup) -> Value:
    """The EFA interfaces that a container asks for from the device plugin; absent if none."""
    key = "vpc.amazonaws.com/efa"
    return group.limit(key) or group.request(key)


def _set(group: RayGroup, name: str, *words: str) -> Value | None:
    """The variable if its literal value is one of the words. Raises CannotTell for a placeholder."""
    value = group.variable(name)
    return value if value.require_known().lower() in words else None


@rule(
    "efa-env-without-efa",
    "warning",
    "group",
    title="EFA's settings on a container without EFA",
    fix="ask for vpc.amazonaws.com/efa, or drop the variables",
    source=f"{_OFI}/issues/1020",
)
def efa_env(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """FI_PROVIDER=efa leaves libfabric with no provider at all: the plugin fails to start and NCCL uses TCP. On a head
    without GPUs it does nothing.
    """
    names = [name for name in group.env if name == "FI_PROVIDER" or name.startswith("FI_EFA_")]
    if not names or efa(group) or list(group.container.at("resources", "claims")):
        return
    forced = _set(group, "FI_PROVIDER", "efa") if accelerators(group) else None
    seen, value = f"{', '.join(names)} and no EFA", forced or group.env[names[0]]["name"]
    yield Hit(value, seen, "a request for vpc.amazonaws.com/efa, or no such variables", None if forced else "info")


@rule(
    "efa-rdma-unsupported",
    "error",
    "group",
    title="RDMA asked of an EFA that has none",
    fix="leave FI_EFA_USE_DEVICE_RDMA out",
    source=f"{_OFI}/issues/981",
)
def efa_rdma(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """libfabric ends the process: `FI_EFA_USE_DEVICE_RDMA=1 was set by user, but EFA device has no rdma-read
    capability`. Since libfabric 1.18 it finds out by itself.
    """
    types = group.instance_types
    if not efa(group) or all(not kind.unknown and _family(kind.raw) not in _NO_RDMA_READ for kind in types):
        return
    value = _set(group, "FI_EFA_USE_DEVICE_RDMA", *_TRUE)
    for kind in types if value else ():
        if value and _family(kind.require_known()) in _NO_RDMA_READ:
            yield Hit(
                value, f"FI_EFA_USE_DEVICE_RDMA {value.require_known()} on {kind.require_known()}", "no such variable"
            )


def _family(name: str) -> str:
    return name.removeprefix(HYPERPOD).partition(".")[0]


@rule("rdmav-fork-safe", "warning", "group", title="RDMAV_FORK_SAFE beside EFA", fix="remove it", source=_SHEET)
def rdmav_fork_safe(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """It is rdma-core's own switch and works by being set at all, differently from FI_EFA_FORK_SAFE; on newer kernels
    it can break things. The plugin takes care of forks itself.
    """
    if efa(group) and "RDMAV_FORK_SAFE" in group.env:
        yield Hit(group.env["RDMAV_FORK_SAFE"]["name"], "RDMAV_FORK_SAFE is set", "no such variable")


@rule(
    "efa-hugepages",
    "info",
    "group",
    title="EFA, data loaders and huge pages",
    fix="set FI_EFA_USE_HUGE_PAGE to 0, or ask for hugepages-2Mi",
    source=_SHEET,
)
def efa_hugepages(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """libfabric takes huge pages where the node has them; a data loader's fork can then fail with `OSError: Cannot
    allocate memory`.
    """
    if efa(group) and "FI_EFA_USE_HUGE_PAGE" not in group.env and not group.limit("hugepages-2Mi"):
        yield Hit(
            group.container["env"],
            f"neither FI_EFA_USE_HUGE_PAGE nor hugepages-2Mi on the {group.title}",
            "one of them",
        )


@rule(
    "hugepages-no-memory",
    "error",
    "group",
    title="huge pages that Kubernetes refuses",
    fix="set requests and limits alike, with memory beside them",
    source=_HUGEPAGES,
)
def hugepages(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """Huge pages are not overcommitted: their request equals their limit, and CPU or memory is asked for beside them.
    The API server refuses the pod otherwise.
    """
    for container in group.spec["containers"]:
        limits, requests = (dict(container.at("resources", part).items()) for part in ("limits", "requests"))
        pages = {key: value for key, value in {**limits, **requests}.items() if key.startswith("hugepages-")}
        for key, value in pages.items():
            if not {"cpu", "memory"} & {*limits, *requests}:
                yield Hit(value, f"{key} without cpu or memory", "memory beside it")
            elif key not in limits or (
                key in requests and requests[key].known_quantity() != limits[key].known_quantity()
            ):
                seen = (
                    f"request {value.require_known()}, limit {limits[key].require_known() if key in limits else 'none'}"
                )
                yield Hit(value, seen, "the same amount")


@rule(
    "efa-memlock",
    "info",
    "group",
    title="EFA without leave to lock memory",
    fix="add capability IPC_LOCK where nodes limit memlock",
    source=f"{_OFI}/issues/107",
)
def efa_memlock(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """EFA pins memory, and a pod cannot set ulimit. Bottlerocket lifts the limit where EFA is attached; on a node that
    does not, the plugin fails with `Cannot allocate memory`.
    """
    context = group.container["securityContext"]
    added = {capability.raw for capability in context.at("capabilities", "add")}
    if efa(group) and not added & {"IPC_LOCK", "ALL"} and context["privileged"].raw != "true":
        yield Hit(
            context, f"EFA without capability IPC_LOCK on the {group.title}", "IPC_LOCK where nodes limit memlock"
        )


@rule(
    "infiniband-hostpath",
    "warning",
    "group",
    title="all of /dev/infiniband from the host",
    fix="leave devices to the EFA device plugin",
    source="https://github.com/aws-samples/aws-do-eks/pull/63",
)
def infiniband_hostpath(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """The pod then sees devices that are no EFA or belong to other pods. libfabric opens every one, fails with -61, and
    NCCL uses TCP without an error.
    """
    for volume in group.spec["volumes"]:
        path = volume.at("hostPath", "path")
        if path.raw.rstrip("/") in ("/dev/infiniband", "/dev"):
            yield Hit(path, f"hostPath {path.raw}", "devices from vpc.amazonaws.com/efa alone")


@rule("nccl-kept-from-efa", "warning", "group", title="NCCL kept from EFA", fix="leave them out", source=_NCCL)
def nccl_kept(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """NCCL_NET=Socket and NCCL_NET_PLUGIN=none leave the EFA plugin out, and FI_PROVIDER without efa leaves it no
    device: all traffic between nodes is TCP, and the interfaces idle. NCCL_IB_DISABLE is for NCCL's own InfiniBand
    transport and does nothing here.
    """
    if not efa(group):
        return
    provider = group.variable("FI_PROVIDER")
    names = provider.require_known().lower().lstrip("^").split(",")
    if provider.require_known() and ("efa" in names) == provider.require_known().startswith("^"):
        yield Hit(provider, f"FI_PROVIDER {provider.require_known()} beside EFA", "efa, or no such variable")
    for name, word in (("NCCL_NET", "socket"), ("NCCL_NET_PLUGIN", "none"), ("NCCL_IB_DISABLE", "1")):
        if value := _set(group, name, word):
            severity: Severity | None = "info" if name == "NCCL_IB_DISABLE" else None
            yield Hit(value, f"{name} {value.require_known()} beside EFA", "no such variable", severity)


@rule(
    "nccl-p2p-shm-disable",
    "info",
    "group",
    title="NCCL kept from NVLink or shared memory",
    fix="remove it once the fault is found",
    source=_NCCL,
)
def nccl_p2p(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """A setting to look for a fault with: GPUs of one node then talk over slower ways."""
    for name in ("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE") if accelerators(group) else ():
        if value := _set(group, name, "1"):
            yield Hit(value, f"{name} 1", "no such variable")


@rule(
    "nccl-timeout-huge",
    "info",
    "group",
    title="a hang that nobody hears of for an hour",
    fix="keep it near 600",
    source=_TORCH,
)
def nccl_timeout(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """Until the heartbeat runs out a stuck job holds its GPUs and says nothing."""
    value = group.variable("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC")
    if value and (value.known_integer() or 0) >= 3600:
        yield Hit(value, f"{value.require_known()} seconds until a hang is reported", "minutes, such as 600")
