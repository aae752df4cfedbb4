"""Shared memory and the object store, as Ray and the kernel count them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from seatrial.check.manifest import RayGroup, accelerators
from seatrial.check.operator import shared_memory
from seatrial.check.rule import KUBERAY, POD_GO, Facts, Hit, rule
from seatrial.check.values import shown

_RAY = "https://github.com/ray-project/ray"
_RAY_UTILS = f"{_RAY}/blob/ray-2.58.0/python/ray/_private/utils.py"
# Ray's resolve_object_store_memory and determine_plasma_store_config: 30 % of memory, at most 200 GB, at most 95 % of
# /dev/shm but not less than 10 GB. What does not fit into /dev/shm goes to /tmp; asked for above 10 GB, it is refused.
_SHARE, _MOST, _FLOOR = Fraction(3, 10), 200 * 10**9, 10**10


@rule(
    "shm-not-memory",
    "error",
    "group",
    title="/dev/shm on a disk",
    fix="use emptyDir: {medium: Memory, sizeLimit: …}",
    source=POD_GO,
)
def shm_not_memory(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """Whatever is mounted there instead of a Memory emptyDir, the object store, NCCL and data loaders then work on a
    disk.
    """
    mount = group.mounted_at("/dev/shm")
    if mount and mount.volume["hostPath"]:
        yield Hit(mount.value, "/dev/shm is the host's, shared with every pod there", "medium: Memory", "warning")
    elif mount and mount.volume and not shared_memory(group).memory:
        seen = f"/dev/shm is volume {mount.volume['name'].raw} without medium: Memory"
        yield Hit(mount.value, seen, "medium: Memory")


@rule(
    "shm-exceeds-memory-limit",
    "warning",
    "group",
    title="shared memory larger than the memory limit",
    fix="make sizeLimit about a third of limits.memory",
    source=f"{KUBERAY}/issues/201",
)
def shm_exceeds_limit(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """Pages of a tmpfs count against the container's memory limit: the kernel ends the pod long before /dev/shm is
    full.
    """
    limit = group.limit("memory")
    if not limit or not group.mounted_at("/dev/shm"):
        return
    shm, most = shared_memory(group), limit.known_quantity()
    if shm.size is not None and most is not None and shm.size > most:
        yield Hit(
            shm.origin,
            f"/dev/shm {shm.origin.require_known()}, limits.memory {limit.require_known()}",
            f"less than {limit.require_known()}",
        )


@rule(
    "shm-no-sizelimit",
    "warning",
    "group",
    title="shared memory without a size",
    fix="set sizeLimit to about a third of limits.memory",
    source="https://kubernetes.io/docs/concepts/storage/volumes/#emptydir",
)
def shm_no_size(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """It can grow until the memory limit or the node's memory is used up; Ray sizes its object store by it."""
    mount = group.mounted_at("/dev/shm")
    if mount and mount.volume["emptyDir"]["medium"].raw == "Memory" and not mount.volume["emptyDir"]["sizeLimit"]:
        bounded = bool(group.limit("memory"))  # as KubeRay's own volume is
        yield Hit(
            mount.volume["emptyDir"], "medium: Memory without sizeLimit", "a sizeLimit", "info" if bounded else None
        )


