"""Storage: what head and workers share, where checkpoints and caches go, what fills a node's disk."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from fractions import Fraction

from seatrial.check.manifest import Cluster, Group, Manifest, Mount
from seatrial.check.reading import placeholder
from seatrial.check.rule import DLC_EKS, K8S_DOCS, KUBERAY, Facts, Hit, rule
from seatrial.check.values import CannotTell, Value, plain, shown

_RAY_STORAGE = "https://docs.ray.io/en/latest/train/user-guides/persistent-storage.html"
_EPHEMERAL = f"{K8S_DOCS}/concepts/storage/ephemeral-storage/"
_SHARED = ("nfs", "csi", "cephfs", "glusterfs", "azureFile", "quobyte")
_OF_THE_POD = ("emptyDir", "configMap", "secret", "projected", "downwardAPI")
_NO_STORAGE = ("secrets-store.csi.k8s.io", "csi.cert-manager.io", "csi.spiffe.io")  # drivers of keys and certificates
_BLOCK = ("ebs", "gp2", "gp3", "io1", "io2")  # parts of names of storage classes of disks
_OF_THE_NODE = ("/dev", "/sys", "/proc", "/run", "/var/run", "/etc", "/lib", "/usr")
_SCRATCH = ("/dev", "/mnt/k8s-disks", "/mnt/nvme", "/opt/dlami/nvme", "/local", "/scratch")  # devices, and disks for it
_HF_CACHE = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME")
_AWS_IDENTITY = re.compile("AWS_(ACCESS_KEY|ROLE_ARN|WEB_IDENTITY|PROFILE|SHARED_CREDENTIALS|CONTAINER_CREDENTIALS)")


def gang(cluster: Cluster) -> list[Group]:
    """The worker groups that train: those with accelerators. None for a RayService, which serves."""
    return [] if cluster.manifest.is_service else [group for group in cluster.trains if not group.is_head]


def below(path: str, folders: tuple[str, ...]) -> bool:
    """Whether `path` is one of the folders or lies in one."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def identity(mount: Mount) -> tuple[str, str] | None:
    """What pods that mount the same share: a claim, an export, a CSI volume. None for a pod's or a node's own."""
    if mount.claim.raw:
        return "claim", mount.claim.raw
    for kind in _SHARED:
        volume = mount.volume[kind]
        if volume and volume["driver"].raw not in _NO_STORAGE:
            return kind, json.dumps(plain(volume), sort_keys=True)
    return None


def _maybe_shared(mount: Mount) -> tuple[str, str] | None:
    """As `identity`; a folder of the node may be a file system that every node mounts."""
    node = mount.volume.at("hostPath", "path").raw
    return ("hostPath", node) if node and not below(node, _OF_THE_NODE) else identity(mount)


def _settled(*groups: Group, paths_only: bool = False) -> None:
    """Raises CannotTell if mounts of the groups, or volumes that may be shared, have placeholders."""
    for group in groups:
        volumes = [v for v in group.spec["volumes"] if not paths_only and not any(v[kind] for kind in _OF_THE_POD)]
        for value in (*volumes, *group.container["volumeMounts"]):
            if found := placeholder(json.dumps(plain(value))):
                raise CannotTell(f"{value.field} has {found}", value)


def _folder(facts: Facts) -> str:
    """The trial's storage path if it is a folder; empty without a trial, and for cloud storage."""
    path = facts.asked.storage_path if facts.asked else ""
    return "" if "://" in path else path


def _titles(groups: list[Group]) -> str:
    return ", ".join(group.title for group in groups)


