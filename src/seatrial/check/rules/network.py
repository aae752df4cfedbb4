"""The network between pods: host network, policies, meshes, and the interfaces that NCCL and gloo are told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from seatrial.check.manifest import RayClusterSpec, RayGroup, accelerators
from seatrial.check.rule import DLC, DLC_EKS, K8S_DOCS, KUBERAY, Facts, Hit, Severity, rule
from seatrial.check.values import Value

_DNS_POLICY = f"{K8S_DOCS}/concepts/services-networking/dns-pod-service/#pod-s-dns-policy"
_ISTIO = "https://docs.ray.io/en/latest/cluster/kubernetes/k8s-ecosystem/istio.html"
_DO_EKS = "https://github.com/aws-samples/aws-do-eks/pull"


def port_of(group: RayGroup, param: str, default: int) -> int:
    """The port that Ray listens on. Raises CannotTell for a placeholder."""
    return group.params[param].known_integer() or default


@rule(
    "host-network",
    "warning",
    "group",
    title="pods on the node's network",
    fix="remove hostNetwork",
    source="https://github.com/ray-project/kuberay/issues/1738",
)
def host_network(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """Ray's fixed ports (6379, 8265, 8080, 52365) are then the node's: one Ray pod a node, clashes with anything else
    there, and the dashboard open on the node's address. EFA does not need it.
    """
    if group.spec["hostNetwork"].known_flag():
        yield Hit(group.spec["hostNetwork"], f"hostNetwork true on the {group.title}", "the pod's own network")


@rule(
    "hostnetwork-dns",
    "error",
    "group",
    title="pods on the node's network that cannot resolve cluster names",
    fix="set dnsPolicy: ClusterFirstWithHostNet",
    source=_DNS_POLICY,
)
def hostnetwork_dns(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """With hostNetwork the policy ClusterFirst falls back to the node's resolver. Workers look for the head by its
    service name and wait in `wait-gcs-ready` for ever.
    """
    policy = group.spec["dnsPolicy"]
    if group.spec["hostNetwork"].known_flag() and policy.require_known() in ("", "ClusterFirst", "Default"):
        severity: Severity | None = "warning" if group.is_head else None  # the head finds itself without DNS
        seen = f"dnsPolicy {policy.require_known() or 'is not set'} on the {group.title}"
        yield Hit(policy, seen, "ClusterFirstWithHostNet", severity)


def _covers(rules: Iterable[Value], port: int) -> bool:
    """Whether some rule lets a port through. A named port may be it."""
    for entry in rules:
        if not list(entry["ports"]):
            return True
        for item in entry["ports"]:
            first, last = item["port"].known_integer(), item["endPort"].known_integer()
            if first is None or first == port or (last is not None and first <= port <= last):
                return True
    return False


def _outwards(rules: Iterable[Value]) -> list[Value]:
    """Egress rules that reach beyond the namespace's own pods, where the cluster's DNS may be."""
    peers = ("ipBlock", "namespaceSelector")
    return [r for r in rules if not list(r["to"]) or any(peer[key].node for peer in r["to"] for key in peers)]


def _selects(policy: Value, group: RayGroup) -> bool:
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
    "deny-egress-no-dns",
    "error",
    "cluster",
    title="a network policy that cuts workers off",
    fix="allow UDP and TCP 53 outwards, and traffic between the cluster's pods",
    source=f"{KUBERAY}/pull/4638",
)
def deny_egress_no_dns(cluster: RayClusterSpec, _: Facts) -> Iterator[Hit]:
    """Workers find the head by its service name. Without DNS, or without a way in to the head, they wait in
    `wait-gcs-ready` for ever; the operator adds no rule for DNS.
    """
    own = cluster.value["networkPolicy"]
    for group in cluster.workers if own and own["mode"].require_known() != "DenyAllIngress" else []:
        custom = [entry for entry in own["workerGroups"] if entry["groupName"].raw == group.value["groupName"].raw]
        egress = (custom[0] if custom else own["worker"])["egressRules"]
        if not _covers(_outwards(egress), 53):
            yield Hit(
                own,
                f"{own['mode'].require_known() or 'DenyAll'} without a DNS rule for {group.title}",
                "egress to port 53",
            )
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


def _isolated(group: RayGroup, policies: list[Value]) -> Iterator[Hit]:
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
    "service-mesh-sidecar",
    "warning",
    "group",
    title="a service mesh in front of Ray's ports",
    fix="leave these pods out of the mesh, or exclude Ray's ports from it",
    source=_ISTIO,
)
def service_mesh(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """Ray, NCCL and gloo open ports that the mesh does not know: the proxy refuses or breaks connections between
    raylets, and training hangs.
    """
    fixed = group.params["node-manager-port"].scalar  # as Ray's guide to Istio sets them
    for section in ("labels", "annotations"):
        for key, words in (("sidecar.istio.io/inject", ("true",)), ("linkerd.io/inject", ("enabled", "ingress"))):
            value = group.metadata.at(section, key)
            annotations = [name for name, _ in group.metadata["annotations"].items()]
            excluded = any(name.startswith("traffic.sidecar.istio.io/") or "skip-" in name for name in annotations)
            if value.raw in words and not fixed and not excluded:
                yield Hit(value, f"{key} {value.raw}", "no mesh, or Ray's ports excluded")


def _interfaces(group: RayGroup, name: str = "NCCL_SOCKET_IFNAME") -> tuple[Value, list[str]]:
    """The variable and the interfaces that it lists, without NCCL's signs for exclusion (^) and exactness (=)."""
    value = group.variable(name)
    return value, [part.strip() for part in value.require_known().lstrip("^=").split(",") if part.strip()]


