"""The namespace of the resource, and the service accounts in it."""

from __future__ import annotations

from collections.abc import Iterator

from seatrial.check.manifest import Manifest
from seatrial.check.rule import K8S_DOCS, Hit
from seatrial.check.server.interview import Interview
from seatrial.check.server.rule import server_rule
from seatrial.check.values import Value


@server_rule(
    "namespace-missing",
    "error",
    "manifest",
    title="a namespace that does not exist",
    fix="create it first, or name another one",
    source=f"{K8S_DOCS}/concepts/overview/working-with-objects/namespaces/",
)
def namespace_missing(manifest: Manifest, interview: Interview) -> Iterator[Hit]:
    """The API server refuses a resource of a namespace that does not exist or is being deleted."""
    value, namespace = manifest.metadata["namespace"], interview.namespace(manifest)
    phase, title = interview.phase(namespace), namespace if value else f"{namespace} (the context's)"
    if phase is None and not interview.brings("Namespace", "", namespace):
        yield Hit(value, f"the cluster has no namespace {title}", "an existing namespace")
    elif phase == "Terminating":
        yield Hit(value, f"namespace {title} is being deleted", "a namespace that stays")


def known_first(values: list[Value]) -> list[Value]:
    """The first value of each text. Placeholders come last: CannotTell then ends a rule after its other hits."""
    return sorted({value.raw: value for value in reversed(values) if value}.values(), key=lambda value: value.unknown)


@server_rule(
    "sa-missing",
    "error",
    "manifest",
    title="a service account that does not exist",
    fix="create it in the same namespace",
    source=f"{K8S_DOCS}/tasks/configure-pod-container/configure-service-account/",
)
def sa_missing(manifest: Manifest, interview: Interview) -> Iterator[Hit]:
    """The operator cannot create the pods: `serviceaccount not found`."""
    # KubeRay makes one only for a head with an autoscaler that names none; every namespace has `default`.
    namespace = interview.namespace(manifest)
    for value in known_first([pod.spec["serviceAccountName"] for pod in manifest.pods]):
        name = value.require_known()
        if name == "default" or interview.brings("ServiceAccount", namespace, name):
            continue
        if name not in interview.service_accounts(namespace):
            yield Hit(value, f"namespace {namespace} has no service account {name}", "an existing service account")
