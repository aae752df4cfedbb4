"""What the operator will make of a manifest: each derived value beside the line that it comes from, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from seatrial.check import inputs, operator
from seatrial.check.manifest import Manifest, RayClusterSpec, RayGroup
from seatrial.check.operator import DEFAULT_KUBERAY, Derived
from seatrial.check.values import CannotTell
from seatrial.check.values import shown as size
from seatrial.errors import InputError, clean
from seatrial.kube.apimachinery import version


@dataclass(frozen=True)
class EffectiveLine:
    """One derived value: of which part, what, why, and where in the manifest it comes from."""

    part: str
    name: str
    value: str
    reason: str
    path: str
    line: int
    source: str  # the value as it stands in the manifest


@dataclass(frozen=True)
class Effective:
    """One resource, the KubeRay that is asked about, and what it makes of the resource."""

    manifest: Manifest
    kuberay: str
    lines: list[EffectiveLine]

    @property
    def note(self) -> str:
        """What to know about that KubeRay; empty where there is nothing."""
        return inputs.strange_kuberay(self.kuberay)


def each(found: Iterable[Manifest | InputError], kuberay: str | None) -> Iterator[Effective]:
    """What `kuberay` makes of each resource; where it is not given a trial's own version counts, else the default.

    Raises InputError for what cannot be read.
    """
    if kuberay and version(kuberay) is None:
        raise InputError(f"saw {clean(kuberay)}", field="kuberay", expected="a version such as 1.6")
    for manifest in found:
        if isinstance(manifest, InputError):
            raise manifest
        release = kuberay or inputs.kuberay_of(manifest.root.file) or DEFAULT_KUBERAY
        yield Effective(manifest, release, list(lines(manifest, release)))


def lines(manifest: Manifest, kuberay: str) -> Iterator[EffectiveLine]:
    """Everything that KubeRay derives from a resource."""
    cluster = manifest.cluster
    if cluster is None:
        selector = manifest.spec["clusterSelector"]  # the one way to run without a cluster of its own
        chosen = Derived("an existing one", "clusterSelector is set", selector)
        none = Derived("none", "the resource describes no head group", manifest.spec)
        yield _line("resource", "cluster", chosen if selector else none)
        return
    for group in cluster.groups:
        if group.container:
            yield from _group(group, kuberay)
        else:
            yield _line(group.title, "pods", Derived("none", "the pod template has no container", group.value))
    yield from _service(cluster)
    if cluster.autoscaling:
        yield from _autoscaler(cluster)
    if manifest.is_job:
        yield from _submitter(manifest)


def _told(part: str, name: str, make: Callable[[], Derived | None]) -> Iterator[EffectiveLine]:
    """The line of a derived value, or the one that says why it is unknown."""
    try:
        derived = make()
    except CannotTell as unknown:
        yield _line(part, name, Derived("unknown", unknown.reason, unknown.value))
    else:
        if derived is not None:
            yield _line(part, name, derived)


def _line(part: str, name: str, derived: Derived) -> EffectiveLine:
    origin = derived.origin
    return EffectiveLine(part, name, str(derived.value), derived.reason, origin.field, origin.line, origin.raw)


def _group(group: RayGroup, kuberay: str) -> Iterator[EffectiveLine]:
    part = group.title
    yield from _told(
        part, "pods", lambda: Derived(group.pods, "replicas × numOfHosts", group.value["replicas"] or group.value)
    )
    try:
        params = operator.start_params(group)
    except CannotTell as unknown:
        yield _line(part, "ray start", Derived("unknown", unknown.reason, unknown.value))
        params = {}
    for key, derived in params.items():
        if derived.reason != "as written":  # what the manifest says itself its reader knows
            yield _line(part, key, derived)
    yield from _told(part, "command", lambda: operator.command(group))
    yield from _told(part, "/dev/shm", lambda: _shm(group))
    yield from _told(part, "probes", lambda: _probes(group, kuberay))
    if not group.is_head:
        reason = "KubeRay waits for the head with `ray health-check`, without end, in 200m CPU and 256Mi"
        yield _line(part, "init container", Derived("wait-gcs-ready", reason, group.spec))
    for name, value in _variables(group).items():
        yield _line(part, f"env {name}", value)


def _shm(group: RayGroup) -> Derived:
    shm = operator.shared_memory(group)
    amount = "no limit" if shm.size is None else size(shm.size)
    return Derived(f"{amount}{'' if shm.memory else ', on a disk'}", shm.reason, shm.origin)


def _probes(group: RayGroup, kuberay: str) -> Derived:
    found = operator.probes(group, kuberay)
    reason = "the container has its own" if found.readiness == found.liveness == "own" else found.reason
    return Derived(f"readiness {found.readiness}, liveness {found.liveness}", reason, group.cluster.ray_version)


def _variables(group: RayGroup) -> dict[str, Derived]:
    """What KubeRay adds to the environment that a program can see (setContainerEnvVars)."""
    here, port = group.container, group.cluster.head.params["port"].raw or "6379"
    added: dict[str, Derived] = {}
    if "RAY_ADDRESS" not in group.env:  # the other variables that KubeRay sets say nothing about the manifest
        host = "127.0.0.1" if group.is_head else "<head service>"
        added["RAY_ADDRESS"] = Derived(f"{host}:{port}", "KubeRay sets it where the container does not", here)
    return added


def _service(cluster: RayClusterSpec) -> Iterator[EffectiveLine]:
    try:
        ports = operator.head_ports(cluster)
    except CannotTell as unknown:
        yield _line("head service", "ports", Derived("unknown", unknown.reason, unknown.value))
        return
    for name, derived in ports.items():
        yield _line("head service", f"port {name}", derived)


def _autoscaler(cluster: RayClusterSpec) -> Iterator[EffectiveLine]:
    # The autoscaler is a sidecar of the head's pod: it has the head's image and account unless told otherwise.
    image = cluster.value.at("autoscalerOptions", "image")
    own = Derived(image.raw, "as written", image) if image else None
    yield _line("autoscaler", "image", own or Derived(cluster.head.image.raw, "the head's image", cluster.head.image))
    account = cluster.head.spec["serviceAccountName"]
    named = Derived(account.raw, "the head's own; it must exist", account)
    made = Derived(cluster.manifest.metadata["name"].raw, "KubeRay makes one named as the cluster", cluster.head.spec)
    yield _line("autoscaler", "service account", named if account else made)


def _submitter(manifest: Manifest) -> Iterator[EffectiveLine]:
    try:
        mode = manifest.submission_mode
    except CannotTell as unknown:
        yield _line("submitter", "mode", Derived("unknown", unknown.reason, unknown.value))
        return
    yield _line("submitter", "mode", Derived(mode, "K8sJobMode is the default", manifest.spec["submissionMode"]))
    if mode in ("HTTPMode", "InteractiveMode"):
        yield _line("submitter", "pod", Derived("none", f"{mode} starts no pod", manifest.spec))
    elif manifest.submitter is None and manifest.cluster:
        head = manifest.cluster.head.image
        reason = "the head's image, on any node: KubeRay copies neither nodeSelector nor tolerations nor env"
        yield _line("submitter", "pod", Derived(f"{head.raw}, 500m/200Mi to 1/1Gi", reason, head))


def document(found: Iterable[Effective]) -> list[dict[str, Any]]:
    """The resources as JSON."""
    return [
        {
            "kind": one.manifest.kind,
            "name": one.manifest.metadata["name"].raw,
            **inputs.place(one.manifest.root.file),
            "kuberay": one.kuberay,
            "notes": [one.note] if one.note else [],
            "derived": [_document(line) for line in one.lines],
        }
        for one in found
    ]


def _document(line: EffectiveLine) -> dict[str, Any]:
    # In JSON `path` is the field's name, as the place of the file stands beside it under that name.
    names = {"part": "part", "name": "name", "value": "value", "reason": "reason", "path": "field", "line": "line"}
    return {shown: getattr(line, name) for name, shown in (*names.items(), ("source", "source"))}
