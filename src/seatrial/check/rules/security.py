"""Who can reach the cluster, whose code it runs, and what the pods may do to their nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from seatrial.check.manifest import Manifest, RayClusterSpec, RayGroup
from seatrial.check.rule import DLC, K8S_DOCS, Facts, Hit, Severity, rule
from seatrial.check.rules.pods import literal_variables
from seatrial.check.values import Value
from seatrial.hardware.images import image
from seatrial.kube.apimachinery import version

_RAY_SECURITY = "https://docs.ray.io/en/latest/ray-security/index.html"
_TOKEN_AUTH = "https://docs.ray.io/en/latest/ray-security/token-auth.html"
_STANDARDS = f"{K8S_DOCS}/concepts/security/pod-security-standards/"
_CVES = (((2, 52), "CVE-2025-62593, CVE-2026-27482"), ((2, 54), "CVE-2026-27482"))
_TRUST = re.compile(r"trust[_-]remote[_-]code(?!\s*[=:]\s*[\"']?(?:false|0))", re.IGNORECASE)
_INTERNAL = ("load-balancer-internal", "load-balancer-scheme", "load-balancer-type", "alb.ingress.kubernetes.io/scheme")
_RAY_PORTS = ("8265", "10001", "dashboard", "client")
# Annotations (behind the controller's prefix) that ask for a login or let only some addresses in.
_GUARDS = (
    "auth-url",
    "auth-secret",
    "auth-tls-secret",
    "auth-signin",
    "auth-keycloak",
    "basic-auth-secret",
    "oauth-uri-prefix",
    "inbound-cidrs",
    "whitelist-source-range",
    "allowlist-source-range",
    "load-balancer-source-ranges",
    "whitelist",
    "allow-list",
)
_ALB_LOGIN = "alb.ingress.kubernetes.io/auth-type"


@rule(
    "dashboard-public",
    "error",
    "cluster",
    title="the dashboard open to others",
    fix="keep ClusterIP and use `kubectl port-forward`, or set authOptions.mode: token",
    source=_RAY_SECURITY,
)
def dashboard_public(cluster: RayClusterSpec, _: Facts) -> Iterator[Hit]:
    """Whoever reaches ports 8265 or 10001 runs any code in the cluster: Ray asks nobody who they are (CVE-2023-48022,
    ShadowRay).
    """
    hits = list(_own_services(cluster))
    for other in cluster.manifest.others:
        here = other.at("metadata", "namespace").raw == cluster.manifest.metadata["namespace"].raw
        if here and other["kind"].raw == "Ingress":
            hits += _by_ingress(cluster, other)
        elif here and other["kind"].raw == "Service":
            hits += _by_service(other)
    if hits and not _authenticated(cluster):
        yield from hits


def _authenticated(cluster: RayClusterSpec) -> bool:
    """Whether Ray asks for a token: by KubeRay's option, or by the variable where someone set it by hand."""
    return "token" in (
        cluster.value.at("authOptions", "mode").require_known(),
        cluster.head.variable("RAY_AUTH_MODE").require_known(),
    )


def _own_services(cluster: RayClusterSpec) -> Iterator[Hit]:
    head = cluster.head.value
    given, extra = head["headService"], cluster.value["headServiceAnnotations"]
    for kind in (head["serviceType"], given.at("spec", "type")):
        if kind.raw in ("LoadBalancer", "NodePort") and not list(given.at("spec", "loadBalancerSourceRanges")):
            notes = {**_annotations(given), **{key: value.raw for key, value in extra.items()}}
            yield from _open(kind, f"{kind.raw} for the head's service", notes, kind.raw == "NodePort")
    if head["enableIngress"].raw == "true":
        yield from _open(head["enableIngress"], "an Ingress for the dashboard", _annotations(cluster.manifest.root))


