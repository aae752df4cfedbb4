"""How many pods there are, whether they start together, and what the autoscaler and queues make of them."""

from __future__ import annotations

from collections.abc import Iterator

from seatrial.check.manifest import Cluster, Group, Manifest, accelerators
from seatrial.check.rule import KUBERAY, SOURCE, VALIDATION_GO, Facts, Hit, Severity, rule
from seatrial.check.rules.jobs import selects, since
from seatrial.check.rules.lifecycle import cpus_told
from seatrial.check.rules.storage import gang
from seatrial.check.values import Value
from seatrial.kube.apimachinery import version

_UTIL_GO = f"{SOURCE}/controllers/ray/utils/util.go"
_CLUSTER_GO = f"{SOURCE}/controllers/ray/raycluster_controller.go"
_TYPES_GO = f"{SOURCE}/apis/ray/v1/raycluster_types.go"
_SCHEDULERS = f"{SOURCE}/controllers/ray/batchscheduler"
_AUTOSCALING = "https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/configuring-autoscaling.html"
_KUEUE = "https://github.com/kubernetes-sigs/kueue/blob/ff69552e79ad21652c36caa97038382e55625cf7/pkg/controller/jobs"
_ELASTIC = "kueue.x-k8s.io/elastic-job"
_SECOND = (2, 47)  # the first Ray whose default is the second autoscaler
_MAX_POD_SETS = 18  # of a Kueue Workload; jobframework.MaxPodSets
_GANG_LABELS = (
    "kueue.x-k8s.io/queue-name", "ray.io/gang-scheduling-enabled", "volcano.sh/queue-name", "kai.scheduler/queue",
    "yunikorn.apache.org/queue", "yunikorn.apache.org/app-id",
)  # fmt: skip


def _count(group: Group, key: str) -> int | None:
    """A count as written, None where it is absent. Raises CannotTell."""
    return group.value[key].integer if group.value[key] else None


def _sizes(group: Group) -> tuple[Value, Value, Value]:
    return group.value["minReplicas"], group.value["replicas"], group.value["maxReplicas"]


def _one_size(group: Group) -> bool:
    """Whether replicas and its bounds are written alike, be it as a placeholder."""
    return len({value.raw for value in _sizes(group)}) == 1


def _written(value: Value) -> int | None:
    """A count, None where it is absent or a placeholder."""
    return value.integer if value and not value.unknown else None


@rule(
    "fixed-gang-min-max", "info", "worker",
    title="bounds that nothing uses",
    why="Without the autoscaler minReplicas and maxReplicas only bound `replicas`; a later change of it is cut to them without a word.",
    fix="set minReplicas and maxReplicas equal to replicas", source=_UTIL_GO,
)  # fmt: skip
def fixed_gang(group: Group, _: Facts) -> Iterator[Hit]:
    if group not in gang(group.cluster) or group.cluster.autoscaling or _one_size(group):
        return
    least, count, most = sizes = _sizes(group)
    if len({size.raw for size in sizes if not size.unknown}) < 2:
        count.text, least.text, most.text  # noqa: B018 - raises: what replaces the placeholders may make them equal
    if count.unknown or _written(count):
        value = most if least.raw == count.raw or least.unknown else least
        shown = ", ".join(bound.raw or "none" for bound in (least, most))
        yield Hit(value, f"replicas {count.raw}, minReplicas and maxReplicas {shown}", "one number for all three")


