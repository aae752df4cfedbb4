"""The network between pods: host network, policies, meshes, ports, and the interfaces that NCCL and gloo are told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from seatrial.check.manifest import Cluster, Group, accelerators
from seatrial.check.rule import DLC, DLC_EKS, K8S_DOCS, KUBERAY, SOURCE, Facts, Hit, Severity, rule
from seatrial.check.values import Value

_DNS_POLICY = f"{K8S_DOCS}/concepts/services-networking/dns-pod-service/#pod-s-dns-policy"
_POLICIES = f"{K8S_DOCS}/concepts/services-networking/network-policies/"
_SERVICE_GO = f"{SOURCE}/controllers/ray/common/service.go"
_ISTIO = "https://docs.ray.io/en/latest/cluster/kubernetes/k8s-ecosystem/istio.html"
_DO_EKS = "https://github.com/aws-samples/aws-do-eks/pull"
# Parameter of `ray start`, its default, and the names that the head's container gives the port.
_HEAD_PORTS = (
    ("port", 6379, ("gcs-server", "gcs", "redis")),
    ("dashboard-port", 8265, ("dashboard",)),
    ("ray-client-server-port", 10001, ("client",)),
)


def port_of(group: Group, param: str, default: int) -> int:
    """The port that Ray listens on. Raises CannotTell for a placeholder."""
    return group.params[param].integer or default


@rule(
    "host-network", "warning", "group",
    title="pods on the node's network",
    why="Ray's fixed ports (6379, 8265, 8080, 52365) are then the node's: one Ray pod a node, clashes with anything else there, and the dashboard open on the node's address. EFA does not need it.",
    fix="remove hostNetwork", source="https://github.com/ray-project/kuberay/issues/1738",
)  # fmt: skip
def host_network(group: Group, _: Facts) -> Iterator[Hit]:
    if group.spec["hostNetwork"].flag:
        yield Hit(group.spec["hostNetwork"], f"hostNetwork true on the {group.title}", "the pod's own network")


@rule(
    "hostnetwork-dns", "error", "group",
    title="pods on the node's network that cannot resolve cluster names",
    why="With hostNetwork the policy ClusterFirst falls back to the node's resolver. Workers look for the head by its service name and wait in `wait-gcs-ready` for ever.",
    fix="set dnsPolicy: ClusterFirstWithHostNet", source=_DNS_POLICY,
)  # fmt: skip
def hostnetwork_dns(group: Group, _: Facts) -> Iterator[Hit]:
    policy = group.spec["dnsPolicy"]
    if group.spec["hostNetwork"].flag and policy.text in ("", "ClusterFirst", "Default"):
        severity: Severity | None = "warning" if group.is_head else None  # the head finds itself without DNS
        seen = f"dnsPolicy {policy.text or 'is not set'} on the {group.title}"
        yield Hit(policy, seen, "ClusterFirstWithHostNet", severity)


def _covers(rules: Iterable[Value], port: int) -> bool:
    """Whether some rule lets a port through. A named port may be it."""
    for entry in rules:
        if not list(entry["ports"]):
            return True
        for item in entry["ports"]:
            first, last = item["port"].integer, item["endPort"].integer
            if first is None or first == port or (last is not None and first <= port <= last):
                return True
    return False


def _outwards(rules: Iterable[Value]) -> list[Value]:
    """Egress rules that reach beyond the namespace's own pods, where the cluster's DNS may be."""
    peers = ("ipBlock", "namespaceSelector")
    return [r for r in rules if not list(r["to"]) or any(peer[key].node for peer in r["to"] for key in peers)]


def _selects(policy: Value, group: Group) -> bool:
    """Whether a NetworkPolicy surely selects a group's pods: by labels that KubeRay or the template sets."""
    manifest, selector = group.cluster.manifest, policy.at("spec", "podSelector")
    here = policy.at("metadata", "namespace").raw == manifest.metadata["namespace"].raw
    labels = {key: value.raw for key, value in group.metadata["labels"].items()}
    labels |= {"ray.io/is-ray-node": "yes", "ray.io/node-type": "head" if group.is_head else "worker"}
    labels |= {"app.kubernetes.io/name": "kuberay", "app.kubernetes.io/created-by": "kuberay-operator"}
    labels["ray.io/group"] = "headgroup" if group.is_head else group.value["groupName"].raw
    if manifest.kind == "RayCluster":  # a RayJob's cluster has a generated name
        labels["ray.io/cluster"] = manifest.metadata["name"].raw
    chosen = all(labels.get(key) == value.raw for key, value in selector["matchLabels"].items())
    return here and chosen and not list(selector["matchExpressions"])


