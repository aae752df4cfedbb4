"""Cases for the rules of this name's module, and of `structure` and `suppression`."""

from __future__ import annotations

from tests.support.manifests import GONE, HEAD, WORKER, WORKER_CONTAINER, WORKER_POD
from tests.support.rule_case import Case

IGNORE = "metadata.annotations.[seatrial.io/ignore]"

CASES = (
    Case("unknown-field", {f"{HEAD}.replicas": 1}, {f"{HEAD}.serviceType": "ClusterIP"}),
    Case(
        "field-missing", {f"{WORKER}.groupName": GONE}, {f"{WORKER}.minReplicas": GONE, f"{WORKER}.maxReplicas": GONE}
    ),
    Case("type-not-string", {f"{WORKER}.rayStartParams.num-gpus": 4}, {f"{WORKER}.rayStartParams.num-gpus": "4"}),
    Case("type-not-int", {f"{WORKER}.replicas": "2"}),
    Case("type-mismatch", {f"{WORKER_POD}.tolerations": {}}, {f"{WORKER_POD}.hostNetwork": False}),
    Case("enum-mismatch", {"spec.upgradeStrategy.type": "Rolling"}, {"spec.upgradeStrategy.type": "None"}),
    Case(
        "quantity-invalid",
        {f"{WORKER_CONTAINER}.resources.limits.memory": "160GB"},
        {f"{WORKER_CONTAINER}.resources.limits.memory": "160Gi"},
    ),
    Case("api-v1alpha1", {"apiVersion": "ray.io/v1alpha1"}),
    Case(
        "field-newer-than-kuberay",
        {"spec.networkPolicy": {"mode": "DenyAll"}},
        {"spec.networkPolicy": {"mode": "DenyAll"}},
        facts={"kuberay": "1.6"},
        right_facts={"kuberay": "1.7"},
    ),
    Case("name-too-long", {"metadata.name": "a" * 54}, {"metadata.name": "a" * 53}),
    Case("name-not-dns1035", {"metadata.name": "qwen2.5"}, {"metadata.name": "qwen2-5"}),
    Case("pod-name-truncated", {f"{WORKER}.groupName": "g" * 46}, {f"{WORKER}.groupName": "g" * 45}),
    Case(
        "generate-name-apply", {"metadata": {"generateName": "x-"}}, {"metadata": {"generateName": "x-", "name": "x"}}
    ),
    Case(
        "group-name-duplicate", {"spec.workerGroupSpecs.1.replicas": 2}, {"spec.workerGroupSpecs.1.groupName": "gpu-b"}
    ),
    Case("group-name-reserved", {f"{WORKER}.groupName": "headgroup"}, {f"{WORKER}.groupName": "head"}),
    Case("alpha-gate-field", {"spec.tlsOptions": {"mode": "x"}}, {"spec.headServiceAnnotations": {"a": "b"}}),
    Case("ignore-unknown-rule", {IGNORE: "no-such-rule: because"}, {IGNORE: "image-not-digest: mirrored"}),
    Case("ignore-without-reason", {IGNORE: "image-not-digest"}, {IGNORE: "image-not-digest: mirrored"}),
)