@rule(
    "replicas-zero", "error", "worker",
    title="a worker group without pods",
    why="replicas and minReplicas are 0 by default: no worker starts, and the trainer waits for ever.",
    fix="set replicas", source=_TYPES_GO,
)  # fmt: skip
def replicas_zero(group: Group, facts: Facts) -> Iterator[Hit]:
    replicas, least, cluster = group.value["replicas"], group.value["minReplicas"], group.cluster
    if not least.unknown and (least.integer or 0) > 0:
        return
    if cluster.autoscaling or group.value["suspend"].flag or group.pods:
        return
    others = any(other.pods for other in cluster.workers if other.value.path != group.value.path)
    if replicas and (others or accelerators(cluster.head)):
        return  # a spare group
    seen = f"replicas {replicas.text}" if replicas else "no replicas, which is 0"
    chosen = replicas and not cluster.manifest.is_job and facts.asked is None  # a cluster that is scaled up later
    severity: Severity | None = None if accelerators(group) and not chosen else "warning"
    yield Hit(replicas, f"{seen} in {group.title}", "1 or more", severity)


@rule(
    "replicas-clamped", "warning", "worker",
    title="replicas outside their bounds",
    why="KubeRay cuts replicas to minReplicas and maxReplicas without a word.",
    fix="bring them in order", source=_UTIL_GO,
)  # fmt: skip
def replicas_clamped(group: Group, _: Facts) -> Iterator[Hit]:
    sizes = _sizes(group)
    if _one_size(group) or not sizes[1] or not (sizes[0] or sizes[2]):
        return
    least, count, most = (_written(size) for size in sizes)
    if count is not None and least is not None and count < least:
        yield Hit(sizes[1], f"{count} in {group.title}, below minReplicas {least}", f"{least} or more")
    elif count is not None and most is not None and count > most:
        yield Hit(sizes[1], f"{count} in {group.title}, above maxReplicas {most}", f"{most} or less")
    else:
        [size.text for size in sizes]  # raises for a placeholder


@rule(
    "autoscaler-fixed-gang", "info", "worker",
    title="the autoscaler on a gang of fixed size",
    why="A trainer needs all its workers at once: the autoscaler brings them one by one, part of them hold GPUs meanwhile, and idle ones go between two stages.",
    fix="set minReplicas equal to maxReplicas, or leave the autoscaler out", source=_AUTOSCALING,
)  # fmt: skip
def autoscaled_gang(group: Group, facts: Facts) -> Iterator[Hit]:
    if group not in gang(group.cluster) or not group.cluster.autoscaling:
        return
    least, most = _count(group, "minReplicas") or 0, _count(group, "maxReplicas")
    if least != most:
        bounds = f"{least} or more" if most is None else f"{least} to {most}"
        yield Hit(group.value["minReplicas"], f"{bounds} pods", "one number", "warning" if facts.asked else None)


@rule(
    "autoscaler-version-unset", "info", "cluster",
    title="which autoscaler is left to Ray",
    why="Ray uses v2 from 2.47 on; KubeRay sets restartPolicy and variables for v2 only where the manifest says so.",
    fix="set autoscalerOptions.version: v2", source=_TYPES_GO,
)  # fmt: skip
def autoscaler_version(cluster: Cluster, _: Facts) -> Iterator[Hit]:
    chosen = cluster.value.at("autoscalerOptions", "version")
    if chosen or not cluster.autoscaling:
        return
    if (version(cluster.ray_version.text) or _SECOND) >= _SECOND:
        yield Hit(cluster.value["enableInTreeAutoscaling"], "no autoscalerOptions.version", "version: v2")


@rule(
    "autoscaler-restart-policy", "warning", "cluster",
    title="pods that restart beside the autoscaler",
    why="With v2 KubeRay refuses the cluster, else it warns: a Ray node that the autoscaler ended is not to come back.",
    fix="set restartPolicy: Never, or leave it out", source=VALIDATION_GO,
)  # fmt: skip
def autoscaler_restart(cluster: Cluster, _: Facts) -> Iterator[Hit]:
    if not cluster.autoscaling:
        return
    second = cluster.value.at("autoscalerOptions", "version").text == "v2"
    for group in cluster.groups if second else cluster.workers:
        policy = group.spec["restartPolicy"]
        if policy.text not in ("", "Never"):
            yield Hit(policy, f"{policy.text} on the {group.title}", "Never", "error" if second else None)