@rule(
    "shm-smaller-than-object-store",
    "warning",
    "group",
    title="an object store that does not fit into shared memory",
    fix="make /dev/shm larger, or set object-store-memory to less",
    source=_RAY_UTILS,
)
def shm_too_small(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """Ray puts it in /tmp instead, on a disk, with a warning; a size above 10 GB that was asked for is refused and the
    node does not start. Without a request Ray wants 30 % of the memory, at most 95 % of /dev/shm but never less than 10
    GB.
    """
    asked, limit = group.params["object-store-memory"], group.limit("memory")
    if not asked.scalar and not (limit and group.mounted_at("/dev/shm")):
        return  # what KubeRay mounts is as large as the memory limit
    shm = shared_memory(group)
    if shm.size is None:
        return
    if asked.scalar:
        wanted = asked.known_quantity()
        if wanted is not None and wanted > shm.size:
            refused = wanted > _FLOOR and group.variable("RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE").raw != "1"
            seen = f"object-store-memory {shown(wanted)}, /dev/shm {shown(shm.size)}"
            yield Hit(asked, seen, f"at most {shown(shm.size)}", "error" if refused else None)
    elif (memory := limit.known_quantity()) is not None:
        wanted = min(memory * _SHARE, Fraction(_MOST), max(Fraction(_FLOOR), shm.size * Fraction(95, 100)))
        if wanted > shm.size:
            seen = (
                f"/dev/shm {shown(shm.size)}, of {limit.require_known()} of memory Ray takes at least {shown(wanted)}"
            )
            yield Hit(shm.origin, seen, f"at least {shown(wanted)}, or object-store-memory below {shown(shm.size)}")


@rule(
    "object-store-plus-heap",
    "warning",
    "group",
    title="an object store of more than half of the memory",
    fix="leave about 30 % of limits.memory to the object store",
    source=f"{KUBERAY}/issues/2640",
)
def object_store_plus_heap(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """It counts against the same limit as everything else in the container: the kernel ends the pod."""
    asked, limit = group.params["object-store-memory"], group.limit("memory")
    if not asked.scalar or not limit:
        return
    store = asked.known_quantity()
    memory = limit.known_quantity() if store else None
    if store and memory and store > memory / 2:
        yield Hit(asked, f"object-store-memory {shown(store)} of {limit.raw}", "at most half of it")


@rule(
    "plasma-directory-set",
    "warning",
    "group",
    title="plasma-directory is set",
    fix="mount a Memory emptyDir at /dev/shm yourself, or leave plasma-directory out",
    source=POD_GO,
)
def plasma_directory(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """KubeRay then adds no /dev/shm: NCCL and data loaders are left with the container runtime's 64 MiB."""
    if group.params["plasma-directory"].scalar and not group.mounted_at("/dev/shm"):
        yield Hit(group.params["plasma-directory"], "plasma-directory and no mount at /dev/shm", "a mount at /dev/shm")


@rule(
    "allow-slow-storage",
    "warning",
    "group",
    title="the object store may silently live on a disk",
    fix="make /dev/shm large enough and remove it",
    source=f"{_RAY}/issues/14629",
)
def allow_slow_storage(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE turns the error that says /dev/shm is too small into silence."""
    value = group.variable("RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE")
    if value.raw and value.require_known() not in ("0", ""):
        yield Hit(value, f"set to {value.require_known()}", "not set")


@rule(
    "ray-oom-monitor-disabled",
    "warning",
    "group",
    title="Ray's memory monitor is off",
    fix="leave it on unless the peak is known",
    source="https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html",
)
def oom_monitor(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """Ray cannot end the one task that takes too much: the kernel ends the raylet or the whole pod instead."""
    value = group.variable("RAY_memory_monitor_refresh_ms")
    if value.raw and value.require_known() == "0":
        yield Hit(value, "RAY_memory_monitor_refresh_ms is 0", "not set")


@rule(
    "shm-volume-name-clash",
    "warning",
    "group",
    title="a volume of the name that KubeRay uses for shared memory",
    fix="rename the volume",
    source=POD_GO,
)
def shm_name_clash(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """KubeRay mounts a volume named shared-mem at /dev/shm if the pod has one, whatever it is."""
    if group.mounted_at("/dev/shm") or group.params["plasma-directory"].scalar:
        return
    for volume in group.spec["volumes"]:
        if volume["name"].raw == "shared-mem" and volume["emptyDir"]["medium"].require_known() != "Memory":
            yield Hit(volume["name"], "volume shared-mem is no Memory emptyDir", "another name, or medium: Memory")


@rule(
    "shm-tiny",
    "warning",
    "group",
    title="little shared memory for GPU workers",
    fix="give it several GiB",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
)
def shm_tiny(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """NCCL's transport between GPUs of one host and data loader workers pass data through /dev/shm; too little of it
    ends in `Bus error`.
    """
    if not accelerators(group):
        return
    shm = shared_memory(group)
    if shm.memory and shm.size is not None and shm.size < 1 << 30:
        yield Hit(shm.origin, f"/dev/shm {shown(shm.size)}", "1Gi or more")