@rule(
    "deny-egress-no-dns", "error", "cluster",
    title="a network policy that cuts workers off",
    why="Workers find the head by its service name. Without DNS, or without a way in to the head, they wait in `wait-gcs-ready` for ever; the operator adds no rule for DNS.",
    fix="allow UDP and TCP 53 outwards, and traffic between the cluster's pods", source=f"{KUBERAY}/pull/4638",
)  # fmt: skip
def deny_egress_no_dns(cluster: Cluster, _: Facts) -> Iterator[Hit]:
    own = cluster.value["networkPolicy"]
    for group in cluster.workers if own and own["mode"].text != "DenyAllIngress" else []:
        custom = [entry for entry in own["workerGroups"] if entry["groupName"].raw == group.value["groupName"].raw]
        egress = (custom[0] if custom else own["worker"])["egressRules"]
        if not _covers(_outwards(egress), 53):
            yield Hit(own, f"{own['mode'].text or 'DenyAll'} without a DNS rule for {group.title}", "egress to port 53")
    policies = [other for other in cluster.manifest.others if other["kind"].raw == "NetworkPolicy"]
    for group in cluster.groups:  # what another policy allows may stand elsewhere: a warning
        yield from _isolated(group, [policy for policy in policies if _selects(policy, group)])


def _closed(policies: list[Value]) -> set[str]:
    """The directions that some policy closes; one that names none closes Ingress, and Egress if it has rules for it."""
    found: set[str] = set()
    for policy in policies:
        named = {kind.raw for kind in policy.at("spec", "policyTypes")}
        found |= named or {"Ingress", *(["Egress"] if policy.at("spec", "egress") else [])}
    return found


def _isolated(group: Group, policies: list[Value]) -> Iterator[Hit]:
    """Policies add up: a closed direction is open for what any of them allows."""
    specs, closed = [policy["spec"] for policy in policies], _closed(policies)
    egress = [entry for spec in specs for entry in spec["egress"]]
    ingress = [entry for spec in specs for entry in spec["ingress"]]
    if not group.is_head and "Egress" in closed and not _covers(_outwards(egress), 53):
        yield Hit(specs[0], f"no DNS outwards for {group.title}", "egress to port 53", "warning")
    shut = "Ingress" in closed and not _covers(ingress, port_of(group, "port", 6379))
    if group.is_head and group.cluster.workers and shut:
        yield Hit(specs[0], "no way in to the head's GCS", "ingress from the cluster's pods", "warning")


@rule(
    "service-mesh-sidecar", "warning", "group",
    title="a service mesh in front of Ray's ports",
    why="Ray, NCCL and gloo open ports that the mesh does not know: the proxy refuses or breaks connections between raylets, and training hangs.",
    fix="leave these pods out of the mesh, or exclude Ray's ports from it", source=_ISTIO,
)  # fmt: skip
def service_mesh(group: Group, _: Facts) -> Iterator[Hit]:
    fixed = group.params["node-manager-port"].scalar  # as Ray's guide to Istio sets them
    for section in ("labels", "annotations"):
        for key, words in (("sidecar.istio.io/inject", ("true",)), ("linkerd.io/inject", ("enabled", "ingress"))):
            value = group.metadata.at(section, key)
            annotations = [name for name, _ in group.metadata["annotations"].items()]
            excluded = any(name.startswith("traffic.sidecar.istio.io/") or "skip-" in name for name in annotations)
            if value.raw in words and not fixed and not excluded:
                yield Hit(value, f"{key} {value.raw}", "no mesh, or Ray's ports excluded")


