"""Whether the API server, the CRDs and the operator of the cluster take the resource."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.check.manifest import Manifest, RayClusterSpec
from seatrial.check.rule import K8S_DOCS, KUBERAY, RULES, SOURCE, Facts, Hit
from seatrial.check.rules.api import gated
from seatrial.check.server.interview import Interview, NotAnswered
from seatrial.check.server.rule import server_rule
from seatrial.check.structure import table
from seatrial.check.values import CannotTell, Value
from seatrial.kube.apimachinery import version
from seatrial.kube.definitions import Definition
from seatrial.kube.dry_run import Accepted

Schema = Mapping[str, Any]
_STEP = re.compile(r"([^.\[\]]+)|\[([^\]]*)\]")
_GATES_KNOWN_TO = (1, 7)  # the newest release whose feature gates were read: alpha gates are off
_GANG_LABELS = (
    "ray.io/gang-scheduling-enabled",
    "volcano.sh/queue-name",
    "yunikorn.apache.org/queue",
    "kai.scheduler/queue",
)


@server_rule(
    "server-rejects",
    "error",
    "manifest",
    title="the API server refuses the resource",
    fix="do as the message says; nothing was created",
    source=f"{K8S_DOCS}/reference/using-api/api-concepts/#dry-run",
)
def server_rejects(manifest: Manifest, interview: Interview) -> Iterator[Hit]:
    """The API server refused a server-side dry run, with strict field validation and all admission webhooks. It would
    refuse the resource itself, too.
    """
    verdict = interview.dry_run(manifest)
    # Other rules report a field that the CRD lacks, and a missing CRD.
    if isinstance(verdict, Accepted) or (verdict.code == 404 and not verdict.causes):
        return
    name = manifest.metadata["name"] or manifest.root["metadata"]
    unknown = None
    for path, message in verdict.causes or (("", verdict.message),):
        value = at(manifest.root, path) if path else name
        if value.unknown:
            unknown = value
        elif not _undefined(manifest, interview, value):
            yield Hit(value, message or verdict.message)
    if unknown is not None:
        raise CannotTell(f"{unknown.field} is {unknown.raw}", unknown)


def at(root: Value, path: str) -> Value:
    """The value at `spec.workerGroupSpecs[0].env[nvidia.com/gpu]`; its nearest ancestor where it is absent."""
    value = root
    for name, key in _STEP.findall(path):
        step = int(key) if key.isdigit() and not value.items() else (name or key.strip("\"'"))
        if value[step].node is None:
            return value
        value = value[step]
    return value


def _undefined(manifest: Manifest, interview: Interview, value: Value) -> bool:
    """Whether `crd-older-than-manifest` reports it already."""
    try:
        return any(value.path == hit.value.path for hit in older_crd(manifest, interview))
    except NotAnswered:
        return False


@server_rule(
    "crd-missing",
    "error",
    "manifest",
    title="the cluster does not know the resource",
    fix="install KubeRay's CRDs, or write an apiVersion that is served",
    source=f"{SOURCE}/config/crd/bases",
)
def crd_missing(manifest: Manifest, interview: Interview) -> Iterator[Hit]:
    """KubeRay's CRD for this kind is not installed, or does not serve this version of it."""
    definition = interview.definition(manifest.kind)
    if definition is None:
        yield Hit(manifest.root["kind"], f"the cluster has no CRD for {manifest.kind}", "KubeRay installed")
    elif _version(manifest) not in definition.versions:
        served = ", ".join(f"ray.io/{name}" for name in definition.versions) or "no version"
        yield Hit(manifest.root["apiVersion"], f"{manifest.api_version} is not served", served)


def _version(manifest: Manifest) -> str:
    return manifest.api_version.partition("/")[2]


@server_rule(
    "crd-older-than-manifest",
    "error",
    "manifest",
    title="a field that the installed CRD does not have",
    fix="upgrade the CRDs by hand: kubectl apply --server-side",
    source=f"{KUBERAY}/issues/2084",
)
def older_crd(manifest: Manifest, interview: Interview) -> Iterator[Hit]:
    """The API server refuses the field, or drops it silently where the client does not ask for strict validation. Helm
    does not upgrade CRDs.
    """
    definition = interview.definition(manifest.kind)
    if definition is None or _version(manifest) not in definition.versions:
        return
    for value in absent(manifest, definition):
        since = table()["since"].get(f"{manifest.kind}:{_way(value)}")
        came = f", which came with KubeRay {since}" if since else ""
        yield Hit(value, f"the installed CRD has no such field{came}", "a field of the CRD in the cluster")