@rule(
    "autoscaler-no-limits", "error", "cluster",
    title="a group whose CPUs the autoscaler cannot tell",
    why="It ends with `Autoscaler failed to detect CPU resources`, and the head's pod goes into CrashLoopBackOff. Ray up to 2.40 reads limits only.",
    fix="set limits.cpu, or num-cpus in rayStartParams", source=f"{KUBERAY}/issues/2612",
)  # fmt: skip
def autoscaler_limits(cluster: Cluster, _: Facts) -> Iterator[Hit]:
    for group in cluster.groups if cluster.autoscaling else ():
        told = group.limit("cpu") or cpus_told(group)
        if told or not group.container:
            continue
        old = (version(cluster.ray_version.text) or (9,)) < (2, 41)
        if old or not group.request("cpu"):
            yield Hit(group.container["resources"], f"no CPU limit on the {group.title}", "limits.cpu")


@rule(
    "autoscaler-sa-irsa", "warning", "head",
    title="the autoscaler gives the head another service account",
    why="A head without serviceAccountName runs as one that KubeRay makes and names after the cluster: without the role that the workers' account has.",
    fix="set serviceAccountName on the head too", source=f"{KUBERAY}/issues/2322",
)  # fmt: skip
def autoscaler_account(head: Group, _: Facts) -> Iterator[Hit]:
    own = head.spec["serviceAccountName"]
    theirs = [group.spec["serviceAccountName"] for group in head.cluster.workers if group.spec["serviceAccountName"]]
    if theirs and not own and head.cluster.autoscaling:
        yield Hit(own, f"none on the head, {theirs[0].raw} on workers", f"serviceAccountName: {theirs[0].raw}")


@rule(
    "num-of-hosts-misuse", "warning", "gpu",
    title="numOfHosts in a GPU group",
    why="It is for TPU slices: KubeRay starts replicas × numOfHosts pods, and when one goes it deletes the others of its replica.",
    fix="leave numOfHosts out, and set replicas to the number of pods", source=_CLUSTER_GO,
)  # fmt: skip
def num_of_hosts(group: Group, _: Facts) -> Iterator[Hit]:
    hosts = group.hosts.integer if group.hosts else None
    if hosts and hosts > 1:
        yield Hit(group.hosts, f"numOfHosts {hosts} in {group.title}", "1")


