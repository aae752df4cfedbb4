"""How many pods a gang has, whether they start together, and what queues make of them."""

from __future__ import annotations

from collections.abc import Iterator

from seatrial.check.manifest import Manifest, RayClusterSpec, RayGroup, accelerators
from seatrial.check.rule import SOURCE, Facts, Hit, Severity, rule
from seatrial.check.values import Value

_UTIL_GO = f"{SOURCE}/controllers/ray/utils/util.go"
_CLUSTER_GO = f"{SOURCE}/controllers/ray/raycluster_controller.go"
_TYPES_GO = f"{SOURCE}/apis/ray/v1/raycluster_types.go"
_SCHEDULERS = f"{SOURCE}/controllers/ray/batchscheduler"
_KUEUE = "https://github.com/kubernetes-sigs/kueue/blob/ff69552e79ad21652c36caa97038382e55625cf7/pkg/controller/jobs"
_ELASTIC = "kueue.x-k8s.io/elastic-job"
_MAX_POD_SETS = 18  # of a Kueue Workload; jobframework.MaxPodSets
_GANG_LABELS = (
    "kueue.x-k8s.io/queue-name",
    "ray.io/gang-scheduling-enabled",
    "volcano.sh/queue-name",
    "kai.scheduler/queue",
    "yunikorn.apache.org/queue",
    "yunikorn.apache.org/app-id",
)


def _sizes(group: RayGroup) -> tuple[Value, Value, Value]:
    return group.value["minReplicas"], group.value["replicas"], group.value["maxReplicas"]


def _one_size(group: RayGroup) -> bool:
    """Whether replicas and its bounds are written alike, be it as a placeholder."""
    return len({value.raw for value in _sizes(group)}) == 1


def _written(value: Value) -> int | None:
    """A count, None where it is absent or a placeholder."""
    return value.known_integer() if value and not value.unknown else None