def absent(manifest: Manifest, definition: Definition) -> Iterator[Value]:
    """The fields of a resource that a CRD would drop."""
    schema = definition.versions[_version(manifest)]
    yield from _pruned(manifest.spec, schema.get("properties", {}).get("spec", {}))


def _pruned(value: Value, schema: Schema) -> Iterator[Value]:
    """What Kubernetes prunes by a structural schema: fields that are neither declared nor entries of a map."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    for item in value:
        yield from _pruned(item, schema.get("items", {}))
    fields, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name, child in value.items():
        if name in fields:
            yield from _pruned(child, fields[name])
        elif not others and schema.get("type") == "object":
            yield child
        elif isinstance(others, dict):
            yield from _pruned(child, others)


def _way(value: Value) -> str:
    """The path below `spec` as in the table of fields: names without indexes."""
    return ".".join(step for step in value.path[1:] if isinstance(step, str))


@server_rule(
    "operator-older-than-field",
    "error",
    "manifest",
    title="a field that the running operator does not know",
    fix="upgrade the operator to the release of its CRDs",
    source=f"{KUBERAY}/releases",
)
def older_operator(manifest: Manifest, interview: Interview) -> Iterator[Hit]:
    """The CRD has the field, but the operator is older: the field is stored, and nothing acts on it."""
    operator = interview.operator()
    if not operator.version:
        interview.note(f"the operator's release is unknown: its image is {operator.image}")
        raise NotAnswered
    for hit in RULES["field-newer-than-kuberay"].function(manifest, Facts(operator.version)):
        if not _undefined(manifest, interview, hit.value):
            running = f"KubeRay {operator.version}, which runs in namespace {operator.namespace}"
            yield Hit(hit.value, hit.seen, f"a field of {running}")


@server_rule(
    "feature-gate-off",
    "error",
    "cluster",
    title="a field whose feature gate is off in the operator",
    fix="turn the gate on with the operator's --feature-gates, or leave the field out",
    source=f"{SOURCE}/pkg/features/features.go",
)
def gate_off(cluster: RayClusterSpec, interview: Interview) -> Iterator[Hit]:
    """The operator refuses the resource (InvalidRayClusterSpec) and starts nothing."""
    for value, gate in gated(cluster):
        if not gate_on(gate, interview, value):
            yield Hit(value, f"feature gate {gate} is off in the operator", f"--feature-gates={gate}=true")


def gate_on(gate: str, interview: Interview, value: Value) -> bool:
    """Whether an alpha gate is on in the operator. Raises CannotTell for an operator newer than what is known here."""
    operator = interview.operator()
    if gate in operator.gates or "AllAlpha" in operator.gates:
        return operator.gates.get(gate, operator.gates.get("AllAlpha", False))
    release = version(operator.version)
    if release is None or release[:2] > _GATES_KNOWN_TO:
        raise CannotTell(f"the default of feature gate {gate} in {operator.image} is unknown", value)
    return False


@server_rule(
    "batch-scheduler-off",
    "warning",
    "manifest",
    title="gang scheduling, and an operator without a batch scheduler",
    fix="set the operator's batch scheduler, or leave the label out",
    source=f"{SOURCE}/controllers/ray/batchscheduler",
)
def scheduler_off(manifest: Manifest, interview: Interview) -> Iterator[Hit]:
    """The operator runs without `--batch-scheduler`: it does not read the label, and pods start one by one."""
    labels = [label for key in _GANG_LABELS if (label := manifest.label(key))]
    groups = manifest.cluster.groups if manifest.cluster else []
    # Pods that name a scheduler themselves do not need the operator's.
    if not labels or any(group.spec["schedulerName"] for group in groups):
        return
    operator = interview.operator()
    if operator.scheduler is None:
        interview.note("the operator's batch scheduler is unknown: it is set in a configuration file in its pod")
    elif not operator.scheduler:
        yield Hit(labels[0], f"{labels[0].path[-1]} and no --batch-scheduler", "an operator with a batch scheduler")
