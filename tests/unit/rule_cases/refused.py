"""Cases for the rules of this name's module."""

from __future__ import annotations

from typing import Any

from tests.support.manifests import GONE, HEAD, HEAD_CONTAINER, HEAD_POD, WORKER
from tests.support.rule_case import Case

ENV = f"{HEAD_CONTAINER}.env.1"
RAY, SCALING, OPTIONS = "spec.rayVersion", "spec.enableInTreeAutoscaling", "spec.autoscalerOptions"
AUTH, GCS = "spec.authOptions", "spec.gcsFaultToleranceOptions"
TOKEN = {AUTH: {"mode": "token"}}
K8S_TOKEN = {AUTH: {"mode": "token", "enableK8sTokenAuth": True}}
FT, NAMESPACE = "metadata.annotations.[ray.io/ft-enabled]", "metadata.annotations.[ray.io/external-storage-namespace]"
REDIS = {GCS: {"redisAddress": "redis:6379"}}
ADDRESS = {ENV: {"name": "RAY_REDIS_ADDRESS", "value": "redis:6379"}}
ROCKS = {"backend": "rocksdb"}
STRATEGY, TIMEOUT = "spec.upgradeStrategy", "metadata.annotations.[ray.io/initializing-timeout]"
RULES = {"spec.shutdownAfterJobFinishes": GONE, "spec.ttlSecondsAfterFinished": GONE}


def upgrade(**numbers: Any) -> dict[str, Any]:
    options = {"stepSizePercent": 20, "intervalSeconds": 30, "gatewayClassName": "istio", **numbers}
    return {
        STRATEGY: {"type": "NewClusterWithIncrementalUpgrade", "clusterUpgradeOptions": options},
        SCALING: True,
    }


def deletion(seconds: int) -> dict[str, Any]:
    entry = {"policy": "DeleteSelf", "condition": {"jobStatus": "FAILED", "ttlSeconds": seconds}}
    return {**RULES, "spec.deletionStrategy": {"deletionRules": [entry]}}


def service(rule: str, broken: dict[str, Any], right: dict[str, Any] | None = None, **facts: Any) -> Case:
    return Case(rule, broken, right or {}, kind="RayService", facts=facts)


