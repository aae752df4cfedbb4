"""Storage that head and workers share: volumes, claims, and the path that checkpoints go to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from seatrial.check.manifest import Manifest, Mount, RayClusterSpec, RayGroup
from seatrial.check.reading import placeholder
from seatrial.check.rule import DLC_EKS, K8S_DOCS, KUBERAY, Facts, Hit, rule
from seatrial.check.values import CannotTell, Value, plain

_RAY_STORAGE = "https://docs.ray.io/en/latest/train/user-guides/persistent-storage.html"
_SHARED = ("nfs", "csi", "cephfs", "glusterfs", "azureFile", "quobyte")
_OF_THE_POD = ("emptyDir", "configMap", "secret", "projected", "downwardAPI")
_NO_STORAGE = ("secrets-store.csi.k8s.io", "csi.cert-manager.io", "csi.spiffe.io")  # drivers of keys and certificates
_BLOCK = ("ebs", "gp2", "gp3", "io1", "io2")  # parts of names of storage classes of disks
_OF_THE_NODE = ("/dev", "/sys", "/proc", "/run", "/var/run", "/etc", "/lib", "/usr")
_AWS_IDENTITY = re.compile("AWS_(ACCESS_KEY|ROLE_ARN|WEB_IDENTITY|PROFILE|SHARED_CREDENTIALS|CONTAINER_CREDENTIALS)")


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


def settled(*groups: RayGroup, paths_only: bool = False) -> None:
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


def titles(groups: list[RayGroup]) -> str:
    return ", ".join(group.title for group in groups)


@rule(
    "no-shared-storage",
    "warning",
    "cluster",
    title="nothing that head and workers share",
    fix="mount one FSx or EFS claim on head and workers, or use an s3:// path",
    source=_RAY_STORAGE,
)
def no_shared_storage(cluster: RayClusterSpec, facts: Facts) -> Iterator[Hit]:
    """Ray Train writes checkpoints below one storage path that every node must reach: `Unable to set up cluster
    storage`. Without a shared volume only cloud storage such as s3:// will do.
    """
    training = [] if facts.asked else cluster.gang  # with a trial, storage-path-local knows the path
    common = {_maybe_shared(mount) for mount in cluster.head.mounts} - {None}
    for group in training:
        common &= {_maybe_shared(mount) for mount in group.mounts}
    if not common and any(group.pods > 0 for group in training):
        settled(cluster.head, *training)
        seen = f"no volume is mounted on the head and on {titles(training)}"
        yield Hit(training[0].container["volumeMounts"], seen, "one volume on head and workers, or s3:// storage")


@rule(
    "storage-path-local",
    "error",
    "cluster",
    title="the storage path lies in no shared volume",
    fix="put storage.path below the mount of a shared volume",
    source=_RAY_STORAGE,
    needs=("trial",),
)
def storage_path_local(cluster: RayClusterSpec, facts: Facts) -> Iterator[Hit]:
    """Each pod has a folder of that name for itself: Ray Train fails with `Unable to set up cluster storage`, or
    checkpoints go with their pods.
    """
    path, training = _folder(facts), cluster.gang
    groups = (cluster.head, *training) if path and training else ()
    local = [g for g in groups if not ((mount := g.holding(path)) and _maybe_shared(mount))]
    if local:
        settled(*local)
        seen = f"{path} lies in no shared volume on the {titles(local)}"
        yield Hit(local[0].container["volumeMounts"], seen, "a path in a shared volume")


@rule(
    "storage-mount-differs",
    "error",
    "cluster",
    title="head and workers mount different storage",
    fix="mount the same claim at the same path on head and workers",
    source=DLC_EKS,
)
def storage_mount_differs(cluster: RayClusterSpec, facts: Facts) -> Iterator[Hit]:
    """The driver looks for checkpoints where the workers did not write them."""
    path = _folder(facts)
    for group in cluster.gang:
        yield from _moved(cluster.head, group) if facts.asked is None else _differs_at(cluster.head, group, path)


def _differs_at(head: RayGroup, group: RayGroup, path: str) -> Iterator[Hit]:
    one, other = head.holding(path), group.holding(path)
    if one and other and identity(one) and identity(other) and _at(one, path) != _at(other, path):
        settled(head, group)
        here, there = (f"{_name(mount)}:/{_at(mount, path)[1]}" for mount in (one, other))
        seen = f"{path} is {here} on the head, {there} on the {group.title}"
        yield Hit(other.value, seen, "the same volume and folder")


def _moved(head: RayGroup, group: RayGroup) -> Iterator[Hit]:
    """Without a trial: one volume at two paths, or one path with two volumes."""
    at_head = {identity(mount): mount for mount in head.mounts}
    right = {identity(m) for m in group.mounts if (t := head.holding(m.path)) and _at(t, m.path) == _at(m, m.path)}
    for mount in group.mounts:
        if identity(mount) is None or identity(mount) in right:
            continue
        settled(head, group)
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
    "pvc-rwo-many-pods",
    "error",
    "cluster",
    title="a claim for one node, used by several pods",
    fix="use a ReadWriteMany claim: FSx for Lustre or EFS",
    source=f"{K8S_DOCS}/concepts/storage/persistent-volumes/#access-modes",
)
def pvc_rwo(cluster: RayClusterSpec, facts: Facts) -> Iterator[Hit]:
    """A ReadWriteOnce volume is attached to one node, a ReadWriteOncePod one to one pod: the others stay Pending with
    `Multi-Attach error`.
    """
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
    return {mode.require_known() for mode in claim.at("spec", "accessModes")}


@rule(
    "pvc-readonly",
    "error",
    "cluster",
    title="the storage path is mounted read-only",
    fix="mount it without readOnly",
    source=_RAY_STORAGE,
    needs=("trial",),
)
def pvc_readonly(cluster: RayClusterSpec, facts: Facts) -> Iterator[Hit]:
    """Checkpoints cannot be written."""
    path, training = _folder(facts), cluster.gang
    for group in (cluster.head, *training) if path and training else ():
        if not (mount := group.holding(path)):
            continue
        claim = _document(mount, cluster.manifest, facts)
        if mount.read_only or mount.volume.at("persistentVolumeClaim", "readOnly").known_flag():
            yield Hit(mount.value, f"{path} is read-only on the {group.title}", "a mount that can be written")
        elif claim and _modes(claim) == {"ReadOnlyMany"}:
            yield Hit(mount.claim, f"claim {mount.claim.raw} is ReadOnlyMany", "ReadWriteMany")


@rule(
    "mountpoint-s3-checkpoints",
    "warning",
    "cluster",
    title="checkpoints through Mountpoint for S3",
    fix="give Ray Train an s3:// path instead, or use FSx",
    source="https://github.com/awslabs/mountpoint-s3/blob/main/doc/SEMANTICS.md",
    needs=("trial",),
)
def mountpoint_s3(cluster: RayClusterSpec, facts: Facts) -> Iterator[Hit]:
    """Mountpoint cannot rename, append or write in the middle of a file, and deletes or overwrites only if told to:
    torch's distributed checkpoints rename a file at their end, and old checkpoints stay.
    """
    path = _folder(facts)
    for group in cluster.gang:
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
    "s3-no-identity",
    "warning",
    "cluster",
    title="S3 without an AWS identity for the pods",
    fix="set serviceAccountName on head and workers, to one with a role",
    source=f"{KUBERAY}/issues/956",
)
def s3_no_identity(cluster: RayClusterSpec, facts: Facts) -> Iterator[Hit]:
    """Without a service account that has a role (IRSA or Pod Identity) pods depend on the node's role, which they often
    cannot reach: AccessDenied or NoCredentials.
    """
    asked = facts.asked is not None and facts.asked.storage_path.startswith("s3://") and not cluster.manifest.is_service
    values = (entry["value"].raw for group in cluster.groups for entry in group.env.values())
    used = asked or any(value.startswith("s3://") for value in values)
    if used and (without := [group for group in cluster.groups if not _has_identity(group)]):
        seen = f"s3:// is used, no serviceAccountName on the {titles(without)}"
        yield Hit(without[0].spec["serviceAccountName"], seen, "one with a role", None if asked else "info")


def _has_identity(group: RayGroup) -> bool:
    account = group.spec["serviceAccountName"] or group.spec["serviceAccount"]
    return bool(account or group.container["envFrom"]) or any(_AWS_IDENTITY.match(name) for name in group.env)