@rule(
    "ifname-eth0-hostnetwork",
    "warning",
    "group",
    title="eth0 on the node's network",
    fix="leave it out, or exclude instead: ^lo,docker,veth,pod-id-link0",
    source=f"{DLC}/pull/6469",
)
def ifname_eth0_host(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """Pods have eth0; EC2 hosts name their interfaces ens5 or enp40s0. NCCL stops with `Bootstrap : no socket interface
    found`, gloo with `Unable to find address`.
    """
    if not group.spec["hostNetwork"].known_flag() or (group.is_head and not accelerators(group)):
        return
    for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        value, listed = _interfaces(group, name)
        if listed and not value.require_known().startswith("^") and all(part.startswith("eth") for part in listed):
            yield Hit(
                value, f"{name} {value.require_known()} with hostNetwork", "a name that hosts have, such as ens or enp"
            )


@rule(
    "ifname-hardcoded",
    "info",
    "group",
    title="a network interface by name",
    fix="leave it to the image, or keep it knowingly",
    source=DLC_EKS,
)
def ifname_hardcoded(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """AWS's guide sets eth0, and in pods of the VPC CNI it is right; another CNI, more interfaces or hostNetwork break
    it. The DLC's own default excludes lo and docker0 instead.
    """
    if not accelerators(group) or group.spec["hostNetwork"].known_flag():
        return
    value, listed = _interfaces(group)
    if listed and not value.require_known().startswith("^"):
        yield Hit(value, f"NCCL_SOCKET_IFNAME {value.require_known()}", "an exclusion such as ^lo,docker0")


@rule(
    "ifname-pod-identity",
    "warning",
    "group",
    title="EKS Pod Identity's interface left to NCCL",
    fix="add pod-id-link0 to the exclusion",
    source=f"{_DO_EKS}/54",
)
def ifname_pod_identity(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """On the node's network NCCL also sees pod-id-link0 (169.254.170.23), which no other node reaches: it picks it, and
    the first collective hangs on refused connections.
    """
    if not group.spec["hostNetwork"].known_flag() or not accelerators(group):
        return
    value, listed = _interfaces(group)
    if value.require_known().startswith("^") and not any("pod-id-link0".startswith(part) for part in listed):
        yield Hit(
            value, f"{value.require_known()} does not exclude pod-id-link0", f"{value.require_known()},pod-id-link0"
        )


@rule(
    "gloo-ifname-list",
    "error",
    "group",
    title="NCCL's syntax for gloo",
    fix="name one interface, or leave it out",
    source=f"{_DO_EKS}/51",
)
def gloo_ifname(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """gloo takes names of interfaces only. With ^ or = it stops at the first group with `Unable to find address for:
    ^lo`.
    """
    value = group.variable("GLOO_SOCKET_IFNAME")
    if value.require_known().startswith(("^", "=")):
        yield Hit(value, f"GLOO_SOCKET_IFNAME {value.require_known()}", "the name of an interface")