@rule(
    "no-shared-storage", "warning", "cluster",
    title="nothing that head and workers share",
    why="Ray Train writes checkpoints below one storage path that every node must reach: `Unable to set up cluster storage`. Without a shared volume only cloud storage such as s3:// will do.",
    fix="mount one FSx or EFS claim on head and workers, or use an s3:// path", source=_RAY_STORAGE,
)  # fmt: skip
def no_shared_storage(cluster: Cluster, facts: Facts) -> Iterator[Hit]:
    training = [] if facts.asked else gang(cluster)  # with a trial, storage-path-local knows the path
    common = {_maybe_shared(mount) for mount in cluster.head.mounts} - {None}
    for group in training:
        common &= {_maybe_shared(mount) for mount in group.mounts}
    if not common and any(group.pods > 0 for group in training):
        _settled(cluster.head, *training)
        seen = f"no volume is mounted on the head and on {_titles(training)}"
        yield Hit(training[0].container["volumeMounts"], seen, "one volume on head and workers, or s3:// storage")


@rule(
    "storage-path-local", "error", "cluster",
    title="the storage path lies in no shared volume",
    why="Each pod has a folder of that name for itself: Ray Train fails with `Unable to set up cluster storage`, or checkpoints go with their pods.",
    fix="put storage.path below the mount of a shared volume", source=_RAY_STORAGE, needs=("trial",),
)  # fmt: skip
def storage_path_local(cluster: Cluster, facts: Facts) -> Iterator[Hit]:
    path, training = _folder(facts), gang(cluster)
    groups = (cluster.head, *training) if path and training else ()
    local = [g for g in groups if not ((mount := g.holding(path)) and _maybe_shared(mount))]
    if local:
        _settled(*local)
        seen = f"{path} lies in no shared volume on the {_titles(local)}"
        yield Hit(local[0].container["volumeMounts"], seen, "a path in a shared volume")


@rule(
    "storage-mount-differs", "error", "cluster",
    title="head and workers mount different storage",
    why="The driver looks for checkpoints where the workers did not write them.",
    fix="mount the same claim at the same path on head and workers", source=DLC_EKS,
)  # fmt: skip
def storage_mount_differs(cluster: Cluster, facts: Facts) -> Iterator[Hit]:
    path = _folder(facts)
    for group in gang(cluster):
        yield from _moved(cluster.head, group) if facts.asked is None else _differs_at(cluster.head, group, path)


def _differs_at(head: Group, group: Group, path: str) -> Iterator[Hit]:
    one, other = head.holding(path), group.holding(path)
    if one and other and identity(one) and identity(other) and _at(one, path) != _at(other, path):
        _settled(head, group)
        here, there = (f"{_name(mount)}:/{_at(mount, path)[1]}" for mount in (one, other))
        seen = f"{path} is {here} on the head, {there} on the {group.title}"
        yield Hit(other.value, seen, "the same volume and folder")


def _moved(head: Group, group: Group) -> Iterator[Hit]:
    """Without a trial: one volume at two paths, or one path with two volumes."""
    at_head = {identity(mount): mount for mount in head.mounts}
    right = {identity(m) for m in group.mounts if (t := head.holding(m.path)) and _at(t, m.path) == _at(m, m.path)}
    for mount in group.mounts:
        if identity(mount) is None or identity(mount) in right:
            continue
        _settled(head, group)
        if same := at_head.get(identity(mount)):
            seen = f"{_name(mount)} is at {same.path} on the head, at {mount.path} on the {group.title}"
            yield Hit(mount.value, seen, "one path everywhere", "warning")
        elif (there := head.mounted_at(mount.path)) and identity(there):
            seen = f"{mount.path} is {_name(there)} on the head, {_name(mount)} on the {group.title}"
            yield Hit(mount.value, seen, "the same volume", "warning")


def _name(mount: Mount) -> str:
    return f"claim {mount.claim.raw}" if mount.claim.raw else f"volume {mount.value['name'].raw}"


def _at(mount: Mount, path: str) -> tuple[object, str]:  # the volume, and the folder in it
    return identity(mount), f"{mount.value['subPath'].raw}{path.removeprefix(mount.path)}".strip("/")


