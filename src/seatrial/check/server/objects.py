"""What must stand beside the resource: namespace, service account, claims, storage classes, queue, quota."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction

from seatrial.check.manifest import Cluster, Group, Manifest, Pod
from seatrial.check.reading import Document, documents
from seatrial.check.rule import RULES, Facts, Hit, Severity
from seatrial.check.server import fit
from seatrial.check.server.interview import Interview, NotAnswered
from seatrial.check.server.rules import found_by
from seatrial.check.values import CannotTell, Value, shown
from seatrial.kube.dry_run import Accepted
from seatrial.kube.limits import Quota
from seatrial.kube.storage import Claim


@found_by("namespace-missing")
def namespace_missing(manifest: Manifest, asked: Interview) -> Iterator[Hit]:
    value, namespace = manifest.metadata["namespace"], asked.namespace(manifest)
    phase, title = asked.phase(namespace), namespace if value else f"{namespace}, the context's,"
    if phase is None and not asked.brings("Namespace", "", namespace):
        yield Hit(value, f"namespace {title} is not in the cluster", "a namespace that is there")
    elif phase == "Terminating":
        yield Hit(value, f"namespace {title} is being deleted", "a namespace that stays")


def pods(manifest: Manifest) -> list[Pod]:
    groups: list[Pod] = [*manifest.cluster.groups] if manifest.cluster else []
    return [*groups, *([manifest.submitter] if manifest.submitter else [])]


def _known_first(values: list[Value]) -> list[Value]:
    """One for each text; placeholders last, so that what can be told is told before CannotTell ends it."""
    return sorted({value.raw: value for value in reversed(values) if value}.values(), key=lambda value: value.unknown)


@found_by("sa-missing")
def sa_missing(manifest: Manifest, asked: Interview) -> Iterator[Hit]:
    """KubeRay makes one only for an autoscaling head that names none; `default` is in every namespace."""
    namespace = asked.namespace(manifest)
    for value in _known_first([pod.spec["serviceAccountName"] for pod in pods(manifest)]):
        name = value.text
        if name == "default" or asked.brings("ServiceAccount", namespace, name):
            continue
        if name not in asked.service_accounts(namespace):
            yield Hit(value, f"namespace {namespace} has no service account {name}", "one that is there")


def claim_names(manifest: Manifest) -> list[Value]:
    """The claims that the pods, or the head's own storage, use: the first place of each name."""
    found = [
        volume.at("persistentVolumeClaim", "claimName") for pod in pods(manifest) for volume in pod.spec["volumes"]
    ]
    if manifest.cluster:
        found.append(manifest.cluster.value.at("gcsFaultToleranceOptions", "storage", "claimName"))
    return _known_first(found)


def _in_the_cluster(manifest: Manifest, asked: Interview) -> Iterator[tuple[Value, Claim | None]]:
    """Each claim that the resource uses and the input does not bring, None where it is not there."""
    namespace = asked.namespace(manifest)
    for value in claim_names(manifest):
        name = value.text
        if not asked.brings("PersistentVolumeClaim", namespace, name):
            yield value, next((claim for claim in asked.claims(namespace) if claim.name == name), None)


@found_by("pvc-missing")
def pvc_missing(manifest: Manifest, asked: Interview) -> Iterator[Hit]:
    for value, claim in _in_the_cluster(manifest, asked):
        if claim is None:
            yield Hit(value, f"namespace {asked.namespace(manifest)} has no claim {value.raw}", "one that is there")


@found_by("pvc-not-bound")
def pvc_not_bound(manifest: Manifest, asked: Interview) -> Iterator[Hit]:
    for value, claim in _in_the_cluster(manifest, asked):
        if claim is None or claim.phase == "Bound":
            continue
        if claim.phase == "Lost":
            yield Hit(value, f"claim {claim.name} has lost its volume {claim.volume}", "a claim that is Bound", "error")
        elif not any(known.waits for known in asked.storage_classes() if known.name == claim.storage_class):
            kind = f"storage class {claim.storage_class}" if claim.storage_class else "no storage class"
            yield Hit(value, f"claim {claim.name} is {claim.phase}, with {kind}", "a claim that is Bound")


@found_by("pvc-rwo-many-pods")
def pvc_rwo(cluster: Cluster, asked: Interview) -> Iterator[Hit]:
    """The rule of that name, which without a cluster knows only the claims of the input."""
    manifest = cluster.manifest
    claims = {}
    for _, claim in _in_the_cluster(manifest, asked):
        if claim is not None:
            claims[manifest.metadata["namespace"].raw, claim.name] = _value(claim)
    yield from RULES["pvc-rwo-many-pods"].function(cluster, Facts("", claims=claims))


def _value(claim: Claim) -> Value:
    [document] = documents(json.dumps(claim.document).encode(), "the cluster")
    assert isinstance(document, Document)
    return Value.of(document.root, "the cluster")


@found_by("storage-class-missing")
def storage_class_missing(manifest: Manifest, asked: Interview) -> Iterator[Hit]:
    known = asked.storage_classes()
    for wanted in _wanted_classes(manifest, asked):
        name = wanted.given
        if name is None and not any(one.default for one in known):
            yield Hit(wanted, "no storageClassName, and the cluster has no default one", "a storage class")
        elif name and name not in {one.name for one in known} and not asked.brings("StorageClass", "", name):
            static = _static(name, asked)
            if static is not True:
                severity: Severity | None = None if static is False else "warning"
                yield Hit(wanted, f"the cluster has no storage class {name}", "one that is there", severity)