def _by_ingress(cluster: RayClusterSpec, ingress: Value) -> Iterator[Hit]:
    notes, spec = _annotations(ingress), ingress["spec"]
    # The AWS controller makes an internal load balancer unless `scheme` says another.
    alb = "alb" in spec["ingressClassName"].raw + notes.get("kubernetes.io/ingress.class", "")
    paths = [path["backend"] for entry in spec["rules"] for path in entry.at("http", "paths")]
    for backend in (spec["defaultBackend"], *paths):
        name, port = backend.at("service", "name"), backend.at("service", "port")
        port = port["number"] or port["name"]  # Kubernetes takes one of the two
        if _leads(name.raw, port, cluster):
            yield from _open(port, f"an Ingress to {name.raw}:{port.raw}", notes, alb)


def _by_service(service: Value) -> Iterator[Hit]:
    spec, kind = service["spec"], service.at("spec", "type")
    selects = {key for key, _ in spec["selector"].items()} & {"ray.io/node-type", "ray.io/cluster", "ray.io/identifier"}
    if kind.raw not in ("LoadBalancer", "NodePort") or not selects or list(spec["loadBalancerSourceRanges"]):
        return
    for port in spec["ports"]:
        if {port["port"].raw, port["targetPort"].raw} & set(_RAY_PORTS):
            seen, inside = f"{kind.raw} on port {port['port'].raw}", kind.raw == "NodePort"
            yield from _open(kind, seen, _annotations(service), inside)


def _leads(service: str, port: Value, cluster: RayClusterSpec) -> bool:
    """Whether a backend is this cluster's head; a name such as `dashboard` alone may be anyone's."""
    head = service.endswith("-head-svc")
    own = head and service.startswith(cluster.manifest.metadata["name"].raw)
    # Behind a service of another name only Ray's own numbers are a sign.
    return (own and port.raw in _RAY_PORTS) or (not head and port.raw in _RAY_PORTS[:2])


def _annotations(value: Value) -> dict[str, str]:
    return {key: entry.raw for key, entry in value.at("metadata", "annotations").items()}


def _open(value: Value, seen: str, notes: dict[str, str], inside: bool = False) -> Iterator[Hit]:
    """A hit unless an annotation puts a login or a list of addresses in front; a warning where it ends at the VPC."""
    if any(_guards(key, text) for key, text in notes.items()):
        return
    scheme = [text for key, text in notes.items() if key.endswith(_INTERNAL)]
    # What the annotation says counts before the kind's own default.
    inside = any(text.lower() in ("true", "internal") for text in scheme) or (inside and not scheme)
    where = ", inside the VPC" if inside else ""
    severity: Severity | None = "warning" if inside else None
    yield Hit(value, f"{seen}{where}, without authentication", "a login in front of it", severity)


def _guards(key: str, text: str) -> bool:
    known = key == _ALB_LOGIN or key.rpartition("/")[2] in _GUARDS
    return known and text.lower() not in ("", "none") and "0.0.0.0/0" not in text


@rule(
    "ray-auth-off",
    "info",
    "cluster",
    title="Ray without authentication",
    fix="set authOptions.mode: token",
    source=_TOKEN_AUTH,
    needs=("kuberay",),
)
def ray_auth_off(cluster: RayClusterSpec, facts: Facts) -> Iterator[Hit]:
    """Any pod that reaches the head can submit jobs. Ray 2.52 and later can ask for a token."""
    if (version(facts.kuberay) or (0,)) < (1, 5) or (version(cluster.ray_version.require_known()) or (0,)) < (2, 52):
        return
    if not _authenticated(cluster):
        mode = cluster.value.at("authOptions", "mode")
        yield Hit(mode, f"authOptions.mode {mode.raw or 'is not set'}", "token")