def _document(mount: Mount, manifest: Manifest, facts: Facts) -> Value | None:
    """The claim itself, where the input has it."""
    namespace, name = manifest.metadata["namespace"].raw, mount.claim.raw
    if exact := facts.claims.get((namespace, name)) or facts.claims.get(("", name)):
        return exact
    others = [claim for (_, known), claim in facts.claims.items() if known == name]
    return others[0] if name and not namespace and len(others) == 1 else None


@rule(
    "pvc-rwo-many-pods", "error", "cluster",
    title="a claim for one node, used by several pods",
    why="A ReadWriteOnce volume is attached to one node, a ReadWriteOncePod one to one pod: the others stay Pending with `Multi-Attach error`.",
    fix="use a ReadWriteMany claim: FSx for Lustre or EFS", source=f"{K8S_DOCS}/concepts/storage/persistent-volumes/#access-modes",
)  # fmt: skip
def pvc_rwo(cluster: Cluster, facts: Facts) -> Iterator[Hit]:
    for name, mount in {mount.claim.raw: mount for group in cluster.groups for mount in group.mounts}.items():
        claim = _document(mount, cluster.manifest, facts)
        if not claim or not (modes := _modes(claim)) or modes & {"ReadWriteMany", "ReadOnlyMany"}:
            continue
        pods = sum(group.pods for group in cluster.groups if any(m.claim.raw == name for m in group.mounts))
        if pods > 1:
            disk = any(part in claim.at("spec", "storageClassName").raw for part in _BLOCK)
            severity = None if disk or modes == {"ReadWriteOncePod"} else "warning"
            seen = f"{pods} pods use claim {name}, which is {', '.join(sorted(modes))}"
            yield Hit(mount.claim, seen, "ReadWriteMany", severity)  # type: ignore[arg-type]


def _modes(claim: Value) -> set[str]:
    return {mode.text for mode in claim.at("spec", "accessModes")}


@rule(
    "pvc-readonly", "error", "cluster",
    title="the storage path is mounted read-only",
    why="Checkpoints cannot be written.",
    fix="mount it without readOnly", source=_RAY_STORAGE, needs=("trial",),
)  # fmt: skip
def pvc_readonly(cluster: Cluster, facts: Facts) -> Iterator[Hit]:
    path, training = _folder(facts), gang(cluster)
    for group in (cluster.head, *training) if path and training else ():
        if not (mount := group.holding(path)):
            continue
        claim = _document(mount, cluster.manifest, facts)
        if mount.read_only or mount.volume.at("persistentVolumeClaim", "readOnly").flag:
            yield Hit(mount.value, f"{path} is read-only on the {group.title}", "a mount that can be written")
        elif claim and _modes(claim) == {"ReadOnlyMany"}:
            yield Hit(mount.claim, f"claim {mount.claim.raw} is ReadOnlyMany", "ReadWriteMany")


@rule(
    "mountpoint-s3-checkpoints", "warning", "cluster",
    title="checkpoints through Mountpoint for S3",
    why="Mountpoint cannot rename, append or write in the middle of a file, and deletes or overwrites only if told to: torch's distributed checkpoints rename a file at their end, and old checkpoints stay.",
    fix="give Ray Train an s3:// path instead, or use FSx", source="https://github.com/awslabs/mountpoint-s3/blob/main/doc/SEMANTICS.md", needs=("trial",),
)  # fmt: skip
def mountpoint_s3(cluster: Cluster, facts: Facts) -> Iterator[Hit]:
    path = _folder(facts)
    for group in gang(cluster):
        mount = group.holding(path) if path else None
        if mount and _driver(mount, cluster.manifest, facts) == "s3.csi.aws.com":
            yield Hit(mount.value, f"{path} is an S3 bucket on the {group.title}", "an s3:// path, or FSx")


