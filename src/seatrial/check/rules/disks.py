"""What is written to a node's own disk: logs, spilled objects, caches, folders of the host."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from seatrial.check.manifest import RayClusterSpec, RayGroup
from seatrial.check.rule import DLC_EKS, K8S_DOCS, Facts, Hit, rule
from seatrial.check.rules.storage import below, settled, titles
from seatrial.check.values import shown

_EPHEMERAL = f"{K8S_DOCS}/concepts/storage/ephemeral-storage/"
_SCRATCH = ("/dev", "/mnt/k8s-disks", "/mnt/nvme", "/opt/dlami/nvme", "/local", "/scratch")  # devices, and disks for it
_HF_CACHE = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME")


@rule(
    "hf-cache-local",
    "info",
    "worker",
    title="a Hugging Face cache in each pod",
    fix="set HF_HOME to a folder of the shared volume",
    source=DLC_EKS,
)
def hf_cache_local(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """Each pod downloads the model for itself, into its node's root disk, and again after each restart; the Hub limits
    the rate.
    """
    name = next((name for name in _HF_CACHE if name in group.env), "")
    if group not in group.cluster.gang or group.variable("HF_HUB_OFFLINE").raw or (not name and _cached(group)):
        return
    if name and (group.env[name]["valueFrom"] or group.holding(group.variable(name).require_known())):
        return
    if group.pods > 1:
        settled(group, paths_only=True)
        seen = f"{name} {group.variable(name).require_known()} lies in no volume" if name else "no HF_HOME"
        downloads = name or "HF_TOKEN" in group.env or "HUGGING_FACE_HUB_TOKEN" in group.env
        value = group.env[name] if name else group.container["env"]
        yield Hit(value, f"{seen} on the {group.title}", "HF_HOME in a shared volume", "warning" if downloads else None)


def _cached(group: RayGroup) -> bool:
    """Whether the cache's place may come from elsewhere than the container's `env`."""
    runtime_env = group.cluster.manifest.spec["runtimeEnvYAML"].raw
    mounted = any("/.cache" in mount.path or "huggingface" in mount.path for mount in group.mounts)
    return mounted or bool(group.container["envFrom"]) or any(name in runtime_env for name in _HF_CACHE)


def _session(group: RayGroup) -> str:
    """Where Ray keeps logs and spilled objects."""
    return group.params["temp-dir"].require_known() or "/tmp/ray"


@rule(
    "tmp-ray-on-root",
    "warning",
    "cluster",
    title="logs and spilled objects go to the container's own layer",
    fix="mount an emptyDir with sizeLimit, or a node's NVMe disk, at /tmp/ray",
    source=DLC_EKS,
)
def tmp_ray_on_root(cluster: RayClusterSpec, _: Facts) -> Iterator[Hit]:
    """They fill the node's root disk, on which the image lies too: `over 95% full`, then the pod is evicted. A restart
    of the container loses the logs.
    """
    training = [cluster.head, *cluster.gang] if cluster.trains and not cluster.manifest.is_service else []
    # KubeRay gives the head an emptyDir at /tmp/ray for the autoscaler's sidecar.
    covered = cluster.autoscaling and not cluster.head.params["temp-dir"]
    bare = [g for g in training if not (g.is_head and covered) and not g.holding(_session(g))]
    if bare:
        settled(*bare, paths_only=True)
        bounded = all(group.limit("ephemeral-storage") for group in bare)
        seen = f"nothing is mounted at {_session(bare[0])} on the {titles(bare)}"
        yield Hit(bare[0].container["volumeMounts"], seen, "an emptyDir with sizeLimit", "info" if bounded else None)


@rule(
    "tmp-ray-unbounded",
    "info",
    "group",
    title="no size for logs and spilled objects",
    fix="give it a sizeLimit, or limits.ephemeral-storage",
    source=_EPHEMERAL,
)
def tmp_ray_unbounded(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """An emptyDir without sizeLimit may fill the node's disk, and pods beside it are evicted."""
    mount = group.holding(_session(group))
    empty = mount.volume["emptyDir"] if mount else None
    if mount and empty and not empty["sizeLimit"] and not group.limit("ephemeral-storage"):
        yield Hit(empty, f"an emptyDir without sizeLimit at {mount.path}", "a sizeLimit")


@rule(
    "no-ephemeral-storage",
    "info",
    "group",
    title="no ephemeral-storage",
    fix="set requests and limits for ephemeral-storage",
    source=_EPHEMERAL,
)
def no_ephemeral_storage(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """The scheduler does not look for disk space, and a pod that asks for none is among the first to be evicted when
    the disk fills.
    """
    trains = group.cluster.trains and not group.cluster.manifest.is_service
    if trains and not group.requested("ephemeral-storage"):
        yield Hit(group.container["resources"], f"no ephemeral-storage on the {group.title}", "a request and a limit")


@rule(
    "ephemeral-limit-lt-emptydir",
    "warning",
    "group",
    title="less ephemeral storage than an emptyDir may hold",
    fix="raise limits.ephemeral-storage above the sizeLimit",
    source=_EPHEMERAL,
)
def ephemeral_limit(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """What an emptyDir on disk holds counts as ephemeral storage of the pod: it is evicted at the limit, before the
    emptyDir is full.
    """
    own = group.limit("ephemeral-storage")
    limits = [container.at("resources", "limits", "ephemeral-storage") for container in group.spec["containers"]]
    limit = sum((value.known_quantity() or Fraction(0) for value in limits), Fraction(0))
    for volume in group.spec["volumes"] if own else ():
        size = volume.at("emptyDir", "sizeLimit")
        if (
            size
            and volume.at("emptyDir", "medium").require_known() != "Memory"
            and (size.known_quantity() or 0) > limit
        ):
            yield Hit(
                own,
                f"{shown(limit)}, emptyDir {volume['name'].raw} holds {size.require_known()}",
                f"more than {size.require_known()}",
            )


@rule(
    "hostpath-volume",
    "warning",
    "group",
    title="a folder of the node",
    fix="use a claim, or an emptyDir",
    source=f"{K8S_DOCS}/concepts/security/pod-security-standards/",
)
def hostpath_volume(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """It holds something else on each node, stays behind on a node that goes, and Pod Security's baseline refuses
    it.
    """
    for volume in group.spec["volumes"]:
        path = volume.at("hostPath", "path")
        device = below(path.raw.rstrip("/"), _SCRATCH) and not below(path.raw.rstrip("/"), ("/dev/shm",))
        if path.raw and not path.unknown and not device:
            yield Hit(path, f"hostPath {path.require_known()} on the {group.title}", "a claim or an emptyDir")
