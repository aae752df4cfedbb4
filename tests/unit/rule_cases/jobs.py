"""Cases for the rules of this name's module."""

from __future__ import annotations

from tests.support.manifests import GONE, HEAD_CONTAINER, WORKER_CONTAINER
from tests.support.rule_case import Case

SHUTDOWN, TTL, RULES = "spec.shutdownAfterJobFinishes", "spec.ttlSecondsAfterFinished", "spec.deletionStrategy"
NO_QUEUE = {"metadata.labels": GONE}
SELECTED = {"spec.rayClusterSpec": GONE, "spec.clusterSelector": {"ray.io/cluster": "shared"}}
NO_DEADLINE = {"spec.activeDeadlineSeconds": GONE, "spec.preRunningDeadlineSeconds": GONE}
QUEUED = {"metadata.labels": {"kueue.x-k8s.io/queue-name": "training"}}
NO_ACCELERATORS = {f"{WORKER_CONTAINER}.resources.{side}.[nvidia.com/gpu]": GONE for side in ("limits", "requests")}
BARE = {SHUTDOWN: GONE, TTL: GONE}


def when(policy: str, seconds: int = 0, **status: str) -> dict[str, object]:
    return {"policy": policy, "condition": {"ttlSeconds": seconds, **(status or {"jobStatus": "FAILED"})}}


def deletion(*rules: dict[str, object], **others: object) -> dict[str, object]:
    return {**BARE, RULES: {"deletionRules": list(rules), **others}}


def job(rule: str, broken: dict[str, object], right: dict[str, object] | None = None, **facts: object) -> Case:
    return Case(rule, broken, right or {}, kind="RayJob", facts=facts)


CASES = (
    job("rayjob-needs-cluster", {"spec.rayClusterSpec": GONE}, SELECTED),
    job("rayjob-needs-cluster", {"spec.rayClusterSpec": GONE, "spec.clusterSelector": {}}),
    job("rayjob-no-cleanup", {**NO_QUEUE, **BARE}, {**NO_QUEUE, **deletion(when("DeleteCluster"))}),
    job("rayjob-no-cleanup", {**NO_QUEUE, **BARE, SHUTDOWN: False}, {**NO_QUEUE, **BARE, **SELECTED}),
    job("ttl-without-shutdown", {SHUTDOWN: GONE}, {SHUTDOWN: GONE, TTL: 0}),
    job("ttl-without-shutdown", {SHUTDOWN: False}),
    job("ttl-zero-logs-lost", {TTL: GONE}),
    job("ttl-zero-logs-lost", {TTL: 0}, {TTL: 0, f"{HEAD_CONTAINER}.volumeMounts.2.name": "fsx"}),
    job(
        "deletion-rules-conflict", {RULES: {"deletionRules": [when("DeleteCluster")]}}, deletion(when("DeleteCluster"))
    ),
    job("deletion-rules-conflict", {**BARE, RULES: {"onSuccess": {"policy": "DeleteSelf"}}}),
    job("deletion-rules-conflict", {**BARE, RULES: {}}),
    job("deletion-rules-conflict", deletion(when("DeleteSelf"), onSuccess={"policy": "DeleteSelf"})),
    job("deletion-rules-conflict", deletion(when("DeleteSelf", jobStatus="FAILED", jobDeploymentStatus="Failed"))),
    job(
        "deletion-rules-conflict",
        deletion(when("DeleteSelf", 5), when("DeleteSelf", 9)),
        deletion(when("DeleteSelf", 5), when("DeleteSelf", 9, jobStatus="SUCCEEDED")),
    ),
    job(
        "deletion-rules-conflict",
        deletion(when("DeleteSelf", 5), when("DeleteWorkers", 9)),
        deletion(when("DeleteSelf", 9), when("DeleteCluster", 9), when("DeleteWorkers", 5)),
    ),
    job(
        "deletion-rules-conflict",
        {**SELECTED, **deletion(when("DeleteCluster"))},
        {**SELECTED, **deletion(when("DeleteSelf"))},
    ),
    job("deletion-rules-conflict", {**deletion(when("DeleteWorkers")), "spec.enableInTreeAutoscaling": True}),
    job(
        "deletion-rules-conflict",
        {RULES: {"onSuccess": {"policy": "DeleteNone"}, "onFailure": {"policy": "DeleteSelf"}}},
        {RULES: {"onSuccess": {"policy": "DeleteSelf"}, "onFailure": {"policy": "DeleteSelf"}}},
    ),
    job(
        "rayjob-no-deadline",
        {"spec.activeDeadlineSeconds": GONE, "spec.preRunningDeadlineSeconds": GONE},
        {"spec.activeDeadlineSeconds": GONE},
    ),
    job("rayjob-no-deadline", {**NO_DEADLINE, **NO_ACCELERATORS}, {**NO_DEADLINE, **SELECTED}),
    job("deadline-not-positive", {"spec.activeDeadlineSeconds": 0}, {TTL: 0}),
    job("deadline-not-positive", {"spec.backoffLimit": -1}, {"spec.backoffLimit": 0}),
    job("backoff-full-cluster", {"spec.backoffLimit": 2}, {"spec.backoffLimit": 0}),
    job(
        "cluster-selector-unknown-key",
        {**SELECTED, "spec.clusterSelector": {"ray.io/cluster": "a", "namespace": "b"}},
        SELECTED,
    ),
    job("cluster-selector-unknown-key", {**SELECTED, "spec.clusterSelector": {"name": "a"}}),
    job("cluster-selector-shutdown", SELECTED, {**SELECTED, **BARE}),
    job("cluster-selector-backoff", {**SELECTED, "spec.backoffLimit": 1}, {**SELECTED, "spec.backoffLimit": 0}),
    job("cluster-selector-backoff", {**SELECTED, "spec.submissionMode": "SidecarMode"}),
    job("cluster-selector-backoff", {**SELECTED, "spec.suspend": True}, {"spec.suspend": True}),
    job("job-id-fixed", {**SELECTED, "spec.jobId": "one"}, {"spec.jobId": "one"}),
    job("managed-by-value", {"spec.managedBy": "me"}, {"spec.managedBy": "kueue.x-k8s.io/multikueue"}),
    job("managed-by-value", {"spec.rayClusterSpec.managedBy": "me"}),
    job("suspended", {**NO_QUEUE, "spec.suspend": True}, {"spec.suspend": True}),
    job("suspended", {SHUTDOWN: False, TTL: GONE, "spec.suspend": True}, {**NO_QUEUE, "spec.suspend": False}),
    Case("suspended", {"spec.suspend": True}, {"spec.suspend": False}),
    Case("suspended", {"spec.suspend": True}, {"spec.suspend": True, **QUEUED}),
)