def _driver(mount: Mount, manifest: Manifest, facts: Facts) -> str:
    """The CSI driver of a mount, as far as the input tells."""
    if inline := mount.volume.at("csi", "driver").raw:
        return inline
    claim = _document(mount, manifest, facts)
    bound = claim.at("spec", "volumeName").raw if claim else ""
    for other in manifest.others:
        named = other.at("metadata", "name").raw == bound or other.at("spec", "claimRef", "name").raw == mount.claim.raw
        if other["kind"].raw == "PersistentVolume" and mount.claim.raw and named:
            return other.at("spec", "csi", "driver").raw
    return ""


@rule(
    "hf-cache-local", "info", "worker",
    title="a Hugging Face cache in each pod",
    why="Each pod downloads the model for itself, into its node's root disk, and again after each restart; the Hub limits the rate.",
    fix="set HF_HOME to a folder of the shared volume", source=DLC_EKS,
)  # fmt: skip
def hf_cache_local(group: Group, _: Facts) -> Iterator[Hit]:
    name = next((name for name in _HF_CACHE if name in group.env), "")
    if group not in gang(group.cluster) or group.variable("HF_HUB_OFFLINE").raw or (not name and _cached(group)):
        return
    if name and (group.env[name]["valueFrom"] or group.holding(group.variable(name).text)):
        return
    if group.pods > 1:
        _settled(group, paths_only=True)
        seen = f"{name} {group.variable(name).text} lies in no volume" if name else "no HF_HOME"
        downloads = name or "HF_TOKEN" in group.env or "HUGGING_FACE_HUB_TOKEN" in group.env
        value = group.env[name] if name else group.container["env"]
        yield Hit(value, f"{seen} on the {group.title}", "HF_HOME in a shared volume", "warning" if downloads else None)


def _cached(group: Group) -> bool:
    """Whether the cache's place may come from elsewhere than the container's `env`."""
    runtime_env = group.cluster.manifest.spec["runtimeEnvYAML"].raw
    mounted = any("/.cache" in mount.path or "huggingface" in mount.path for mount in group.mounts)
    return mounted or bool(group.container["envFrom"]) or any(name in runtime_env for name in _HF_CACHE)


def _session(group: Group) -> str:
    """Where Ray keeps logs and spilled objects."""
    return group.params["temp-dir"].text or "/tmp/ray"


@rule(
    "tmp-ray-on-root", "warning", "cluster",
    title="logs and spilled objects go to the container's own layer",
    why="They fill the node's root disk, on which the image lies too: `over 95% full`, then the pod is evicted. A restart of the container loses the logs.",
    fix="mount an emptyDir with sizeLimit, or a node's NVMe disk, at /tmp/ray", source=DLC_EKS,
)  # fmt: skip
def tmp_ray_on_root(cluster: Cluster, _: Facts) -> Iterator[Hit]:
    training = [cluster.head, *gang(cluster)] if cluster.trains and not cluster.manifest.is_service else []
    # KubeRay gives the head an emptyDir at /tmp/ray for the autoscaler's sidecar.
    covered = cluster.autoscaling and not cluster.head.params["temp-dir"]
    bare = [g for g in training if not (g.is_head and covered) and not g.holding(_session(g))]
    if bare:
        _settled(*bare, paths_only=True)
        bounded = all(group.limit("ephemeral-storage") for group in bare)
        seen = f"nothing is mounted at {_session(bare[0])} on the {_titles(bare)}"
        yield Hit(bare[0].container["volumeMounts"], seen, "an emptyDir with sizeLimit", "info" if bounded else None)


@rule(
    "tmp-ray-unbounded", "info", "group",
    title="no size for logs and spilled objects",
    why="An emptyDir without sizeLimit may fill the node's disk, and pods beside it are evicted.",
    fix="give it a sizeLimit, or limits.ephemeral-storage", source=_EPHEMERAL,
)  # fmt: skip
def tmp_ray_unbounded(group: Group, _: Facts) -> Iterator[Hit]:
    mount = group.holding(_session(group))
    empty = mount.volume["emptyDir"] if mount else None
    if mount and empty and not empty["sizeLimit"] and not group.limit("ephemeral-storage"):
        yield Hit(empty, f"an emptyDir without sizeLimit at {mount.path}", "a sizeLimit")