@rule(
    "gang-not-enforced", "info", "cluster",
    title="nothing starts the pods together",
    why="Kubernetes places pod by pod: of two jobs each may hold half of the nodes and wait for the rest.",
    fix="put it into a Kueue queue, or use a gang scheduler", source="https://docs.ray.io/en/latest/cluster/kubernetes/k8s-ecosystem/kueue.html",
)  # fmt: skip
def gang_not_enforced(cluster: Cluster, _: Facts) -> Iterator[Hit]:
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
    "scheduler-name-label", "warning", "manifest",
    title="a label that KubeRay no longer reads",
    why="Since KubeRay 1.3 the operator's own setting chooses the scheduler; the label does nothing.",
    fix="set batchScheduler.name in the operator's Helm values", source=f"{_SCHEDULERS}/schedulermanager.go", needs=("kuberay",),
)  # fmt: skip
def scheduler_label(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    label = manifest.label("ray.io/scheduler-name")
    if label and since(facts, 1, 3):
        yield Hit(label, f"ray.io/scheduler-name {label.raw}", "no such label")


@rule(
    "kueue-autoscaling", "error", "cluster",
    title="the autoscaler in a Kueue queue",
    why="Kueue refuses it, unless the resource is annotated as an elastic job and Kueue has that feature on.",
    fix="set enableInTreeAutoscaling: false", source=f"{_KUEUE}/raycluster/common.go",
)  # fmt: skip
def kueue_autoscaling(cluster: Cluster, _: Facts) -> Iterator[Hit]:
    elastic = cluster.manifest.metadata.at("annotations", _ELASTIC)
    if cluster.manifest.kueue and cluster.autoscaling and elastic.text != "true":
        yield Hit(cluster.value["enableInTreeAutoscaling"], "true in a Kueue queue", "false")


@rule(
    "kueue-no-shutdown", "error", "job",
    title="a job in a Kueue queue whose cluster stays",
    why="Kueue refuses it: the cluster would hold the queue's quota after the job.",
    fix="set shutdownAfterJobFinishes: true", source=f"{_KUEUE}/rayjob/rayjob_webhook.go",
)  # fmt: skip
def kueue_no_shutdown(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    shutdown = manifest.spec["shutdownAfterJobFinishes"]
    if manifest.kueue and manifest.spec["rayClusterSpec"] and not selects(manifest) and not shutdown.flag:
        yield Hit(shutdown, "false" if shutdown else "not set, which is false", "true")


@rule(
    "kueue-cluster-selector", "error", "job",
    title="clusterSelector in a Kueue queue",
    why="Kueue refuses a job with both clusterSelector and rayClusterSpec, and does not manage one with clusterSelector alone.",
    fix="leave one of them out; with clusterSelector queue the RayCluster instead", source=f"{_KUEUE}/rayjob/rayjob_webhook.go",
)  # fmt: skip
def kueue_selector(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    if not manifest.kueue or not selects(manifest):
        return
    if manifest.spec["rayClusterSpec"]:
        yield Hit(manifest.spec["clusterSelector"], "beside rayClusterSpec in a Kueue queue", "rayClusterSpec alone")
    else:
        yield Hit(manifest.kueue, "a queue of a job with clusterSelector", "the label on the RayCluster", "warning")


@rule(
    "kueue-too-many-groups", "error", "cluster",
    title="too many groups for a Kueue workload",
    why=f"Kueue counts the head and each worker group, and refuses more than {_MAX_POD_SETS}.",
    fix="merge worker groups", source=f"{_KUEUE}/raycluster/common.go",
)  # fmt: skip
def kueue_groups(cluster: Cluster, _: Facts) -> Iterator[Hit]:
    if cluster.manifest.kueue and len(cluster.groups) > _MAX_POD_SETS:
        groups = cluster.value["workerGroupSpecs"]
        yield Hit(groups, f"{len(cluster.workers)} worker groups", f"at most {_MAX_POD_SETS - 1}")


@rule(
    "kai-k8sjob", "error", "job",
    title="K8sJobMode in a KAI queue",
    why="KubeRay's KAI integration ends with an error: the submitter comes after the cluster, which KAI cannot schedule as one gang.",
    fix="use SidecarMode or HTTPMode", source=f"{_SCHEDULERS}/kai-scheduler/kai_scheduler.go", needs=("kuberay",),
)  # fmt: skip
def kai_k8sjob(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    label = manifest.label("kai.scheduler/queue")
    if label and since(facts, 1, 6) and manifest.submission_mode == "K8sJobMode":
        yield Hit(manifest.spec["submissionMode"], "K8sJobMode with kai.scheduler/queue", "SidecarMode or HTTPMode")


@rule(
    "volcano-cluster-selector", "error", "job",
    title="clusterSelector in a Volcano queue",
    why="KubeRay's Volcano integration ends with an error: it has no cluster to make a pod group of.",
    fix="leave the label out, or give the job a rayClusterSpec", source=f"{_SCHEDULERS}/volcano/volcano_scheduler.go", needs=("kuberay",),
)  # fmt: skip
def volcano_selector(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    label = manifest.label("volcano.sh/queue-name")
    if label and selects(manifest) and not manifest.spec["rayClusterSpec"] and since(facts, 1, 5):
        yield Hit(
            label, f"volcano.sh/queue-name {label.raw} beside clusterSelector", "no such label, or a rayClusterSpec"
        )