@rule(
    "port-mismatch", "warning", "head",
    title="a port that Ray does not listen on",
    why="The head's service takes its ports from the container's list; KubeRay does not compare them with Ray's own. The operator asks the dashboard there before it submits a job.",
    fix="make containerPort and rayStartParams agree", source=_SERVICE_GO,
)  # fmt: skip
def port_mismatch(group: Group, _: Facts) -> Iterator[Hit]:
    for port in group.container["ports"]:
        for param, default, names in _HEAD_PORTS:
            listed = port["containerPort"]
            if port["name"].raw in names and listed.integer not in (None, port_of(group, param, default)):
                severity: Severity | None = "error" if names == ("dashboard",) and _operator_asks(group) else None
                seen = f"port {port['name'].raw} is {listed.text}, Ray listens on {port_of(group, param, default)}"
                yield Hit(listed, seen, str(port_of(group, param, default)), severity)


def _operator_asks(group: Group) -> bool:
    """Whether the operator talks to this head's dashboard: of a RayJob and of a RayService."""
    return group.cluster.manifest.kind != "RayCluster"


def _listed(group: Group) -> set[str]:
    """Names of the head's ports: once the container lists any, KubeRay adds none but metrics."""
    extra = group.value.at("headService", "spec", "ports")
    return {port["name"].text for ports in (group.container["ports"], extra) for port in ports}


@rule(
    "head-ports-unnamed", "warning", "head",
    title="no port named dashboard on the head",
    why="Once the container lists a port, KubeRay adds none of its own. It looks for the service's port `dashboard`: without it a RayJob fails with `dashboard port is not found`, and links to the dashboard vanish.",
    fix="name the ports gcs-server, dashboard and client, or list none", source=f"{KUBERAY}/issues/5179",
)  # fmt: skip
def head_ports_unnamed(group: Group, _: Facts) -> Iterator[Hit]:
    if list(group.container["ports"]) and "dashboard" not in _listed(group):
        severity: Severity | None = "error" if _operator_asks(group) else None
        yield Hit(group.container["ports"], "ports, and none named dashboard", "a port named dashboard", severity)


@rule(
    "head-port-gcs-missing", "info", "head",
    title="no port named gcs-server on the head",
    why="The head's service is headless by default and works without; one with an address of its own does not let workers in.",
    fix="name the GCS port gcs-server", source=_SERVICE_GO,
)  # fmt: skip
def head_port_gcs(group: Group, _: Facts) -> Iterator[Hit]:
    if list(group.container["ports"]) and "gcs-server" not in _listed(group):
        yield Hit(group.container["ports"], "ports, and none named gcs-server", "a port named gcs-server")


def _sidecar_ports(group: Group) -> Iterator[tuple[str, Value]]:
    for container in list(group.spec["containers"])[1:]:
        for port in container["ports"]:
            yield container["name"].raw or "a sidecar", port["containerPort"]


@rule(
    "reserved-port-used", "warning", "group",
    title="a sidecar on one of Ray's ports",
    why="Containers of a pod share its ports: whoever starts second fails with `Address already in use`.",
    fix="move the sidecar to another port", source="https://github.com/ray-project/ray/issues/55638",
)  # fmt: skip
def reserved_port(group: Group, _: Facts) -> Iterator[Hit]:
    taken = {port_of(group, "dashboard-agent-listen-port", 52365): "the dashboard agent"}
    for param, default, names in _HEAD_PORTS if group.is_head else ():
        taken[port_of(group, param, default)] = names[0]
    for name, port in _sidecar_ports(group):
        if port.integer in taken:
            yield Hit(port, f"{name} on {port.text}, the port of {taken[port.integer]}", "another port")


