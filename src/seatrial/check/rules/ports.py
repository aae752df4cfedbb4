"""Ports of head and workers: what Ray listens on, what the container lists, what clashes."""

from __future__ import annotations

from collections.abc import Iterator

from seatrial.check.manifest import RayGroup
from seatrial.check.rule import KUBERAY, SOURCE, Facts, Hit, Severity, rule
from seatrial.check.rules.network import port_of
from seatrial.check.values import Value

_SERVICE_GO = f"{SOURCE}/controllers/ray/common/service.go"
# Parameter of `ray start`, its default, and the names that the head's container gives the port.
_HEAD_PORTS = (
    ("port", 6379, ("gcs-server", "gcs", "redis")),
    ("dashboard-port", 8265, ("dashboard",)),
    ("ray-client-server-port", 10001, ("client",)),
)


@rule(
    "port-mismatch",
    "warning",
    "head",
    title="a port that Ray does not listen on",
    fix="make containerPort and rayStartParams agree",
    source=_SERVICE_GO,
)
def port_mismatch(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """The head's service takes its ports from the container's list; KubeRay does not compare them with Ray's own. The
    operator asks the dashboard there before it submits a job.
    """
    for port in group.container["ports"]:
        for param, default, names in _HEAD_PORTS:
            listed = port["containerPort"]
            if port["name"].raw in names and listed.known_integer() not in (None, port_of(group, param, default)):
                severity: Severity | None = "error" if names == ("dashboard",) and _operator_asks(group) else None
                seen = f"port {port['name'].raw} is {listed.raw}, Ray listens on {port_of(group, param, default)}"
                yield Hit(listed, seen, str(port_of(group, param, default)), severity)


def _operator_asks(group: RayGroup) -> bool:
    """Whether the operator talks to this head's dashboard: of a RayJob and of a RayService."""
    return group.cluster.manifest.kind != "RayCluster"


def _listed(group: RayGroup) -> set[str]:
    """Names of the head's ports: once the container lists any, KubeRay adds none but metrics."""
    extra = group.value.at("headService", "spec", "ports")
    return {port["name"].require_known() for ports in (group.container["ports"], extra) for port in ports}


@rule(
    "head-ports-unnamed",
    "warning",
    "head",
    title="no port named dashboard on the head",
    fix="name the ports gcs-server, dashboard and client, or list none",
    source=f"{KUBERAY}/issues/5179",
)
def head_ports_unnamed(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """Once the container lists a port, KubeRay adds none of its own. It looks for the service's port `dashboard`:
    without it a RayJob fails with `dashboard port is not found`, and links to the dashboard vanish.
    """
    if list(group.container["ports"]) and "dashboard" not in _listed(group):
        severity: Severity | None = "error" if _operator_asks(group) else None
        yield Hit(group.container["ports"], "ports, and none named dashboard", "a port named dashboard", severity)


@rule(
    "head-port-gcs-missing",
    "info",
    "head",
    title="no port named gcs-server on the head",
    fix="name the GCS port gcs-server",
    source=_SERVICE_GO,
)
def head_port_gcs(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """The head's service is headless by default and works without; one with an address of its own does not let workers
    in.
    """
    if list(group.container["ports"]) and "gcs-server" not in _listed(group):
        yield Hit(group.container["ports"], "ports, and none named gcs-server", "a port named gcs-server")


def _sidecar_ports(group: RayGroup) -> Iterator[tuple[str, Value]]:
    for container in list(group.spec["containers"])[1:]:
        for port in container["ports"]:
            yield container["name"].raw or "a sidecar", port["containerPort"]


@rule(
    "reserved-port-used",
    "warning",
    "group",
    title="a sidecar on one of Ray's ports",
    fix="move the sidecar to another port",
    source="https://github.com/ray-project/ray/issues/55638",
)
def reserved_port(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """Containers of a pod share its ports: whoever starts second fails with `Address already in use`."""
    taken = {port_of(group, "dashboard-agent-listen-port", 52365): "the dashboard agent"}
    for param, default, names in _HEAD_PORTS if group.is_head else ():
        taken[port_of(group, param, default)] = names[0]
    for name, port in _sidecar_ports(group):
        number = port.known_integer()
        if number is not None and number in taken:
            yield Hit(port, f"{name} on {port.raw}, the port of {taken[number]}", "another port")


@rule(
    "metrics-port-clash",
    "info",
    "group",
    title="a sidecar on the port of Ray's metrics",
    fix="move the sidecar, or set metrics-export-port",
    source=f"{SOURCE}/controllers/ray/utils/constant.go",
)
def metrics_port(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """KubeRay has Ray export metrics on 8080; where a sidecar holds it, they are lost."""
    metrics = port_of(group, "metrics-export-port", 8080)
    for name, port in _sidecar_ports(group):
        if port.known_integer() == metrics:
            yield Hit(port, f"{name} on {metrics}", "another port")