CASES = (
    Case("auth-needs-ray-version", {**TOKEN, RAY: GONE}, {**TOKEN, RAY: "2.52"}),
    Case("auth-needs-ray-version", {**TOKEN, RAY: "nightly"}, {RAY: "nightly"}),
    Case("auth-needs-ray-version", {**TOKEN, RAY: "2.51.2"}, {AUTH: {"mode": "disabled"}, RAY: "2.51.2"}),
    Case("auth-needs-ray-version", {**K8S_TOKEN, RAY: "2.54.0"}, {**K8S_TOKEN, RAY: "2.55.0"}),
    Case("k8s-token-auth-conflict", {AUTH: {"enableK8sTokenAuth": True}}, K8S_TOKEN),
    Case("k8s-token-auth-conflict", {AUTH: {"enableK8sTokenAuth": True, "mode": "disabled"}}, TOKEN),
    Case(
        "k8s-token-auth-conflict",
        {AUTH: {"mode": "token", "enableK8sTokenAuth": True, "secretName": "mine"}},
        {AUTH: {"mode": "token", "enableK8sTokenAuth": False, "secretName": "mine"}},
    ),
    Case("k8s-token-auth-conflict", {"spec.rayClusterSpec.authOptions": K8S_TOKEN[AUTH]}, kind="RayJob"),
    service("k8s-token-auth-conflict", {"spec.rayClusterConfig.authOptions": K8S_TOKEN[AUTH]}),
    Case(
        "upgrade-strategy-nested",
        {"spec.rayClusterSpec.upgradeStrategy.type": "Recreate"},
        {"spec.rayClusterSpec.upgradeStrategy": {}},
        kind="RayJob",
    ),
    service(
        "upgrade-strategy-nested",
        {"spec.rayClusterConfig.upgradeStrategy.type": "None"},
        {"spec.upgradeStrategy.type": "None"},
    ),
    Case("gcs-ft-conflict", {**REDIS, FT: "true"}, REDIS),
    Case("gcs-ft-conflict", {**REDIS, NAMESPACE: "mine"}, {NAMESPACE: "mine", FT: "true"}),
    Case("gcs-ft-conflict", ADDRESS, {**ADDRESS, FT: "True"}),
    Case("gcs-ft-conflict", {**ADDRESS, FT: "false"}),
    Case("gcs-ft-conflict", {**ADDRESS, **REDIS}),
    Case("gcs-ft-conflict", {ENV: {"name": "REDIS_USERNAME", "value": "x"}}),
    Case(
        "gcs-ft-conflict",
        {**REDIS, ENV: {"name": "REDIS_PASSWORD", "value": "x"}},
        {FT: "true", ENV: {"name": "REDIS_PASSWORD", "value": "x"}},
    ),
    Case(
        "gcs-ft-conflict",
        {**REDIS, f"{HEAD}.rayStartParams.redis-password": "x"},
        {f"{HEAD}.rayStartParams.redis-password": "x"},
    ),
    Case("gcs-ft-conflict", {f"{HEAD}.rayStartParams.redis-username": "x"}),
    Case("gcs-backend-conflict", {GCS: {"storage": {"size": "1Gi"}}}, {GCS: {**ROCKS, "storage": {"size": "1Gi"}}}),
    Case("gcs-backend-conflict", {GCS: {**ROCKS, "redisAddress": "redis:6379"}}, {GCS: {**ROCKS, "redisAddress": ""}}),
    Case("gcs-backend-conflict", {GCS: {**ROCKS, "redisPassword": {"value": ""}}}),
    Case(
        "gcs-backend-conflict",
        {GCS: {**ROCKS, "storage": {"claimName": "mine", "size": "1Gi"}}},
        {GCS: {**ROCKS, "storage": {"claimName": "mine", "accessModes": []}}},
    ),
    Case("gcs-backend-conflict", {GCS: ROCKS, ENV: {"name": "RAY_gcs_storage", "value": "rocksdb"}}, {GCS: ROCKS}),
    Case(
        "gcs-backend-conflict",
        {GCS: ROCKS, f"{HEAD_CONTAINER}.volumeMounts.3": {"name": "fsx", "mountPath": "/data/gcs"}},
        {GCS: ROCKS, f"{HEAD_CONTAINER}.volumeMounts.3": {"name": "fsx", "mountPath": "/data/gcs2"}},
    ),
    Case(
        "gcs-backend-conflict",
        {GCS: ROCKS, f"{HEAD_POD}.volumes.3": {"name": "gcs-storage", "emptyDir": {}}},
        {f"{HEAD_POD}.volumes.3": {"name": "gcs-storage", "emptyDir": {}}},
    ),
    Case("group-labels-invalid", {f"{WORKER}.labels": {"a b": "c"}}, {f"{WORKER}.labels": {"x.org/a_b": ""}}),
    Case("group-labels-invalid", {f"{HEAD}.labels": {"X.org/a": "c"}}, {f"{HEAD}.labels": {"x.org/A": "c"}}),
    Case("group-labels-invalid", {f"{WORKER}.labels": {"a": "b/c"}}, {f"{WORKER}.labels": {"a": "b.c"}}),
    Case("group-labels-invalid", {f"{WORKER}.labels": {"a": "b" * 64}}, {f"{WORKER}.labels": {"a": "b" * 63}}),
    service(
        "service-name-managed",
        {f"{HEAD}.headService": {"metadata": {"name": "mine"}}},
        {f"{HEAD}.headService": {"metadata": {"annotations": {"a": "b"}}}},
    ),
    service("service-upgrade-options", {f"{STRATEGY}.type": "Rolling"}, {f"{STRATEGY}.type": "NewCluster"}),
    service("service-upgrade-options", {**upgrade(), SCALING: False}, upgrade()),
    service("service-upgrade-options", upgrade(maxSurgePercent=10), upgrade(maxSurgePercent=20)),
    service("service-upgrade-options", upgrade(maxSurgePercent=101), upgrade(stepSizePercent=100)),
    service("service-upgrade-options", upgrade(intervalSeconds=0)),
    service("service-upgrade-options", upgrade(gatewayClassName="")),
    service("service-upgrade-options", {SCALING: True, f"{STRATEGY}.type": "NewClusterWithIncrementalUpgrade"}),
    Case(
        "service-upgrade-options",
        upgrade(intervalSeconds=0),
        upgrade(intervalSeconds=0),
        kind="RayService",
        right_facts={"kuberay": "1.6"},
    ),
    service(
        "service-upgrade-options",
        {"spec.rayClusterDeletionDelaySeconds": -1},
        {"spec.rayClusterDeletionDelaySeconds": 0},
    ),
    service("initializing-timeout-invalid", {TIMEOUT: "5 minutes"}, {TIMEOUT: "1h2.5m"}),
    service("initializing-timeout-invalid", {TIMEOUT: "0s"}, {TIMEOUT: "600"}),
    service("initializing-timeout-invalid", {TIMEOUT: "-5m"}, {TIMEOUT: ""}),
    Case(
        "deletion-policy-missing",
        {"spec.deletionStrategy": {"onSuccess": {"policy": "DeleteSelf"}, "onFailure": {}}},
        {"spec.deletionStrategy": {"onSuccess": {"policy": "DeleteSelf"}, "onFailure": {"policy": "DeleteSelf"}}},
        kind="RayJob",
    ),
    Case("deletion-policy-missing", deletion(-1), deletion(0), kind="RayJob"),
)
