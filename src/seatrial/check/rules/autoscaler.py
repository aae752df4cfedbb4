"""Ray's autoscaler: which one runs, with what rights and limits, and what KubeRay refuses beside it."""

from __future__ import annotations

from collections.abc import Iterator

from seatrial.check.manifest import RayClusterSpec, RayGroup
from seatrial.check.rule import KUBERAY, SOURCE, VALIDATION_GO, Facts, Hit, rule
from seatrial.check.rules.lifecycle import cpus_told
from seatrial.check.rules.refused import entry, needs_ray, negative
from seatrial.kube.apimachinery import version

_TYPES_GO = f"{SOURCE}/apis/ray/v1/raycluster_types.go"
_V2 = "RAY_enable_autoscaler_v2"
_START = "KUBERAY_GEN_AUTOSCALER_START_CMD"
_ON = ("1", "true")  # what KubeRay takes for true in that variable
_AUTOSCALING = "https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/configuring-autoscaling.html"
_SECOND = (2, 47)  # the first Ray whose default is the second autoscaler


def _count(group: RayGroup, key: str) -> int | None:
    """A count as written, None where it is absent. Raises CannotTell."""
    return group.value[key].known_integer() if group.value[key] else None


@rule(
    "autoscaler-fixed-gang",
    "info",
    "worker",
    title="the autoscaler on a gang of fixed size",
    fix="set minReplicas equal to maxReplicas, or leave the autoscaler out",
    source=_AUTOSCALING,
)
def autoscaled_gang(group: RayGroup, facts: Facts) -> Iterator[Hit]:
    """A trainer needs all its workers at once. The autoscaler starts them one by one, so the first ones hold GPUs while
    they wait, and it removes idle ones between two stages.
    """
    if group not in group.cluster.gang or not group.cluster.autoscaling:
        return
    least, most = _count(group, "minReplicas") or 0, _count(group, "maxReplicas")
    if least != most:
        bounds = f"{least} or more" if most is None else f"{least} to {most}"
        # With a trial the number of workers is fixed; without one it may be a job that grows and shrinks.
        yield Hit(group.value["minReplicas"], f"{bounds} pods", "one number", "warning" if facts.asked else None)


@rule(
    "autoscaler-version-unset",
    "info",
    "cluster",
    title="no autoscaler version, so Ray chooses",
    fix="set autoscalerOptions.version: v2",
    source=_TYPES_GO,
)
def autoscaler_version(cluster: RayClusterSpec, _: Facts) -> Iterator[Hit]:
    """Ray uses v2 from 2.47 on. KubeRay sets restartPolicy and variables for v2 only where autoscalerOptions.version
    says v2.
    """
    chosen = cluster.value.at("autoscalerOptions", "version")
    if chosen or not cluster.autoscaling:
        return
    if (version(cluster.ray_version.require_known()) or _SECOND) >= _SECOND:  # without a version: a current Ray
        yield Hit(cluster.value["enableInTreeAutoscaling"], "no autoscalerOptions.version", "version: v2")


@rule(
    "autoscaler-restart-policy",
    "warning",
    "cluster",
    title="pods that restart beside the autoscaler",
    fix="set restartPolicy: Never, or leave it out",
    source=VALIDATION_GO,
)
def autoscaler_restart(cluster: RayClusterSpec, _: Facts) -> Iterator[Hit]:
    """A Ray node that the autoscaler has ended must stay away, and the kubelet would start it again. With v2 KubeRay
    refuses the cluster, otherwise it warns.
    """
    if not cluster.autoscaling:
        return
    second = cluster.value.at("autoscalerOptions", "version").require_known() == "v2"
    for group in cluster.groups if second else cluster.workers:  # v1 leaves the head to itself
        policy = group.spec["restartPolicy"]
        if policy.require_known() not in ("", "Never"):
            yield Hit(policy, f"{policy.raw} on the {group.title}", "Never", "error" if second else None)


@rule(
    "autoscaler-no-limits",
    "error",
    "cluster",
    title="a group without a number of CPUs for the autoscaler",
    fix="set limits.cpu, or num-cpus in rayStartParams",
    source=f"{KUBERAY}/issues/2612",
)
def autoscaler_limits(cluster: RayClusterSpec, _: Facts) -> Iterator[Hit]:
    """The autoscaler ends with `Autoscaler failed to detect CPU resources`, and the head's pod goes into
    CrashLoopBackOff. Ray up to 2.40 reads limits only.
    """
    for group in cluster.groups if cluster.autoscaling else ():
        told = group.limit("cpu") or cpus_told(group)
        if told or not group.container:
            continue  # `containers-missing` says the latter
        old = (version(cluster.ray_version.require_known()) or (9,)) < (2, 41)  # no version: a current Ray
        if old or not group.request("cpu"):
            yield Hit(group.container["resources"], f"no CPU limit on the {group.title}", "limits.cpu")