@rule(
    "no-ephemeral-storage", "info", "group",
    title="no ephemeral-storage",
    why="The scheduler does not look for disk space, and a pod that asks for none is among the first to be evicted when the disk fills.",
    fix="set requests and limits for ephemeral-storage", source=_EPHEMERAL,
)  # fmt: skip
def no_ephemeral_storage(group: Group, _: Facts) -> Iterator[Hit]:
    trains = group.cluster.trains and not group.cluster.manifest.is_service
    if trains and not group.requested("ephemeral-storage"):
        yield Hit(group.container["resources"], f"no ephemeral-storage on the {group.title}", "a request and a limit")


@rule(
    "ephemeral-limit-lt-emptydir", "warning", "group",
    title="less ephemeral storage than an emptyDir may hold",
    why="What an emptyDir on disk holds counts as ephemeral storage of the pod: it is evicted at the limit, before the emptyDir is full.",
    fix="raise limits.ephemeral-storage above the sizeLimit", source=_EPHEMERAL,
)  # fmt: skip
def ephemeral_limit(group: Group, _: Facts) -> Iterator[Hit]:
    own = group.limit("ephemeral-storage")
    limits = [container.at("resources", "limits", "ephemeral-storage") for container in group.spec["containers"]]
    limit = sum((value.quantity or Fraction(0) for value in limits), Fraction(0))
    for volume in group.spec["volumes"] if own else ():
        size = volume.at("emptyDir", "sizeLimit")
        if size and volume.at("emptyDir", "medium").text != "Memory" and (size.quantity or 0) > limit:
            yield Hit(own, f"{shown(limit)}, emptyDir {volume['name'].raw} holds {size.text}", f"more than {size.text}")


@rule(
    "hostpath-volume", "warning", "group",
    title="a folder of the node",
    why="It holds something else on each node, stays behind on a node that goes, and Pod Security's baseline refuses it.",
    fix="use a claim, or an emptyDir", source=f"{K8S_DOCS}/concepts/security/pod-security-standards/",
)  # fmt: skip
def hostpath_volume(group: Group, _: Facts) -> Iterator[Hit]:
    for volume in group.spec["volumes"]:
        path = volume.at("hostPath", "path")
        device = below(path.raw.rstrip("/"), _SCRATCH) and not below(path.raw.rstrip("/"), ("/dev/shm",))
        if path.raw and not path.unknown and not device:
            yield Hit(path, f"hostPath {path.text} on the {group.title}", "a claim or an emptyDir")


@rule(
    "s3-no-identity", "warning", "cluster",
    title="S3 without an AWS identity for the pods",
    why="Without a service account that has a role (IRSA or Pod Identity) pods depend on the node's role, which they often cannot reach: AccessDenied or NoCredentials.",
    fix="set serviceAccountName on head and workers, to one with a role", source=f"{KUBERAY}/issues/956",
)  # fmt: skip
def s3_no_identity(cluster: Cluster, facts: Facts) -> Iterator[Hit]:
    asked = facts.asked is not None and facts.asked.storage_path.startswith("s3://") and not cluster.manifest.is_service
    values = (entry["value"].raw for group in cluster.groups for entry in group.env.values())
    used = asked or any(value.startswith("s3://") for value in values)
    if used and (without := [group for group in cluster.groups if not _has_identity(group)]):
        seen = f"s3:// is used, no serviceAccountName on the {_titles(without)}"
        yield Hit(without[0].spec["serviceAccountName"], seen, "one with a role", None if asked else "info")


def _has_identity(group: Group) -> bool:
    account = group.spec["serviceAccountName"] or group.spec["serviceAccount"]
    return bool(account or group.container["envFrom"]) or any(_AWS_IDENTITY.match(name) for name in group.env)
