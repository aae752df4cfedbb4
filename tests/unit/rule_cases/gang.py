"""Cases for the rules of this name's module."""

from __future__ import annotations

from tests.support.manifests import GONE, HEAD_CONTAINER, HEAD_POD, WORKER, cluster_spec
from tests.support.rule_case import Case
from tests.unit.rule_cases.jobs import SELECTED, job

SCALING, VERSION = {"spec.enableInTreeAutoscaling": True}, "spec.autoscalerOptions.version"
COUNTS = tuple(f"{WORKER}.{key}" for key in ("minReplicas", "replicas", "maxReplicas"))
QUEUE, ELASTIC = {"metadata.labels": {"kueue.x-k8s.io/queue-name": "a"}}, "kueue.x-k8s.io/elastic-job"
HEAD_GPU = f"{HEAD_CONTAINER}.resources.limits.[nvidia.com/gpu]"


def counts(*given: object) -> dict[str, object]:
    return dict(zip(COUNTS, given, strict=True))


def groups(number: int) -> dict[str, object]:
    group = cluster_spec()["workerGroupSpecs"][0]
    return {**QUEUE, "spec.workerGroupSpecs": [{**group, "groupName": f"g{position}"} for position in range(number)]}


KAI: dict[str, object] = {"metadata.labels": {"kai.scheduler/queue": "a"}}
VOLCANO: dict[str, object] = {"metadata.labels": {"volcano.sh/queue-name": "a"}}
CASES = (
    Case("fixed-gang-min-max", counts(1, 2, 10), counts("${N}", "${N}", "${N}")),
    Case("fixed-gang-min-max", counts(GONE, 2, GONE), {**counts(1, 2, 10), **SCALING}),
    Case("fixed-gang-min-max", counts(1, "${N}", 10), counts("${N}", "${N}", "${N}")),
    Case("fixed-gang-min-max", counts("${N}", 2, 10), counts(2, 2, 2)),
    Case("replicas-zero", counts(0, GONE, 2), counts(2, GONE, 2)),
    Case("replicas-zero", counts(0, 0, 2), {**counts(0, 0, 2), **SCALING}),
    Case("replicas-zero", counts(0, 0, 2), counts(1, "${N}", 9)),
    Case("replicas-clamped", counts(3, 2, 9), counts(2, 2, 9)),
    Case("replicas-clamped", counts(0, 4, 2), counts(GONE, 4, GONE)),
    Case("replicas-clamped", counts(2, 1, "${N}"), counts("${N}", "${N}", "${N}")),
    Case("replicas-clamped", counts("${N}", 9, 2), counts(GONE, "${N}", GONE)),
    Case("num-of-hosts-misuse", {f"{WORKER}.numOfHosts": 2}, {f"{WORKER}.numOfHosts": 1}),
    Case("num-of-hosts-misuse", {f"{WORKER}.numOfHosts": 2, f"{WORKER}.replicas": "${N}"}),
    Case("gang-not-enforced", {}, QUEUE),
    Case("gang-not-enforced", {}, {f"{HEAD_POD}.schedulerName": "volcano"}),
    Case("gang-not-enforced", {}, counts(1, 1, 1)),
    Case("gang-not-enforced", {**counts(1, 1, 1), HEAD_GPU: "4"}, {"spec.workerGroupSpecs": [], HEAD_GPU: "4"}),
    Case("scheduler-name-label", {"metadata.labels": {"ray.io/scheduler-name": "volcano"}}, VOLCANO),
    Case("kueue-autoscaling", {**QUEUE, **SCALING}, {**QUEUE, **SCALING, "metadata.annotations": {ELASTIC: "true"}}),
    job(
        "kueue-no-shutdown",
        {"spec.shutdownAfterJobFinishes": GONE},
        {"spec.shutdownAfterJobFinishes": GONE, **SELECTED},
    ),
    job("kueue-cluster-selector", {"spec.clusterSelector": {"ray.io/cluster": "a"}}),
    job("kueue-cluster-selector", SELECTED, {**SELECTED, "metadata.labels": GONE}),
    Case("kueue-too-many-groups", groups(18), groups(17)),
    job("kai-k8sjob", KAI, {**KAI, "spec.submissionMode": "HTTPMode"}),
    Case("kai-k8sjob", KAI, KAI, "RayJob", {}, {"kuberay": "1.5"}),
    job("volcano-cluster-selector", {**VOLCANO, **SELECTED}, VOLCANO),
)
