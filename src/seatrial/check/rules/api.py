"""The resource as an API object: version, fields, names, labels."""

from __future__ import annotations

import re
from collections.abc import Iterator

from seatrial.check.manifest import Manifest, RayClusterSpec, RayGroup
from seatrial.check.rule import K8S_DOCS, KUBERAY, SOURCE, VALIDATION_GO, Facts, Hit, rule
from seatrial.check.structure import table
from seatrial.check.values import Value
from seatrial.kube.apimachinery import quantity, version

_CRDS = f"{SOURCE}/config/crd/bases"
_QUANTITIES = f"{K8S_DOCS}/reference/kubernetes-api/common-definitions/quantity/"
_DNS1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
GATES = {
    "networkPolicy": "RayClusterNetworkPolicy",
    "tlsOptions": "RayClusterMTLS",
    "historyServerOptions": "RayClusterHistoryServer",
}
# KubeRay makes a RayCluster of a RayJob or RayService, with a suffix behind the name.
_LONGEST = {"RayCluster": 53, "RayJob": 47, "RayService": 47}


@rule(
    "quantity-invalid",
    "error",
    "group",
    title="an amount that is no Kubernetes quantity",
    fix="write it as 500m, 4 or 16Gi",
    source=_QUANTITIES,
)
def quantity_invalid(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """`16GB`, `16 Gi` and `4 cores` are no quantities: the API server refuses the resource. GPUs and EFA interfaces are
    whole numbers.
    """
    for value in _amounts(group):
        if not value.scalar or value.unknown:
            continue
        amount, key = quantity(value.raw), str(value.path[-1])
        if amount is None:
            yield Hit(value, f"saw {value.raw}", "a quantity such as 500m, 4 or 16Gi")
        elif "/" in key and amount.denominator != 1:
            yield Hit(value, f"saw {value.raw}", "a whole number: extended resources are not divided")


def _amounts(group: RayGroup) -> Iterator[Value]:
    for container in group.spec["containers"]:
        for section in ("limits", "requests"):
            yield from (value for _, value in container.at("resources", section).items())
    for volume in group.spec["volumes"]:
        yield volume.at("emptyDir", "sizeLimit")


@rule(
    "api-v1alpha1",
    "warning",
    "manifest",
    title="the old API version ray.io/v1alpha1",
    fix="write apiVersion: ray.io/v1",
    source=_CRDS,
)
def api_v1alpha1(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """It is not the stored version, and it lacks newer fields (submissionMode, backoffLimit, authOptions, resources …):
    the API server refuses or drops them.
    """
    if manifest.api_version == "ray.io/v1alpha1":
        yield Hit(manifest.root["apiVersion"], "saw ray.io/v1alpha1", "ray.io/v1")


@rule(
    "field-newer-than-kuberay",
    "error",
    "manifest",
    title="a field that this KubeRay's CRD does not have yet",
    fix="upgrade KubeRay and its CRDs, or leave the field out",
    source=f"{KUBERAY}/issues/2084",
    needs=("kuberay",),
)
def field_newer(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    """An older CRD refuses the field or drops it without a word. Helm does not upgrade CRDs."""
    if manifest.api_version != "ray.io/v1":
        return  # `api-v1alpha1` says it, and that version's CRD is another
    here = version(facts.kuberay)
    for key, since in table()["since"].items():
        kind, _, way = key.partition(":")
        if kind == manifest.kind and (version(since) or ()) > (here or ()):
            for value in _down(manifest.spec, way.split(".")):
                yield Hit(value, f"the field came with KubeRay {since}", f"a field of KubeRay {facts.kuberay}")


def _down(value: Value, way: list[str]) -> Iterator[Value]:
    """Every value down that way, through lists."""
    if value.node is not None and isinstance(value.node.value, list):
        for item in value:
            yield from _down(item, way)
    elif not way:
        if value:
            yield value
    else:
        yield from _down(value[way[0]], way[1:])


@rule("name-too-long", "error", "manifest", title="a name that is too long", fix="shorten it", source=VALIDATION_GO)
def name_too_long(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """KubeRay derives service and pod names from it and refuses longer ones; nothing starts."""
    name, most = manifest.metadata["name"], _LONGEST[manifest.kind]
    if len(name.require_known()) > most:
        yield Hit(name, f"{len(name.require_known())} characters", f"at most {most} for a {manifest.kind}")


@rule(
    "name-not-dns1035",
    "error",
    "manifest",
    title="a name that no Kubernetes service can have",
    fix="use lower case letters, digits and dashes",
    source=VALIDATION_GO,
)
def name_not_dns1035(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """KubeRay makes a service of that name: lower case letters, digits and dashes, starting with a letter. KubeRay
    refuses other names, and nothing starts.
    """
    name = manifest.metadata["name"]
    if name.require_known() and not _DNS1035.fullmatch(name.require_known()):
        yield Hit(name, f"saw {name.raw}", "[a-z]([-a-z0-9]*[a-z0-9])?")


@rule(
    "pod-name-truncated",
    "info",
    "worker",
    title="pod names that will be cut",
    fix="shorten the name of the resource or of the group",
    source=f"{KUBERAY}/issues/425",
)
def pod_name_truncated(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """KubeRay cuts the prefix of pod names at 50 characters: pods of two groups can look alike."""
    cluster, name = group.cluster.manifest.metadata["name"].require_known(), group.value["groupName"]
    if len(cluster) + 1 + len(name.require_known()) > 50:
        yield Hit(
            name,
            f"{len(cluster) + 1 + len(name.require_known())} characters with the cluster's name",
            "at most 50 together",
        )


@rule(
    "generate-name-apply",
    "warning",
    "manifest",
    title="generateName without a name",
    fix="give it a name, or create it",
    source=f"{'https://kubernetes.io/docs'}/reference/using-api/api-concepts/#generated-values",
)
def generate_name(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """`kubectl apply` cannot use generateName; only `kubectl create` can."""
    if manifest.metadata["generateName"].scalar and not manifest.metadata["name"].scalar:
        yield Hit(manifest.metadata["generateName"], "generateName and no name", "a name, for kubectl apply")


@rule(
    "group-name-duplicate",
    "error",
    "cluster",
    title="two worker groups of one name",
    fix="give each group a name of its own",
    source=f"{SOURCE}/pkg/webhooks/v1/raycluster_webhook.go",
)
def group_name_duplicate(cluster: RayClusterSpec, _: Facts) -> Iterator[Hit]:
    """KubeRay finds the pods of a group by its name, so two groups of one name count each other's pods. Only KubeRay's
    webhook would refuse it, and the webhook is off by default.
    """
    seen: set[str] = set()
    for group in cluster.workers:
        name = group.value["groupName"]
        if name.raw and name.raw in seen:  # as written: two equal placeholders become one name
            yield Hit(name, f"a second group named {name.raw}", "names that differ")
        seen.add(name.raw)


@rule(
    "group-name-reserved",
    "error",
    "worker",
    title="a worker group with the name that KubeRay gives the head",
    fix="rename the group",
    source=f"{SOURCE}/controllers/ray/utils/constant.go",
)
def group_name_reserved(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """`headgroup` is the label of the head's own group: KubeRay would count the head as a pod of this group. Under
    Kueue `head` is the name of the head's pod set.
    """
    name, kueue = group.value["groupName"], bool(group.cluster.manifest.kueue)
    if name.require_known() == "headgroup" or (kueue and name.require_known() == "head"):
        yield Hit(name, f"saw {name.raw}", "another name")


@rule(
    "alpha-gate-field",
    "warning",
    "cluster",
    title="a field behind a feature gate that is off by default",
    fix="turn the gate on in the operator, or leave the field out",
    source=f"{SOURCE}/pkg/features/features.go",
    needs=("server",),
)
def alpha_gate(cluster: RayClusterSpec, _: Facts) -> Iterator[Hit]:
    """KubeRay refuses the resource unless the gate is on in the operator."""
    for value, gate in gated(cluster):
        yield Hit(value, f"needs feature gate {gate}", "a gate that the operator has on")


def gated(cluster: RayClusterSpec) -> Iterator[tuple[Value, str]]:
    """Each field that needs a feature gate which is off by default, and the gate."""
    yield from ((cluster.value[field], gate) for field, gate in GATES.items() if cluster.value[field])
    backend = cluster.value.at("gcsFaultToleranceOptions", "backend")
    if backend.require_known() == "rocksdb":
        yield backend, "GCSFaultToleranceEmbeddedStorage"
