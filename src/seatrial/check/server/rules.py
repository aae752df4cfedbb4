"""The rules that need a live cluster, as data. What finds them is in `api`, `objects` and `nodes`, under the same ids.

For the offline checker they hit nothing: `SERVER_RULES` joins the other rules for pages, lists, selection and
`seatrial.io/ignore`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from seatrial.check.rule import K8S_DOCS, KUBERAY, SOURCE, Hit, Rule, Severity, Subject
from seatrial.check.server.interview import Interview

Check = Callable[[Any, Interview], Iterable[Hit]]
SERVER_RULES: dict[str, Rule] = {}
CHECKS: dict[str, Check] = {}

_SCHEDULING = f"{K8S_DOCS}/concepts/scheduling-eviction/assign-pod-node/"
_PLUGINS = f"{K8S_DOCS}/concepts/extend-kubernetes/compute-storage-net/device-plugins/"
_CUDA = "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html"
_KUEUE = "https://kueue.sigs.k8s.io/docs"


def found_by(id: str) -> Callable[[Check], Check]:
    """Makes a function the one that finds a rule's hits; the rule may be one that files alone can break as well."""

    def register(check: Check) -> Check:
        if id in CHECKS:
            raise ValueError(f"two checks for {id}")
        CHECKS[id] = check
        return check

    return register


def _asked_of_the_cluster(*_: object) -> Iterator[Hit]:
    """Without a cluster there is nothing to find."""
    return iter(())


def _rule(id: str, severity: Severity, on: Subject, title: str, why: str, fix: str, source: str) -> None:
    SERVER_RULES[id] = Rule(id, severity, on, title, why, fix, source, ("server",), _asked_of_the_cluster)


