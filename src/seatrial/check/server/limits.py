"""Kueue's queues and resource quotas of the namespace."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from seatrial.check.manifest import Manifest, RayClusterSpec, RayGroup
from seatrial.check.rule import K8S_DOCS, Hit
from seatrial.check.server import fit
from seatrial.check.server.interview import Interview, NotAnswered
from seatrial.check.server.rule import server_rule
from seatrial.check.values import CannotTell, Value, shown
from seatrial.kube.dry_run import Accepted
from seatrial.kube.limits import Quota

_LOCAL_QUEUE = "https://kueue.sigs.k8s.io/docs/concepts/local_queue/"


@server_rule(
    "kueue-queue-missing",
    "error",
    "manifest",
    title="a Kueue queue that does not exist",
    fix="name one that `kubectl get localqueues` lists",
    source=_LOCAL_QUEUE,
)
def queue_missing(manifest: Manifest, interview: Interview) -> Iterator[Hit]:
    """The namespace has no such LocalQueue: Kueue keeps the resource suspended. Without Kueue the label is ignored."""
    label, namespace = manifest.kueue, interview.namespace(manifest)
    if not label or interview.brings("LocalQueue", namespace, label.require_known()):
        return
    queues = interview.queues(namespace)
    if queues is None:
        yield Hit(label, "a queue, but Kueue is not installed", "Kueue, or no such label", "warning")
    elif label.require_known() not in {queue.name for queue in queues}:
        there = f": it has {', '.join(queue.name for queue in queues[:5])}" if queues else ""
        yield Hit(label, f"namespace {namespace} has no LocalQueue {label.require_known()}{there}", "an existing queue")


@server_rule(
    "kueue-queue-inactive",
    "warning",
    "manifest",
    title="a Kueue queue that admits nothing now",
    fix="see `kubectl describe localqueue`",
    source=_LOCAL_QUEUE,
)
def queue_inactive(manifest: Manifest, interview: Interview) -> Iterator[Hit]:
    """The LocalQueue or its ClusterQueue is stopped or incomplete: the resource stays suspended."""
    label = manifest.kueue
    for queue in (interview.queues(interview.namespace(manifest)) or ()) if label else ():
        if queue.name == label.require_known() and queue.inactive:
            yield Hit(label, f"LocalQueue {queue.name} is inactive: {queue.inactive}", "an active queue")


@server_rule(
    "quota-too-small",
    "error",
    "manifest",
    title="more than the namespace's resource quota allows",
    fix="raise the quota, or ask for less",
    source=f"{K8S_DOCS}/concepts/policy/resource-quotas/",
)
def quota_too_small(manifest: Manifest, interview: Interview) -> Iterator[Hit]:
    """All groups together ask for more than a ResourceQuota allows: the operator cannot create the last pods. It is a
    warning if they would fit once others use less.
    """
    if manifest.cluster is None:
        return
    needed = _needed(manifest.cluster)
    for quota in interview.quotas(interview.namespace(manifest)):
        if quota.scoped:
            interview.note(f"resource quota {quota.name} counts only some pods: it was not checked")
            continue
        for key, hard in sorted(quota.hard.items()):
            amount = needed.get(key, Fraction(0))
            if amount > hard:
                seen = f"{shown(amount)} in all, quota {quota.name} allows {shown(hard)}"
                yield Hit(_largest(manifest.cluster, key), f"{key}: {seen}", f"at most {shown(hard)}")
            elif amount > hard - quota.used.get(key, Fraction(0)) and _new(manifest, interview):
                yield _taken(manifest.cluster, key, amount, quota)


def _taken(cluster: RayClusterSpec, key: str, amount: Fraction, quota: Quota) -> Hit:
    used = f"{shown(quota.used[key])} of {shown(quota.hard[key])} in use"
    seen = f"{key}: {shown(amount)} in all, quota {quota.name} has {used}"
    return Hit(_largest(cluster, key), seen, f"at most {shown(quota.hard[key] - quota.used[key])} now", "warning")


def _new(manifest: Manifest, interview: Interview) -> bool:
    """Whether no resource of that name exists: an existing one is a part of what is used."""
    try:
        verdict = interview.dry_run(manifest)
    except (NotAnswered, CannotTell):
        return False
    return isinstance(verdict, Accepted) and not verdict.exists


def _needed(cluster: RayClusterSpec) -> dict[str, Fraction]:
    """What all groups request, by the keys of quotas. Raises CannotTell."""
    total: dict[str, Fraction] = {}
    for group in cluster.groups:
        for key, amount in _of_a_pod(group).items():
            total[key] = total.get(key, Fraction(0)) + amount * group.pods
    return total


def _of_a_pod(group: RayGroup) -> dict[str, Fraction]:
    requests, limits = fit.requests(group), fit.limits(group)
    found = {"pods": Fraction(1)}
    for key, amount in requests.items():
        found[f"requests.{key}"] = amount
        if key in ("cpu", "memory", "ephemeral-storage"):  # older keys with the same meaning
            found[key] = amount
    return found | {f"limits.{key}": amount for key, amount in limits.items()}


def _largest(cluster: RayClusterSpec, key: str) -> Value:
    """The value in the group that asks for most of it."""
    group = max(cluster.groups, key=lambda group: _of_a_pod(group).get(key, Fraction(0)) * group.pods)
    section, _, name = key.partition(".") if key.startswith(("requests.", "limits.")) else ("requests", "", key)
    return group.limit(name) if section == "limits" else group.requested(name)