def _wanted_classes(manifest: Manifest, asked: Interview) -> Iterator[Value]:
    """storageClassName of each claim that is to be made, absent where none is named. `""` asks for no class."""
    specs = [v.at("ephemeral", "volumeClaimTemplate", "spec") for pod in pods(manifest) for v in pod.spec["volumes"]]
    for value in claim_names(manifest):
        name = "" if value.unknown else value.raw
        if claim := asked.brings("PersistentVolumeClaim", asked.namespace(manifest), name):
            specs.append(claim["spec"])
    if manifest.cluster and (storage := manifest.cluster.value.at("gcsFaultToleranceOptions", "storage"))["size"]:
        specs.append(storage)
    yield from (spec["storageClassName"] for spec in specs if spec and not spec["volumeName"])


def _static(name: str, asked: Interview) -> bool | None:
    """Whether a volume of that class is there, made by hand: then no StorageClass is needed. None: unknown."""
    brought = (v.at("spec", "storageClassName").raw for v in asked.given.others if v["kind"].raw == "PersistentVolume")
    if name in brought:
        return True
    try:
        return any(volume.storage_class == name for volume in asked.volumes())
    except NotAnswered:
        return None


@found_by("kueue-queue-missing")
def queue_missing(manifest: Manifest, asked: Interview) -> Iterator[Hit]:
    label, namespace = manifest.kueue, asked.namespace(manifest)
    if not label or asked.brings("LocalQueue", namespace, label.text):
        return
    queues = asked.queues(namespace)
    if queues is None:
        yield Hit(label, "a queue, and Kueue is not installed", "Kueue, or no such label", "warning")
    elif label.text not in {queue.name for queue in queues}:
        there = f": it has {', '.join(queue.name for queue in queues[:5])}" if queues else ""
        yield Hit(label, f"namespace {namespace} has no LocalQueue {label.text}{there}", "one that is there")


@found_by("kueue-queue-inactive")
def queue_inactive(manifest: Manifest, asked: Interview) -> Iterator[Hit]:
    label = manifest.kueue
    for queue in (asked.queues(asked.namespace(manifest)) or ()) if label else ():
        if queue.name == label.text and queue.inactive:
            yield Hit(label, f"LocalQueue {queue.name} is inactive: {queue.inactive}", "an active queue")


@found_by("quota-too-small")
def quota_too_small(manifest: Manifest, asked: Interview) -> Iterator[Hit]:
    if manifest.cluster is None:
        return
    needed = _needed(manifest.cluster)
    for quota in asked.quotas(asked.namespace(manifest)):
        if quota.scoped:
            asked.note(f"resource quota {quota.name} counts only some pods: it was not compared")
            continue
        for key, hard in sorted(quota.hard.items()):
            amount = needed.get(key, Fraction(0))
            if amount > hard:
                seen = f"{shown(amount)} in all, quota {quota.name} allows {shown(hard)}"
                yield Hit(_largest(manifest.cluster, key), f"{key}: {seen}", f"at most {shown(hard)}")
            elif amount > hard - quota.used.get(key, Fraction(0)) and _new(manifest, asked):
                yield _taken(manifest.cluster, key, amount, quota)


def _taken(cluster: Cluster, key: str, amount: Fraction, quota: Quota) -> Hit:
    used = f"{shown(quota.used[key])} of {shown(quota.hard[key])} in use"
    seen = f"{key}: {shown(amount)} in all, quota {quota.name} has {used}"
    return Hit(_largest(cluster, key), seen, f"at most {shown(quota.hard[key] - quota.used[key])} now", "warning")


def _new(manifest: Manifest, asked: Interview) -> bool:
    """Whether nothing of that name runs already: else a part of what is used is its own."""
    try:
        verdict = asked.dry_run(manifest)
    except (NotAnswered, CannotTell):
        return False
    return isinstance(verdict, Accepted) and not verdict.exists


def _needed(cluster: Cluster) -> dict[str, Fraction]:
    """What all groups ask for, under the keys of quotas. Raises CannotTell."""
    total: dict[str, Fraction] = {}
    for group in cluster.groups:
        for key, amount in _of_a_pod(group).items():
            total[key] = total.get(key, Fraction(0)) + amount * group.pods
    return total


def _of_a_pod(group: Group) -> dict[str, Fraction]:
    requests, limits = fit.requests(group), fit.limits(group)
    found = {"pods": Fraction(1)}
    for key, amount in requests.items():
        found[f"requests.{key}"] = amount
        if key in ("cpu", "memory", "ephemeral-storage"):  # the older keys of the same
            found[key] = amount
    return found | {f"limits.{key}": amount for key, amount in limits.items()}


def _largest(cluster: Cluster, key: str) -> Value:
    """Where the group that asks for most of it says so."""
    group = max(cluster.groups, key=lambda group: _of_a_pod(group).get(key, Fraction(0)) * group.pods)
    section, _, name = key.partition(".") if key.startswith(("requests.", "limits.")) else ("requests", "", key)
    return group.limit(name) if section == "limits" else group.requested(name)
