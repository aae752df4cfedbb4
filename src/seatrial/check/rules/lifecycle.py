"""How pods start, stay and go: what the head schedules, probes, hooks, deadlines and logs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from seatrial.check.manifest import Manifest, RayClusterSpec, RayGroup, accelerators
from seatrial.check.operator import number
from seatrial.check.rule import K8S_DOCS, KUBERAY, Facts, Hit, rule
from seatrial.check.values import Value
from seatrial.kube.apimachinery import version

_GUIDE = "https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/config.html"
_PROBES = f"{K8S_DOCS}/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/"
_TERMINATION = f"{K8S_DOCS}/concepts/workloads/pods/pod-lifecycle/#pod-termination"
_SLEEP = re.compile(r"\bsleep\s+([0-9]+)(s|m|h|)\b")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}
_RAY_CLI = re.compile(r"\bray\s+(?:status|list|summary|memory)\b")


def cpus_told(group: RayGroup) -> Value:
    """A group's CPUs as the manifest tells Ray: by the group's resources (KubeRay ignores case there), or num-cpus."""
    told = (value for key, value in group.value["resources"].items() if key.lower() == "cpu")
    return next(told, group.params["num-cpus"])


def _words(action: Value) -> str:
    """The command of an exec action as one line."""
    return " ".join(part.raw for part in action.at("exec", "command"))


@rule(
    "head-schedules-work",
    "info",
    "head",
    title="a head that takes work",
    fix='set num-cpus: "0" in the head\'s rayStartParams',
    source=_GUIDE,
)
def head_schedules_work(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """Tasks of Ray Data and Tune then run beside the GCS, and the memory they take can end the whole cluster."""
    cpus = cpus_told(group)
    if group.cluster.workers and cpus.raw != "0":  # without workers the head has to do it
        yield Hit(cpus or group.params, f"num-cpus {cpus.raw or 'is not set'}", '"0"')


@rule(
    "head-zero-cpu-no-workers",
    "error",
    "cluster",
    title="a cluster without a CPU for work",
    fix="add a worker group, or give the head CPUs",
    source=_GUIDE,
)
def head_zero_cpu(cluster: RayClusterSpec, _: Facts) -> Iterator[Hit]:
    """The head offers no CPU, and no worker group offers one: every task and every trainer waits for ever."""
    cpus = cluster.head.params["num-cpus"]
    if not cpus.scalar or cpus.known_quantity() != 0 or accelerators(cluster.head):
        return  # work on GPUs may ask for no CPU
    found = [number(group, "num-cpus") for group in cluster.workers]
    if all(amount is not None and amount[0] == Fraction(0) for amount in found):
        seen = "no worker group with CPUs" if cluster.workers else "no worker group"
        yield Hit(cpus, f"num-cpus 0 on the head, {seen}", "CPUs somewhere")


@rule(
    "no-prestop",
    "info",
    "group",
    title="pods that end without `ray stop`",
    fix='add lifecycle.preStop.exec: ["/bin/sh", "-c", "ray stop"]',
    source=_GUIDE,
)
def no_prestop(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """Without `ray stop` before the end the other nodes notice that this one is gone only when it no longer answers."""
    if group.container and not group.container.at("lifecycle", "preStop"):
        yield Hit(group.container, f"no preStop on the {group.title}", "a preStop with `ray stop`")


@rule(
    "prestop-lt-grace",
    "warning",
    "group",
    title="a pod that is killed before it can finish",
    fix="raise terminationGracePeriodSeconds above the hook and a checkpoint",
    source=_TERMINATION,
)
def prestop_grace(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """The grace period counts from the start of preStop. A hook that sleeps through it is cut off, and Ray gets SIGKILL
    in the middle of a save.
    """
    grace, hook = group.spec["terminationGracePeriodSeconds"], group.container.at("lifecycle", "preStop")
    given = grace.known_integer()
    seconds = 30 if given is None else given  # Kubernetes' default
    # What else the hook does takes time too, but how long is not known.
    slept = sum(int(count) * _SECONDS[unit] for count, unit in _SLEEP.findall(_words(hook)))
    slept += hook.at("sleep", "seconds").known_integer() or 0
    if seconds <= 0:
        taken = ", which Kubernetes takes for 1," if seconds < 0 else ""
        yield Hit(grace, f"terminationGracePeriodSeconds {seconds}{taken} on the {group.title}", "120 or more")
    elif slept >= seconds:
        yield Hit(hook, f"preStop sleeps {slept} s of {seconds} s", "a longer terminationGracePeriodSeconds")


@rule(
    "liveness-expensive",
    "warning",
    "group",
    title="a liveness probe that starts Ray's command line",
    fix="leave the probe out: KubeRay adds one that asks the local agent",
    source=_PROBES,
)
def liveness_expensive(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """Each probe starts Python and asks the GCS. When the head is busy the probe times out, and the kubelet kills a
    healthy worker.
    """
    probe = group.container["livenessProbe"]
    if found := _RAY_CLI.search(_words(probe)):
        yield Hit(probe, f"`{found.group()}` as a liveness probe", "KubeRay's own probe")


@rule(
    "probe-too-tight",
    "warning",
    "group",
    title="a liveness probe that gives up early",
    fix="leave the probe out, or give it timeoutSeconds: 5 and failureThreshold: 120",
    source=f"{KUBERAY}/pull/4133",
)
def probe_too_tight(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """Under load Ray's agents answer late. A timeout of a second, or a probe that gives up within a minute (on the
    head's dashboard: within five), kills pods in the middle of training. KubeRay's own probe waits for ten minutes.
    """
    probe = group.container["livenessProbe"]
    if not probe:
        return
    timeout = probe["timeoutSeconds"].known_integer() or 1  # Kubernetes' defaults
    window = (probe["periodSeconds"].known_integer() or 10) * (probe["failureThreshold"].known_integer() or 3)
    if timeout < 2 or window < (300 if _of_dashboard(group, probe) else 60):
        yield Hit(probe, f"timeout {timeout} s, killed after {window} s", "a timeout of 5 s, and minutes to answer")


def _of_dashboard(group: RayGroup, probe: Value) -> bool:
    """Whether the probe asks the head's dashboard: one process, which answers late when it is busy."""
    port = probe.at("httpGet", "port").raw or probe.at("tcpSocket", "port").raw
    return group.is_head and (port in ("8265", "dashboard") or ":8265" in _words(probe))


