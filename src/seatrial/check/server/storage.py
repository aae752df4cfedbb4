"""Claims of the pods, and the storage classes that provision their volumes."""

from __future__ import annotations

import json
from collections.abc import Iterator

from seatrial.check.manifest import Manifest, RayClusterSpec
from seatrial.check.reading import YamlDocument, documents
from seatrial.check.rule import K8S_DOCS, RULES, Facts, Hit, Severity
from seatrial.check.server.interview import Interview, NotAnswered
from seatrial.check.server.namespaces import known_first
from seatrial.check.server.rule import also_asks, server_rule
from seatrial.check.values import Value
from seatrial.kube.storage import PersistentVolumeClaim


def claim_names(manifest: Manifest) -> list[Value]:
    """The claims of the pods and of the head's fault tolerance: the first place of each name."""
    found = [volume.at("persistentVolumeClaim", "claimName") for pod in manifest.pods for volume in pod.spec["volumes"]]
    if manifest.cluster:
        found.append(manifest.cluster.value.at("gcsFaultToleranceOptions", "storage", "claimName"))
    return known_first(found)


def _in_the_cluster(manifest: Manifest, interview: Interview) -> Iterator[tuple[Value, PersistentVolumeClaim | None]]:
    """Each claim that the resource uses and the input does not bring; None where the cluster has none."""
    namespace = interview.namespace(manifest)
    for value in claim_names(manifest):
        name = value.require_known()
        if not interview.brings("PersistentVolumeClaim", namespace, name):
            yield value, next((claim for claim in interview.claims(namespace) if claim.name == name), None)


@server_rule(
    "pvc-missing",
    "error",
    "manifest",
    title="a claim that does not exist",
    fix="create the claim in the same namespace",
    source=f"{K8S_DOCS}/concepts/storage/persistent-volumes/#claims-as-volumes",
)
def pvc_missing(manifest: Manifest, interview: Interview) -> Iterator[Hit]:
    """The pods stay Pending with `persistentvolumeclaim not found`. Claims of other namespaces do not count."""
    for value, claim in _in_the_cluster(manifest, interview):
        if claim is None:
            yield Hit(value, f"namespace {interview.namespace(manifest)} has no claim {value.raw}", "an existing claim")


@server_rule(
    "pvc-not-bound",
    "warning",
    "manifest",
    title="a claim without a volume",
    fix="`kubectl describe pvc` says what it waits for",
    source=f"{K8S_DOCS}/concepts/storage/persistent-volumes/#phase",
)
def pvc_not_bound(manifest: Manifest, interview: Interview) -> Iterator[Hit]:
    """Its pods stay Pending until it is bound. A claim whose storage class waits for the first pod is no finding."""
    for value, claim in _in_the_cluster(manifest, interview):
        if claim is None or claim.phase == "Bound":
            continue
        if claim.phase == "Lost":
            yield Hit(value, f"claim {claim.name} has lost its volume {claim.volume}", "a claim that is Bound", "error")
        elif not any(known.waits for known in interview.storage_classes() if known.name == claim.storage_class):
            kind = f"storage class {claim.storage_class}" if claim.storage_class else "no storage class"
            yield Hit(value, f"claim {claim.name} is {claim.phase}, with {kind}", "a claim that is Bound")


@also_asks("pvc-rwo-many-pods")
def pvc_rwo(cluster: RayClusterSpec, interview: Interview) -> Iterator[Hit]:
    """The rule of that name with the cluster's claims; without a cluster it knows only those of the input."""
    manifest = cluster.manifest
    claims = {}
    for _, claim in _in_the_cluster(manifest, interview):
        if claim is not None:
            claims[manifest.metadata["namespace"].raw, claim.name] = _value(claim)
    yield from RULES["pvc-rwo-many-pods"].function(cluster, Facts("", claims=claims))


def _value(claim: PersistentVolumeClaim) -> Value:
    [document] = documents(json.dumps(claim.document).encode(), "the cluster")
    assert isinstance(document, YamlDocument)
    return Value.of(document.root, "the cluster")


@server_rule(
    "storage-class-missing",
    "error",
    "manifest",
    title="a storage class that does not exist",
    fix="name one that `kubectl get storageclass` lists",
    source=f"{K8S_DOCS}/concepts/storage/storage-classes/",
)
def storage_class_missing(manifest: Manifest, interview: Interview) -> Iterator[Hit]:
    """Nothing provisions a volume for the claim: it stays Pending, and so do its pods."""
    known = interview.storage_classes()
    for wanted in _wanted_classes(manifest, interview):
        name = wanted.known_or_none()
        if name is None and not any(one.default for one in known):
            yield Hit(wanted, "no storageClassName, and the cluster has no default class", "a storage class")
        elif name and name not in {one.name for one in known} and not interview.brings("StorageClass", "", name):
            static = _static(name, interview)
            if static is not True:
                severity: Severity | None = None if static is False else "warning"
                yield Hit(wanted, f"the cluster has no storage class {name}", "an existing storage class", severity)


def _wanted_classes(manifest: Manifest, interview: Interview) -> Iterator[Value]:
    """storageClassName of each claim that will be created, absent where none is named. `""` asks for no class."""
    specs = [v.at("ephemeral", "volumeClaimTemplate", "spec") for pod in manifest.pods for v in pod.spec["volumes"]]
    for value in claim_names(manifest):
        name = "" if value.unknown else value.raw
        if claim := interview.brings("PersistentVolumeClaim", interview.namespace(manifest), name):
            specs.append(claim["spec"])
    if manifest.cluster and (storage := manifest.cluster.value.at("gcsFaultToleranceOptions", "storage"))["size"]:
        specs.append(storage)
    yield from (spec["storageClassName"] for spec in specs if spec and not spec["volumeName"])


def _static(name: str, interview: Interview) -> bool | None:
    """Whether a volume of that class exists already: then no StorageClass is needed. None: unknown."""
    brought = (
        v.at("spec", "storageClassName").raw for v in interview.given.others if v["kind"].raw == "PersistentVolume"
    )
    if name in brought:
        return True
    try:
        return any(volume.storage_class == name for volume in interview.volumes())
    except NotAnswered:
        return None
