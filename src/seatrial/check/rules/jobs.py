"""A RayJob's life: which cluster it runs on, when that goes, how long it may take, what a retry does."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from seatrial.check.manifest import Manifest
from seatrial.check.rule import JOB_GO, KUBERAY, SOURCE, VALIDATION_GO, Facts, Hit, Severity, rule
from seatrial.check.rules.storage import identity
from seatrial.check.values import Value

_RAYJOB_GO = f"{SOURCE}/controllers/ray/rayjob_controller.go"
_TYPES_GO = f"{SOURCE}/apis/ray/v1/rayjob_types.go"
_MANAGERS = ("ray.io/kuberay-operator", "kueue.x-k8s.io/multikueue")
_ORDER = ("DeleteWorkers", "DeleteCluster", "DeleteSelf")  # a later one must not come before an earlier one


def _positive(value: Value) -> bool:
    return bool(value) and (value.known_integer() or 0) > 0


def _has_accelerators(manifest: Manifest) -> bool:
    return manifest.cluster is not None and bool(manifest.cluster.trains)


@rule(
    "rayjob-needs-cluster",
    "error",
    "job",
    title="a RayJob without a cluster",
    fix="add rayClusterSpec",
    source=VALIDATION_GO,
)
def needs_cluster(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """KubeRay refuses a RayJob that has neither rayClusterSpec nor clusterSelector."""
    if not manifest.spec["rayClusterSpec"] and not manifest.selects_cluster:
        yield Hit(manifest.spec["rayClusterSpec"], "neither rayClusterSpec nor clusterSelector", "one of them")


@rule(
    "rayjob-no-cleanup",
    "warning",
    "job",
    title="the cluster stays when the job has ended",
    fix="set shutdownAfterJobFinishes: true and a ttlSecondsAfterFinished that leaves time to read logs",
    source=_TYPES_GO,
)
def no_cleanup(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """shutdownAfterJobFinishes is false by default: nodes, GPUs among them, are held and paid for until someone deletes
    the RayJob.
    """
    shutdown = manifest.spec["shutdownAfterJobFinishes"]
    if manifest.selects_cluster or manifest.spec["deletionStrategy"] or not manifest.cluster or shutdown.known_flag():
        return
    if manifest.kueue:
        return  # kueue-no-shutdown
    seen = "false" if shutdown else "not set, which is false"
    yield Hit(shutdown, seen, "true, or a deletionStrategy")


@rule(
    "ttl-without-shutdown",
    "error",
    "job",
    title="a time to live that nothing ends",
    fix="set shutdownAfterJobFinishes: true; with deletionRules, use their ttlSeconds",
    source=VALIDATION_GO,
)
def ttl_without_shutdown(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """KubeRay refuses ttlSecondsAfterFinished above 0 without shutdownAfterJobFinishes."""
    ttl = manifest.spec["ttlSecondsAfterFinished"]
    if ttl and not manifest.spec["shutdownAfterJobFinishes"].known_flag() and _positive(ttl):
        yield Hit(
            ttl, f"{ttl.require_known()} and shutdownAfterJobFinishes is not true", "shutdownAfterJobFinishes: true"
        )


@rule(
    "ttl-zero-logs-lost",
    "info",
    "job",
    title="the cluster goes at once, and its logs with it",
    fix="set ttlSecondsAfterFinished: 600 or more, or keep /tmp/ray on a shared volume",
    source=_RAYJOB_GO,
)
def ttl_zero(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """ttlSecondsAfterFinished is 0 by default: head and workers are deleted as soon as the job ends, with everything
    below /tmp/ray.
    """
    ttl = manifest.spec["ttlSecondsAfterFinished"]
    if not manifest.cluster or manifest.selects_cluster or not manifest.spec["shutdownAfterJobFinishes"].known_flag():
        return
    logs = manifest.cluster.head.holding(manifest.cluster.head.params["temp-dir"].require_known() or "/tmp/ray")
    if not _positive(ttl) and not (logs and identity(logs)):
        yield Hit(ttl, "0" if ttl else "not set, which is 0", "time to read the logs")


@rule(
    "deletion-rules-conflict",
    "error",
    "job",
    title="a deletion strategy that contradicts itself",
    fix="use deletionRules alone, each with one condition",
    source=VALIDATION_GO,
)
def deletion_conflict(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """KubeRay refuses the RayJob."""
    strategy, shutdown = manifest.spec["deletionStrategy"], manifest.spec["shutdownAfterJobFinishes"]
    if not strategy:
        return
    legacy = [strategy[key] for key in ("onSuccess", "onFailure") if strategy[key]]
    rules = list(strategy["deletionRules"])
    if rules and shutdown.known_flag():
        yield Hit(shutdown, "shutdownAfterJobFinishes beside deletionRules", "one of them")
    if rules and legacy:
        yield Hit(legacy[0], "onSuccess and onFailure beside deletionRules", "deletionRules alone")
    elif not rules and len(legacy) < 2:
        yield Hit(strategy, "neither deletionRules nor both onSuccess and onFailure", "deletionRules")
    for policy in (entry["policy"] for entry in (*rules, *legacy)):
        yield from _impossible(manifest, policy)
        if policy.raw == "DeleteNone" and not rules and shutdown.known_flag():
            yield Hit(policy, "DeleteNone beside shutdownAfterJobFinishes: true", "another policy")
    yield from _disordered(rules)


def _impossible(manifest: Manifest, policy: Value) -> Iterator[Hit]:
    if manifest.selects_cluster and policy.raw in ("DeleteCluster", "DeleteWorkers"):
        yield Hit(policy, f"{policy.raw} of a cluster that clusterSelector chose", "DeleteSelf or DeleteNone")
    elif policy.raw == "DeleteWorkers" and manifest.cluster and manifest.cluster.autoscaling:
        yield Hit(policy, "DeleteWorkers beside the autoscaler", "DeleteCluster")


def _disordered(rules: list[Value]) -> Iterator[Hit]:
    """Conditions that are not one, rules that stand twice, and times out of order."""
    ends: dict[str, dict[str, Value]] = {}
    for entry in rules:
        named = [entry["condition"][key] for key in ("jobStatus", "jobDeploymentStatus") if entry["condition"][key]]
        if len(named) != 1:
            yield Hit(entry["condition"], "not one condition", "either jobStatus or jobDeploymentStatus")
            continue
        seen, policy = (
            ends.setdefault(f"{named[0].path[-1]} {named[0].require_known()}", {}),
            entry["policy"].require_known(),
        )
        if policy in seen:
            yield Hit(
                entry, f"a second {policy} when {named[0].path[-1]} is {named[0].require_known()}", "one rule for each"
            )
        seen[policy] = entry["condition"]["ttlSeconds"]
    for ttls in ends.values():
        there = [(policy, ttls[policy]) for policy in _ORDER if policy in ttls]
        for (first, early), (second, late) in pairwise(there):
            if (late.known_integer() or 0) < (early.known_integer() or 0):
                yield Hit(
                    late,
                    f"{second} after {late.require_known() or 0} s, {first} after {early.require_known()} s",
                    f"{first} first",
                )


@rule(
    "rayjob-no-deadline",
    "warning",
    "job",
    title="no deadline",
    fix="set activeDeadlineSeconds, and preRunningDeadlineSeconds where the CRD has it",
    source=_TYPES_GO,
)
def no_deadline(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """A job that stays Pending or hangs holds its nodes, GPUs among them, until someone looks."""
    active, before = manifest.spec["activeDeadlineSeconds"], manifest.spec["preRunningDeadlineSeconds"]
    if not active and not before and manifest.cluster:
        severity: Severity | None = None if _has_accelerators(manifest) else "info"
        seen = "neither activeDeadlineSeconds nor preRunningDeadlineSeconds"
        yield Hit(active, seen, "activeDeadlineSeconds", severity)


@rule(
    "deadline-not-positive",
    "error",
    "job",
    title="a deadline or a count that KubeRay refuses",
    fix="correct it, or leave it out",
    source=VALIDATION_GO,
)
def deadline_not_positive(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """Deadlines must be at least 1; backoffLimit and ttlSecondsAfterFinished at least 0."""
    least = {
        "activeDeadlineSeconds": 1,
        "preRunningDeadlineSeconds": 1,
        "backoffLimit": 0,
        "ttlSecondsAfterFinished": 0,
    }
    for key, lowest in least.items():
        value = manifest.spec[key]
        number = value.known_integer()
        if number is not None and number < lowest:
            yield Hit(value, f"saw {value.raw}", f"{lowest} or more")


@rule(
    "backoff-full-cluster",
    "info",
    "job",
    title="retries build a new cluster each",
    fix="resume from the latest checkpoint; retry workers with Ray Train's FailureConfig first",
    source=f"{KUBERAY}/issues/5211",
)
def backoff(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """A retry waits for the old RayCluster to go, not for its pods: both attempts may write one checkpoint folder.
    Without resuming each starts from step 0.
    """
    limit = manifest.spec["backoffLimit"]
    if _has_accelerators(manifest) and _positive(limit):
        yield Hit(limit, f"backoffLimit {limit.require_known()}", "a job that resumes, or 0")


@rule(
    "cluster-selector-unknown-key",
    "warning",
    "job",
    title="a clusterSelector that KubeRay does not read",
    fix="keep ray.io/cluster alone",
    source=_RAYJOB_GO,
)
def selector_key(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """KubeRay reads `ray.io/cluster` and nothing else, and looks in the RayJob's own namespace."""
    selector = manifest.spec["clusterSelector"]
    if manifest.selects_cluster and not selector["ray.io/cluster"].raw:
        yield Hit(selector, "no ray.io/cluster: KubeRay refuses it", "ray.io/cluster: <name>", "error")
        return
    for key, value in selector.items():
        if key != "ray.io/cluster":
            yield Hit(value, f"{key} is ignored", "ray.io/cluster alone")