@rule(
    "wait-gcs-forever",
    "info",
    "job",
    title="no deadline for the start",
    fix="set preRunningDeadlineSeconds",
    source=f"{KUBERAY}/issues/988",
    needs=("kuberay",),
)
def wait_gcs_forever(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    """Workers wait for the head, and pods stay Pending, without a limit. activeDeadlineSeconds ends that only when the
    time for the whole run is over.
    """
    deadline = manifest.spec["activeDeadlineSeconds"]
    if (version(facts.kuberay) or (0,)) < (1, 6) or not manifest.cluster or not deadline:
        return  # the field came with 1.6; with neither deadline rayjob-no-deadline says so
    if not manifest.spec["preRunningDeadlineSeconds"]:
        yield Hit(deadline, "no preRunningDeadlineSeconds", "a deadline for the start")


@rule(
    "logs-not-persisted",
    "info",
    "cluster",
    title="logs that are lost with the pods",
    fix="mount storage at /tmp/ray, or collect it with a sidecar",
    source=f"{KUBERAY}/issues/4217",
)
def logs_not_persisted(cluster: RayClusterSpec, _: Facts) -> Iterator[Hit]:
    """Ray writes the logs of workers to /tmp/ray, not to the container's output: once the pods are gone nobody can read
    them.
    """
    if cluster.value["historyServerOptions"]:
        return
    for group in cluster.groups:
        where = group.params["temp-dir"].raw or "/tmp/ray"
        mount = group.holding(where)
        kept = mount is not None and not mount.volume["emptyDir"].node and mount.volume
        # A second container may collect the logs.
        if not kept and len(list(group.spec["containers"])) == 1:
            yield Hit(mount.value if mount else group.container["volumeMounts"], f"{where} ends with the {group.title}")
            return