_rule(
    "server-rejects", "error", "manifest",
    "the API server refuses the resource",
    "A server-side dry run with strict field validation, through all admission webhooks, ended with a refusal: "
    "applying it would too.",
    "do as the message says; nothing was created",
    f"{K8S_DOCS}/reference/using-api/api-concepts/#dry-run",
)  # fmt: skip
_rule(
    "crd-missing", "error", "manifest",
    "the cluster does not know the resource",
    "KubeRay's CRD for this kind is not installed, or does not serve this version of it.",
    "install KubeRay's CRDs, or write an apiVersion that is served",
    f"{SOURCE}/config/crd/bases",
)  # fmt: skip
_rule(
    "crd-older-than-manifest", "error", "manifest",
    "a field that the installed CRD does not have",
    "The API server refuses it, or drops it without a word where the client does not ask for strict validation; Helm "
    "does not upgrade CRDs.",
    "upgrade the CRDs by hand: kubectl apply --server-side",
    f"{KUBERAY}/issues/2084",
)  # fmt: skip
_rule(
    "operator-older-than-field", "error", "manifest",
    "a field that the running operator does not know",
    "The CRD has the field, the operator is of an older release: the field is stored and nothing acts on it.",
    "upgrade the operator to the release of its CRDs",
    f"{KUBERAY}/releases",
)  # fmt: skip
_rule(
    "feature-gate-off", "error", "cluster",
    "a field whose feature gate the operator has off",
    "The operator refuses the resource (InvalidRayClusterSpec) and starts nothing.",
    "turn the gate on with the operator's --feature-gates, or leave the field out",
    f"{SOURCE}/pkg/features/features.go",
)  # fmt: skip
_rule(
    "batch-scheduler-off", "warning", "manifest",
    "gang scheduling asked of an operator that does none",
    "The operator runs without --batch-scheduler: it reads no such label, and pods start one by one.",
    "set the operator's batch scheduler, or leave the label out",
    f"{SOURCE}/controllers/ray/batchscheduler",
)  # fmt: skip
_rule(
    "namespace-missing", "error", "manifest",
    "a namespace that is not there",
    "The API server refuses a resource of a namespace that does not exist or is being deleted.",
    "create it first, or name another one",
    f"{K8S_DOCS}/concepts/overview/working-with-objects/namespaces/",
)  # fmt: skip
_rule(
    "sa-missing", "error", "manifest",
    "a service account that is not there",
    "The operator cannot create the pods: `serviceaccount not found`.",
    "create it in the same namespace",
    f"{K8S_DOCS}/tasks/configure-pod-container/configure-service-account/",
)  # fmt: skip
_rule(
    "pvc-missing", "error", "manifest",
    "a claim that is not there",
    "The pods stay Pending with `persistentvolumeclaim not found`; claims of other namespaces do not count.",
    "create the claim in the same namespace",
    f"{K8S_DOCS}/concepts/storage/persistent-volumes/#claims-as-volumes",
)  # fmt: skip
_rule(
    "pvc-not-bound", "warning", "manifest",
    "a claim without a volume",
    "Pods that use it stay Pending until it is bound. One whose storage class waits for the first pod is not meant.",
    "see `kubectl describe pvc` for what keeps it",
    f"{K8S_DOCS}/concepts/storage/persistent-volumes/#phase",
)  # fmt: skip
_rule(
    "storage-class-missing", "error", "manifest",
    "a storage class that is not there",
    "Nothing makes a volume for the claim: it stays Pending, and its pods with it.",
    "name one that `kubectl get storageclass` lists",
    f"{K8S_DOCS}/concepts/storage/storage-classes/",
)  # fmt: skip
_rule(
    "no-node-fits", "error", "group",
    "pods for which there is no node",
    "No node is ready, carries the labels, has no taint against the pod and is large enough for it, even with nothing "
    "else on it: the pod stays Pending. Where something may add nodes it is a warning.",
    "compare with `kubectl describe nodes`",
    _SCHEDULING,
)  # fmt: skip
_rule(
    "too-few-nodes", "error", "group",
    "more pods than there is room for",
    "The nodes that would take them cannot hold all of the group's pods at once, even with nothing else on them. "
    "Where something may add nodes it is a warning.",
    "ask for fewer or smaller pods, or add nodes",
    _SCHEDULING,
)  # fmt: skip
_rule(
    "device-plugin-missing", "error", "group",
    "a device that no node offers and no plugin would announce",
    "GPUs and EFA interfaces are known to the scheduler only through a device plugin on the nodes. Where something may "
    "add nodes it is a warning: node images may bring the plugin.",
    "install the NVIDIA device plugin or GPU operator, and the EFA device plugin",
    _PLUGINS,
)  # fmt: skip
_rule(
    "cuda-driver-too-old", "error", "gpu",
    "nodes whose NVIDIA driver is too old for the image",
    "CUDA 13 needs driver 580 or later, CUDA 12 driver 525; the image's own check does not run under KubeRay. "
    "`torch.cuda.is_available()` is False and NCCL does not start.",
    "use nodes with a newer driver, or an image of an older CUDA",
    _CUDA,
)  # fmt: skip
_rule(
    "kueue-queue-missing", "error", "manifest",
    "a Kueue queue that is not there",
    "Kueue holds the resource suspended for a LocalQueue that its namespace does not have. Without Kueue the label "
    "does nothing.",
    "name one that `kubectl get localqueues` lists",
    f"{_KUEUE}/concepts/local_queue/",
)  # fmt: skip
_rule(
    "kueue-queue-inactive", "warning", "manifest",
    "a Kueue queue that admits nothing now",
    "The LocalQueue or its ClusterQueue is stopped or incomplete: the resource stays suspended.",
    "see `kubectl describe localqueue`",
    f"{_KUEUE}/concepts/local_queue/",
)  # fmt: skip
_rule(
    "quota-too-small", "error", "manifest",
    "more than the namespace's quota allows",
    "All groups together ask for more than a ResourceQuota: the operator cannot create the last pods. Where only what "
    "others use is in the way it is a warning.",
    "raise the quota, or ask for less",
    f"{K8S_DOCS}/concepts/policy/resource-quotas/",
)  # fmt: skip