@rule(
    "cluster-selector-shutdown",
    "warning",
    "job",
    title="deletion of a cluster that the job did not make",
    fix="leave them out, and delete the cluster by hand",
    source=_RAYJOB_GO,
)
def selector_shutdown(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """KubeRay leaves a cluster that clusterSelector chose as it is; these fields do nothing."""
    if not manifest.selects_cluster:
        return
    if manifest.spec["shutdownAfterJobFinishes"].known_flag():
        yield Hit(manifest.spec["shutdownAfterJobFinishes"], "true beside clusterSelector", "no such field")
    if manifest.spec["deletionStrategy"]:
        yield Hit(manifest.spec["deletionStrategy"], "beside clusterSelector", "no such field")


@rule(
    "cluster-selector-backoff",
    "error",
    "job",
    title="what cannot be had with clusterSelector",
    fix="leave it out, or give the job a cluster of its own",
    source=VALIDATION_GO,
    needs=("kuberay",),
)
def selector_backoff(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    """KubeRay refuses backoffLimit above 0 (since 1.6), SidecarMode and suspend beside clusterSelector."""
    if not manifest.selects_cluster:
        return
    spec = manifest.spec
    if facts.since_kuberay(1, 6) and _positive(spec["backoffLimit"]):
        yield Hit(
            spec["backoffLimit"], f"backoffLimit {spec['backoffLimit'].require_known()} beside clusterSelector", "0"
        )
    if spec["suspend"].known_flag():
        yield Hit(spec["suspend"], "suspend beside clusterSelector", "no such field")
    if manifest.submission_mode == "SidecarMode":
        yield Hit(spec["submissionMode"], "SidecarMode beside clusterSelector", "K8sJobMode or HTTPMode")


@rule(
    "job-id-fixed",
    "warning",
    "job",
    title="a fixed job id on a cluster that stays",
    fix="leave jobId out: KubeRay makes a new one",
    source=JOB_GO,
)
def job_id_fixed(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """The submitter finds that id done already, submits nothing and follows the old job: a second run ends as the first
    did.
    """
    given = manifest.spec["jobId"]
    if given.raw and manifest.selects_cluster and manifest.submission_mode != "InteractiveMode":
        yield Hit(given, f"jobId {given.raw} beside clusterSelector", "no jobId")


@rule(
    "managed-by-value",
    "error",
    "manifest",
    title="managedBy names something else",
    fix="leave managedBy out",
    source=f"{SOURCE}/config/crd/bases",
)
def managed_by(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """The API server refuses other values, and the field cannot be changed later."""
    inner = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}.get(manifest.kind, "")
    for value in (manifest.spec["managedBy"], manifest.spec[inner]["managedBy"]):
        if value and value.require_known() not in _MANAGERS:
            yield Hit(value, f"saw {value.require_known()}", " or ".join(_MANAGERS))


@rule(
    "suspended",
    "warning",
    "manifest",
    title="a job or a cluster that waits to be started",
    fix="leave suspend out; Kueue sets it by itself",
    source=VALIDATION_GO,
)
def suspended(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """With suspend: true KubeRay starts no pods until someone, such as Kueue, sets it to false. It refuses a RayJob so
    without shutdownAfterJobFinishes.
    """
    suspend = manifest.spec["suspend"]
    if manifest.is_service or not suspend or not suspend.known_flag() or manifest.selects_cluster:
        return
    if manifest.is_job and not manifest.spec["shutdownAfterJobFinishes"].known_flag():
        yield Hit(suspend, "true, and shutdownAfterJobFinishes is not", "shutdownAfterJobFinishes: true", "error")
    elif not manifest.kueue and not manifest.spec["managedBy"]:
        yield Hit(suspend, "true, and no queue that would start it", "false, or a queue's label")
