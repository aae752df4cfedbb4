"""What Kubernetes refuses of a pod as a whole: names, labels, entries of one name, tolerations, other namespaces.

The API server takes the resource and refuses the pods that KubeRay makes of it, unless said otherwise: KubeRay says so
in an event, and nothing starts. Read from Kubernetes' pkg/apis/core/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from seatrial.check.manifest import Manifest, PodTemplate, RayGroup
from seatrial.check.names import LABEL_FORM, is_dns_label, is_label_key, is_label_value, is_subdomain
from seatrial.check.reading import placeholder
from seatrial.check.rule import K8S_DOCS, SOURCE, Facts, Hit, rule
from seatrial.check.values import Value

_LABELS = f"{K8S_DOCS}/concepts/overview/working-with-objects/labels/#syntax-and-character-set"
_NAMES = f"{K8S_DOCS}/concepts/overview/working-with-objects/names/"
_TAINTS = f"{K8S_DOCS}/concepts/scheduling-eviction/taint-and-toleration/"
_SPREAD = f"{K8S_DOCS}/concepts/scheduling-eviction/topology-spread-constraints/"
_NAMESPACES = f"{K8S_DOCS}/concepts/overview/working-with-objects/namespaces/"
_CONTAINERS = ("containers", "initContainers")
_SUBDOMAIN_FORM = "lower case letters, digits, `-` and `.`, with a letter or digit at both ends"
_DEFAULT_PROTOCOL = "TCP"


def containers(pod: PodTemplate) -> list[Value]:
    """Every container of a pod, the ones before the start too."""
    return [container for section in _CONTAINERS for container in pod.spec[section]]


@rule(
    "duplicate-entry",
    "error",
    "pod",
    title="two entries that must differ",
    fix="keep one of them, or rename it",
    source=f"{SOURCE}/config/crd/bases",
)
def duplicate_entry(pod: PodTemplate, _: Facts) -> Iterator[Hit]:
    """KubeRay's CRDs tell entries of these lists apart by that field: the API server refuses the resource with
    `Duplicate value`. Only a plain pod may have a variable twice.
    """
    yield from _twice(pod.spec["volumes"], "name", "volume")
    yield from _twice(containers(pod), "name", "container")
    for container in containers(pod):
        yield from _twice(container["env"], "name", "variable")
        yield from _twice(container["volumeMounts"], "mountPath", "mount at")
        seen: set[tuple[str, str]] = set()
        for port in container["ports"]:
            number, protocol = port["containerPort"], port["protocol"].raw or _DEFAULT_PROTOCOL
            if number.scalar and not number.unknown and (number.raw, protocol) in seen:
                yield Hit(number, f"a second port {number.raw} {protocol}", "each port once")
            seen.add((number.raw, protocol))


def _twice(entries: Value | list[Value], key: str, what: str) -> Iterator[Hit]:
    seen: set[str] = set()
    for entry in entries:
        value = entry[key]
        if value.raw in seen and not value.unknown:
            yield Hit(value, f"a second {what} {value.raw}", "each once")
        seen.update([value.raw] if value.raw else [])


def _wrong_labels(place: Value, values_too: bool) -> Iterator[Hit]:
    for key, value in place.items():
        if not is_label_key(key) and not placeholder(key):
            yield Hit(value, f"key {key}", f"{LABEL_FORM}, after a domain and `/` or alone")
        if values_too and value.scalar and not value.unknown and not is_label_value(value.raw):
            yield Hit(value, f"saw {value.raw}, {len(value.raw)} characters", LABEL_FORM)


@rule(
    "label-invalid",
    "error",
    "manifest",
    title="a label that Kubernetes does not take",
    fix="correct it; an annotation's value may hold any text",
    source=_LABELS,
)
def label_invalid(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """The API server refuses the resource, or every pod that KubeRay makes of it."""
    for metadata in (manifest.metadata, *(pod.metadata for pod in manifest.pods)):
        yield from _wrong_labels(metadata["labels"], True)
        yield from _wrong_labels(metadata["annotations"], False)
    for pod in manifest.pods:
        yield from _wrong_labels(pod.spec["nodeSelector"], True)


@rule(
    "namespace-invalid",
    "error",
    "manifest",
    title="a namespace that cannot exist",
    fix="use lower case letters, digits and dashes, at most 63",
    source=_NAMES,
)
def namespace_invalid(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """The API server refuses a namespace of such a name, and with it all that should be in it."""
    namespace = manifest.metadata["namespace"]
    if namespace.raw and not namespace.unknown and not is_dns_label(namespace.raw):
        yield Hit(namespace, f"saw {namespace.raw}", "lower case letters, digits and dashes, at most 63")


@rule(
    "object-name-invalid",
    "error",
    "pod",
    title="the name of an object that cannot exist",
    fix="write the object's own name",
    source=_NAMES,
)
def object_name_invalid(pod: PodTemplate, _: Facts) -> Iterator[Hit]:
    """No service account, claim, Secret or ConfigMap can have this name: the pods are refused, or wait for it for
    ever.
    """
    for kind, value, _optional in references(pod):
        if value.scalar and not value.unknown and value.raw and not is_subdomain(value.raw):
            yield Hit(value, f"{kind} {value.raw}", _SUBDOMAIN_FORM)


def references(pod: PodTemplate) -> Iterator[tuple[str, Value, bool]]:
    """What a pod names in its own namespace: kind, name, and whether the pod starts without it."""
    spec = pod.spec
    yield "ServiceAccount", spec["serviceAccountName"], False
    for secret in spec["imagePullSecrets"]:
        yield "Secret", secret["name"], True  # a missing one is only not used
    for volume in spec["volumes"]:
        yield "PersistentVolumeClaim", volume.at("persistentVolumeClaim", "claimName"), False
        for source in (volume, *volume.at("projected", "sources")):
            for key, kind, field in (("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName")):
                named = source[key]["name"] if source is not volume else source[key][field]
                yield kind, named, source[key]["optional"].raw == "true"
    for container in containers(pod):
        for source in container["envFrom"]:
            yield from _by_key(source, "configMapRef", "secretRef")
        for entry in container["env"]:
            yield from _by_key(entry["valueFrom"], "configMapKeyRef", "secretKeyRef")


def _by_key(source: Value, config_map: str, secret: str) -> Iterator[tuple[str, Value, bool]]:
    for key, kind in ((config_map, "ConfigMap"), (secret, "Secret")):
        yield kind, source[key]["name"], source[key]["optional"].raw == "true"


@rule(
    "namespace-differs",
    "error",
    "manifest",
    title="an object in another namespace than the pods that use it",
    fix="write the same namespace on both",
    source=_NAMESPACES,
)
def namespace_differs(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """Pods reach claims, Secrets, ConfigMaps and service accounts of their own namespace only: they are refused, or
    stay Pending.
    """
    here = manifest.metadata["namespace"]
    if not here.raw or here.unknown:
        return
    at: dict[tuple[str, str], list[Value]] = {}
    for other in manifest.others:
        at.setdefault((other["kind"].raw, other.at("metadata", "name").raw), []).append(other["metadata"]["namespace"])
    for pod in manifest.pods:
        for kind, value, optional in references(pod):
            there = at.get((kind, value.raw), []) if value.raw and not value.unknown else []
            # One without a namespace goes where kubectl is told to, one with a placeholder may be here.
            if there and not optional and all(n.raw and not n.unknown and n.raw != here.raw for n in there):
                seen = f"{kind} {value.raw} is in namespace {there[0].raw}, the {pod.title} in {here.raw}"
                yield Hit(value, seen, "one namespace")


@rule(
    "group-name-invalid",
    "error",
    "worker",
    title="a group name that cannot be part of a pod's name",
    fix="use lower case letters, digits and dashes",
    source=f"{SOURCE}/controllers/ray/utils/util.go",
)
def group_name_invalid(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """KubeRay makes pods named after cluster and group, in lower case, and labels them with the group: the API server
    refuses each of them.
    """
    name = group.value["groupName"]
    prefix = f"cluster-{name.require_known()}"[:50].lower()  # the cluster's own name has a rule
    if name.require_known() and not (is_label_value(name.require_known()) and is_subdomain(f"{prefix}-worker-x")):
        yield Hit(name, f"saw {name.require_known()}", "lower case letters, digits and dashes, at most 63")


@rule(
    "toleration-invalid",
    "error",
    "pod",
    title="a toleration that Kubernetes refuses",
    fix="drop the value, or use operator Equal",
    source=_TAINTS,
)
def toleration_invalid(pod: PodTemplate, _: Facts) -> Iterator[Hit]:
    """Exists looks at no value, a toleration without a key needs Exists, and tolerationSeconds counts for NoExecute
    only.
    """
    for toleration in pod.spec["tolerations"]:
        key, operator, value = toleration["key"], toleration["operator"], toleration["value"]
        if key.unknown or operator.unknown or toleration["effect"].unknown:
            continue
        if operator.raw == "Exists" and value.raw:
            yield Hit(value, f"a value beside operator {operator.raw}", "no value, or operator Equal")
        if not key.raw and operator.raw != "Exists":
            yield Hit(toleration, f"no key and operator {operator.raw or 'Equal, the default'}", "a key")
        elif key.raw and not is_label_key(key.raw):
            yield Hit(key, f"saw {key.raw}", "a taint's key")
        if toleration["tolerationSeconds"] and toleration["effect"].raw != "NoExecute":
            seen = f"tolerationSeconds with effect {toleration['effect'].raw or 'of every kind'}"
            yield Hit(toleration["tolerationSeconds"], seen, "effect NoExecute")


@rule(
    "spread-constraint-invalid",
    "error",
    "pod",
    title="a topology spread constraint that Kubernetes refuses",
    fix="write maxSkew: 1",
    source=_SPREAD,
)
def spread_invalid(pod: PodTemplate, _: Facts) -> Iterator[Hit]:
    """maxSkew and minDomains are 1 or more, and the key names a node label."""
    for constraint in pod.spec["topologySpreadConstraints"]:
        for value in (constraint["maxSkew"], constraint["minDomains"]):
            number = None if value.unknown else value.known_integer()
            if number is not None and number < 1:
                yield Hit(value, f"saw {value.raw}", "1 or more")
        if constraint["topologyKey"].known_or_none() == "":
            yield Hit(constraint["topologyKey"], "empty", "a node label's key")