@rule(
    "ray-version-cve",
    "warning",
    "cluster",
    title="a Ray version with a known vulnerability",
    fix="use Ray 2.54 or later",
    source="https://nvd.nist.gov/vuln/detail/CVE-2026-27482",
)
def ray_version_cve(cluster: RayClusterSpec, _: Facts) -> Iterator[Hit]:
    """Before Ray 2.52 a web page that a developer has open can run code through the job API (CVE-2025-62593); before
    2.54 it can delete jobs (CVE-2026-27482).
    """
    known = image(cluster.head.image.raw)
    value = cluster.head.image if known is not None and known.ray else cluster.ray_version
    here = known.ray if known is not None and known.ray else value.require_known()
    for below, cve in _CVES:  # from the oldest release: the first that matches names all of them
        if (version(here) or below) < below:
            yield Hit(value, f"Ray {here}: {cve}", "2.54 or later")
            return


@rule(
    "privileged",
    "warning",
    "group",
    title="a privileged container",
    fix="remove it; for EFA on nodes that limit memlock add capability IPC_LOCK",
    source=_STANDARDS,
)
def privileged(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """The container sees all devices of the node and can break out; the baseline Pod Security Standard refuses it. EFA
    and GPUs do not need it.
    """
    for section in ("containers", "initContainers"):
        for container in group.spec[section]:
            value = container.at("securityContext", "privileged")
            if value.known_flag():
                yield Hit(value, f"privileged {container['name'].raw}", "false")


@rule(
    "trust-remote-code",
    "info",
    "manifest",
    title="code from a model repository",
    fix="pin the model's revision",
    source="https://huggingface.co/docs/transformers/models#custom-models",
)
def trust_remote_code(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """trust_remote_code runs Python code from the model's repository: whatever the branch holds on that day."""
    for name, value in literal_variables(manifest):
        if _TRUST.search(name) and value.raw.lower() in ("1", "true", "yes"):
            yield Hit(value, f"{name} is {value.raw}", "a pinned revision")
    places = [manifest.spec["entrypoint"], manifest.spec["serveConfigV2"]]
    for group in manifest.cluster.groups if manifest.cluster else []:
        places += [*group.container["command"], *group.container["args"]]
    for value in places:
        if found := _TRUST.search(value.raw):
            yield Hit(value, f"{found.group()} is set", "a pinned revision")


@rule(
    "host-pid-ipc",
    "warning",
    "group",
    title="a pod with the node's processes or shared memory",
    fix="remove hostPID and hostIPC",
    source=_STANDARDS,
)
def host_pid_ipc(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """The pod sees and can signal what runs beside it on the node; the baseline Pod Security Standard refuses it. An
    emptyDir at /dev/shm does what NCCL needs.
    """
    for key in ("hostPID", "hostIPC"):
        if group.spec[key].known_flag():
            yield Hit(group.spec[key], f"{key} true on the {group.title}", "false")


@rule(
    "run-as-root",
    "info",
    "group",
    title="pods that ask to be root",
    fix="run as another user where mounts allow it, or set the namespace's policy",
    source=_STANDARDS,
)
def run_as_root(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """A namespace with the restricted Pod Security Standard refuses such pods. AWS's images run as root unless told
    otherwise.
    """
    for context in (group.spec["securityContext"], group.container["securityContext"]):
        if context["runAsUser"].raw == "0":
            yield Hit(context["runAsUser"], f"runAsUser 0 on the {group.title}", "another user")


@rule(
    "ssh-keys-in-image",
    "info",
    "group",
    title="an SSH server beside Ray",
    fix="do not open port 22",
    source=f"{DLC}/blob/e0ecedea6a1c56d6b5914f9cfb2fec5c548e67e0/scripts/docker/common/install_efa_amzn2023.sh",
)
def ssh_keys(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """AWS's training images carry one root key pair for each build, the same for everyone who pulls it. Ray does not
    need SSH.
    """
    for port in group.container["ports"]:
        if port["containerPort"].raw == "22":
            yield Hit(port["containerPort"], f"port 22 on the {group.title}", "no SSH server")
    for word in (*group.container["command"], *group.container["args"]):
        if re.search(r"\bsshd\b", word.raw):
            yield Hit(word, f"the {group.title} starts sshd", "no SSH server")