@rule(
    "autoscaler-sa-irsa",
    "warning",
    "head",
    title="the autoscaler gives the head another service account",
    fix="set serviceAccountName on the head too",
    source=f"{KUBERAY}/issues/2322",
)
def autoscaler_account(head: RayGroup, _: Facts) -> Iterator[Hit]:
    """A head without serviceAccountName runs under an account that KubeRay makes and names after the cluster. That
    account lacks the role of the workers' account.
    """
    own = head.spec["serviceAccountName"]
    # That workers have an account shows that pods of this job need one.
    theirs = [group.spec["serviceAccountName"] for group in head.cluster.workers if group.spec["serviceAccountName"]]
    if theirs and not own and head.cluster.autoscaling:
        yield Hit(own, f"none on the head, {theirs[0].raw} on workers", f"serviceAccountName: {theirs[0].raw}")


def _takes_v2(cluster: RayClusterSpec) -> bool:
    """Whether the operator takes the autoscaler for v2: by its option, or by the head's variable."""
    if cluster.value.at("autoscalerOptions", "version").require_known() == "v2":
        return True
    variable = entry(cluster.head.container["env"], _V2)
    return variable is not None and variable["value"].require_known() in _ON


@rule(
    "suspend-with-autoscaler",
    "error",
    "worker",
    title="a suspended group beside the autoscaler",
    fix="leave suspend out, or turn enableInTreeAutoscaling off",
    source=VALIDATION_GO,
)
def suspend_autoscaler(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """KubeRay refuses the resource; nothing starts."""
    suspend = group.value["suspend"]
    if suspend and group.cluster.autoscaling and suspend.known_flag():
        yield Hit(suspend, "true beside enableInTreeAutoscaling", "false")


@rule(
    "autoscaler-version-env",
    "error",
    "cluster",
    title="a variable that contradicts the autoscaler's options",
    fix="remove the variable; autoscalerOptions.version chooses the autoscaler",
    source=VALIDATION_GO,
    needs=("kuberay",),
)
def autoscaler_env(cluster: RayClusterSpec, facts: Facts) -> Iterator[Hit]:
    """KubeRay refuses RAY_enable_autoscaler_v2 on the head beside autoscalerOptions.version (since 1.4), and where the
    autoscaler is off (since 1.5). It sets KUBERAY_GEN_AUTOSCALER_START_CMD itself, and refuses it in
    autoscalerOptions.env (since 1.7).
    """
    options, variable = cluster.value["autoscalerOptions"], entry(cluster.head.container["env"], _V2)
    own = entry(options["env"], _START)
    if own and facts.since_kuberay(1, 7):
        yield Hit(own["name"], f"sets {_START}", "no variable of that name")
    if not variable:
        return
    if cluster.autoscaling:  # the variable may then choose v2, unless the option does
        if options["version"] and facts.since_kuberay(1, 4):
            yield Hit(variable["name"], f"{_V2} beside autoscalerOptions.version", "autoscalerOptions.version alone")
    elif facts.since_kuberay(1, 5) and variable["value"].require_known() in _ON:
        yield Hit(variable["name"], f"{variable['value'].raw} without the autoscaler", "left out")


@rule(
    "idle-timeout-without-v2",
    "error",
    "cluster",
    title="an idle timeout that KubeRay refuses",
    fix="set autoscalerOptions.version: v2, or autoscalerOptions.idleTimeoutSeconds for all groups",
    source=VALIDATION_GO,
    needs=("kuberay",),
)
def idle_timeout(cluster: RayClusterSpec, facts: Facts) -> Iterator[Hit]:
    """KubeRay refuses a group's idleTimeoutSeconds without autoscaler v2, and a negative one anywhere (since 1.6)."""
    if not facts.since_kuberay(1, 6):
        return
    timeouts = [group.value["idleTimeoutSeconds"] for group in cluster.workers if group.value["idleTimeoutSeconds"]]
    yield from negative(cluster.value.at("autoscalerOptions", "idleTimeoutSeconds"), *timeouts)
    if timeouts and not _takes_v2(cluster):
        yield from (Hit(value, f"{value.raw} without autoscaler v2", "autoscaler v2") for value in timeouts)


@rule(
    "priority-without-v2",
    "error",
    "worker",
    title="a group's priority without autoscaler v2",
    fix="leave priority out, or set autoscalerOptions.version: v2 and a newer rayVersion",
    source=VALIDATION_GO,
    needs=("kuberay",),
)
def priority(group: RayGroup, facts: Facts) -> Iterator[Hit]:
    """KubeRay refuses a priority other than 0 where the autoscaler is not v2, and where rayVersion is missing or below
    2.56.0 (since 1.7).
    """
    given = group.value["priority"]
    if not given or not facts.since_kuberay(1, 7) or given.known_integer() == 0:
        return
    yield from needs_ray(group.cluster, "a group's priority", (2, 56))
    if not _takes_v2(group.cluster):
        yield Hit(given, f"{given.raw} without autoscaler v2", "autoscaler v2")