@rule(
    "fixed-gang-min-max",
    "info",
    "worker",
    title="bounds that nothing uses",
    fix="set minReplicas and maxReplicas equal to replicas",
    source=_UTIL_GO,
)
def fixed_gang(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """Without the autoscaler minReplicas and maxReplicas only bound `replicas`; a later change of it is cut to them
    without a word.
    """
    if group not in group.cluster.gang or group.cluster.autoscaling or _one_size(group):
        return
    least, count, most = sizes = _sizes(group)
    if len({size.raw for size in sizes if not size.unknown}) < 2:
        for size in (count, least, most):
            size.require_known()  # what replaces the placeholders may make them equal
    if count.unknown or _written(count):
        value = most if least.raw == count.raw or least.unknown else least
        shown = ", ".join(bound.raw or "none" for bound in (least, most))
        yield Hit(value, f"replicas {count.raw}, minReplicas and maxReplicas {shown}", "one number for all three")


@rule("replicas-zero", "error", "worker", title="a worker group without pods", fix="set replicas", source=_TYPES_GO)
def replicas_zero(group: RayGroup, facts: Facts) -> Iterator[Hit]:
    """replicas and minReplicas are 0 by default: no worker starts, and the trainer waits for ever."""
    replicas, least, cluster = group.value["replicas"], group.value["minReplicas"], group.cluster
    if not least.unknown and (least.known_integer() or 0) > 0:
        return
    if cluster.autoscaling or group.value["suspend"].known_flag() or group.pods:
        return
    others = any(other.pods for other in cluster.workers if other.value.path != group.value.path)
    if replicas and (others or accelerators(cluster.head)):
        return  # a spare group
    seen = f"replicas {replicas.require_known()}" if replicas else "no replicas, which is 0"
    chosen = replicas and not cluster.manifest.is_job and facts.asked is None  # a cluster that is scaled up later
    severity: Severity | None = None if accelerators(group) and not chosen else "warning"
    yield Hit(replicas, f"{seen} in {group.title}", "1 or more", severity)


@rule(
    "replicas-clamped",
    "warning",
    "worker",
    title="replicas outside their bounds",
    fix="bring them in order",
    source=_UTIL_GO,
)
def replicas_clamped(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """KubeRay cuts replicas to minReplicas and maxReplicas without a word."""
    sizes = _sizes(group)
    if _one_size(group) or not sizes[1] or not (sizes[0] or sizes[2]):
        return
    least, count, most = (_written(size) for size in sizes)
    if count is not None and least is not None and count < least:
        yield Hit(sizes[1], f"{count} in {group.title}, below minReplicas {least}", f"{least} or more")
    elif count is not None and most is not None and count > most:
        yield Hit(sizes[1], f"{count} in {group.title}, above maxReplicas {most}", f"{most} or less")
    else:
        [size.require_known() for size in sizes]  # raises for a placeholder


@rule(
    "num-of-hosts-misuse",
    "warning",
    "gpu",
    title="numOfHosts in a GPU group",
    fix="leave numOfHosts out, and set replicas to the number of pods",
    source=_CLUSTER_GO,
)
def num_of_hosts(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """It is for TPU slices: KubeRay starts replicas × numOfHosts pods, and when one goes it deletes the others of its
    replica.
    """
    hosts = group.hosts.known_integer() if group.hosts else None
    if hosts and hosts > 1:
        yield Hit(group.hosts, f"numOfHosts {hosts} in {group.title}", "1")


@rule(
    "gang-not-enforced",
    "info",
    "cluster",
    title="nothing starts the pods together",
    fix="put it into a Kueue queue, or use a gang scheduler",
    source="https://docs.ray.io/en/latest/cluster/kubernetes/k8s-ecosystem/kueue.html",
)
def gang_not_enforced(cluster: RayClusterSpec, _: Facts) -> Iterator[Hit]:
    """Kubernetes places pod by pod: of two jobs each may hold half of the nodes and wait for the rest."""
    manifest = cluster.manifest
    if (
        manifest.is_service
        or not cluster.trains
        or any(manifest.label(key) for key in _GANG_LABELS)
        or cluster.head.spec["schedulerName"]
    ):
        return
    pods = sum(group.pods for group in cluster.trains)
    if pods > 1:
        yield Hit(manifest.metadata["labels"], f"{pods} pods with accelerators, no queue", "a queue's label")


@rule(
    "scheduler-name-label",
    "warning",
    "manifest",
    title="a label that KubeRay no longer reads",
    fix="set batchScheduler.name in the operator's Helm values",
    source=f"{_SCHEDULERS}/schedulermanager.go",
    needs=("kuberay",),
)
def scheduler_label(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    """Since KubeRay 1.3 the operator's own setting chooses the scheduler; the label does nothing."""
    label = manifest.label("ray.io/scheduler-name")
    if label and facts.since_kuberay(1, 3):
        yield Hit(label, f"ray.io/scheduler-name {label.raw}", "no such label")


@rule(
    "kueue-autoscaling",
    "error",
    "cluster",
    title="the autoscaler in a Kueue queue",
    fix="set enableInTreeAutoscaling: false",
    source=f"{_KUEUE}/raycluster/common.go",
)
def kueue_autoscaling(cluster: RayClusterSpec, _: Facts) -> Iterator[Hit]:
    """Kueue refuses it, unless the resource is annotated as an elastic job and Kueue has that feature on."""
    elastic = cluster.manifest.metadata.at("annotations", _ELASTIC)
    if cluster.manifest.kueue and cluster.autoscaling and elastic.require_known() != "true":
        yield Hit(cluster.value["enableInTreeAutoscaling"], "true in a Kueue queue", "false")


@rule(
    "kueue-no-shutdown",
    "error",
    "job",
    title="a job in a Kueue queue whose cluster stays",
    fix="set shutdownAfterJobFinishes: true",
    source=f"{_KUEUE}/rayjob/rayjob_webhook.go",
)
def kueue_no_shutdown(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """Kueue refuses it: the cluster would hold the queue's quota after the job."""
    shutdown = manifest.spec["shutdownAfterJobFinishes"]
    if (
        manifest.kueue
        and manifest.spec["rayClusterSpec"]
        and not manifest.selects_cluster
        and not shutdown.known_flag()
    ):
        yield Hit(shutdown, "false" if shutdown else "not set, which is false", "true")


@rule(
    "kueue-cluster-selector",
    "error",
    "job",
    title="clusterSelector in a Kueue queue",
    fix="leave one of them out; with clusterSelector queue the RayCluster instead",
    source=f"{_KUEUE}/rayjob/rayjob_webhook.go",
)
def kueue_selector(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """Kueue refuses a job with both clusterSelector and rayClusterSpec, and does not manage one with clusterSelector
    alone.
    """
    if not manifest.kueue or not manifest.selects_cluster:
        return
    if manifest.spec["rayClusterSpec"]:
        yield Hit(manifest.spec["clusterSelector"], "beside rayClusterSpec in a Kueue queue", "rayClusterSpec alone")
    else:
        yield Hit(manifest.kueue, "a queue of a job with clusterSelector", "the label on the RayCluster", "warning")


@rule(
    "kueue-too-many-groups",
    "error",
    "cluster",
    title="too many groups for a Kueue workload",
    fix="merge worker groups",
    source=f"{_KUEUE}/raycluster/common.go",
)
def kueue_groups(cluster: RayClusterSpec, _: Facts) -> Iterator[Hit]:
    """Kueue counts the head and each worker group, and refuses more than 18."""
    if cluster.manifest.kueue and len(cluster.groups) > _MAX_POD_SETS:
        groups = cluster.value["workerGroupSpecs"]
        yield Hit(groups, f"{len(cluster.workers)} worker groups", f"at most {_MAX_POD_SETS - 1}")


@rule(
    "kai-k8sjob",
    "error",
    "job",
    title="K8sJobMode in a KAI queue",
    fix="use SidecarMode or HTTPMode",
    source=f"{_SCHEDULERS}/kai-scheduler/kai_scheduler.go",
    needs=("kuberay",),
)
def kai_k8sjob(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    """KubeRay's KAI integration ends with an error: the submitter comes after the cluster, which KAI cannot schedule as
    one gang.
    """
    label = manifest.label("kai.scheduler/queue")
    if label and facts.since_kuberay(1, 6) and manifest.submission_mode == "K8sJobMode":
        yield Hit(manifest.spec["submissionMode"], "K8sJobMode with kai.scheduler/queue", "SidecarMode or HTTPMode")


@rule(
    "volcano-cluster-selector",
    "error",
    "job",
    title="clusterSelector in a Volcano queue",
    fix="leave the label out, or give the job a rayClusterSpec",
    source=f"{_SCHEDULERS}/volcano/volcano_scheduler.go",
    needs=("kuberay",),
)
def volcano_selector(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    """KubeRay's Volcano integration ends with an error: it has no cluster to make a pod group of."""
    label = manifest.label("volcano.sh/queue-name")
    if label and manifest.selects_cluster and not manifest.spec["rayClusterSpec"] and facts.since_kuberay(1, 5):
        yield Hit(
            label, f"volcano.sh/queue-name {label.raw} beside clusterSelector", "no such label, or a rayClusterSpec"
        )