@rule(
    "metrics-port-clash", "info", "group",
    title="a sidecar on the port of Ray's metrics",
    why="KubeRay has Ray export metrics on 8080; where a sidecar holds it, they are lost.",
    fix="move the sidecar, or set metrics-export-port", source=f"{SOURCE}/controllers/ray/utils/constant.go",
)  # fmt: skip
def metrics_port(group: Group, _: Facts) -> Iterator[Hit]:
    metrics = port_of(group, "metrics-export-port", 8080)
    for name, port in _sidecar_ports(group):
        if port.integer == metrics:
            yield Hit(port, f"{name} on {metrics}", "another port")


def _interfaces(group: Group, name: str = "NCCL_SOCKET_IFNAME") -> tuple[Value, list[str]]:
    """The variable and the interfaces that it lists, without NCCL's signs for exclusion (^) and exactness (=)."""
    value = group.variable(name)
    return value, [part.strip() for part in value.text.lstrip("^=").split(",") if part.strip()]


@rule(
    "ifname-eth0-hostnetwork", "warning", "group",
    title="eth0 on the node's network",
    why="Pods have eth0; EC2 hosts name their interfaces ens5 or enp40s0. NCCL stops with `Bootstrap : no socket interface found`, gloo with `Unable to find address`.",
    fix="leave it out, or exclude instead: ^lo,docker,veth,pod-id-link0", source=f"{DLC}/pull/6469",
)  # fmt: skip
def ifname_eth0_host(group: Group, _: Facts) -> Iterator[Hit]:
    if not group.spec["hostNetwork"].flag or (group.is_head and not accelerators(group)):
        return
    for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        value, listed = _interfaces(group, name)
        if listed and not value.text.startswith("^") and all(part.startswith("eth") for part in listed):
            yield Hit(value, f"{name} {value.text} with hostNetwork", "a name that hosts have, such as ens or enp")


@rule(
    "ifname-hardcoded", "info", "group",
    title="a network interface by name",
    why="AWS's guide sets eth0, and in pods of the VPC CNI it is right; another CNI, more interfaces or hostNetwork break it. The DLC's own default excludes lo and docker0 instead.",
    fix="leave it to the image, or keep it knowingly", source=DLC_EKS,
)  # fmt: skip
def ifname_hardcoded(group: Group, _: Facts) -> Iterator[Hit]:
    if not accelerators(group) or group.spec["hostNetwork"].flag:
        return
    value, listed = _interfaces(group)
    if listed and not value.text.startswith("^"):
        yield Hit(value, f"NCCL_SOCKET_IFNAME {value.text}", "an exclusion such as ^lo,docker0")


@rule(
    "ifname-pod-identity", "warning", "group",
    title="EKS Pod Identity's interface left to NCCL",
    why="On the node's network NCCL also sees pod-id-link0 (169.254.170.23), which no other node reaches: it picks it, and the first collective hangs on refused connections.",
    fix="add pod-id-link0 to the exclusion", source=f"{_DO_EKS}/54",
)  # fmt: skip
def ifname_pod_identity(group: Group, _: Facts) -> Iterator[Hit]:
    if not group.spec["hostNetwork"].flag or not accelerators(group):
        return
    value, listed = _interfaces(group)
    if value.text.startswith("^") and not any("pod-id-link0".startswith(part) for part in listed):
        yield Hit(value, f"{value.text} does not exclude pod-id-link0", f"{value.text},pod-id-link0")


@rule(
    "gloo-ifname-list", "error", "group",
    title="NCCL's syntax for gloo",
    why="gloo takes names of interfaces only. With ^ or = it stops at the first group with `Unable to find address for: ^lo`.",
    fix="name one interface, or leave it out", source=f"{_DO_EKS}/51",
)  # fmt: skip
def gloo_ifname(group: Group, _: Facts) -> Iterator[Hit]:
    value = group.variable("GLOO_SOCKET_IFNAME")
    if value.text.startswith(("^", "=")):
        yield Hit(value, f"GLOO_SOCKET_IFNAME {value.text}", "the name of an interface")
