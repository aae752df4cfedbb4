"""Cases for the rules of this name's module."""

from __future__ import annotations

from tests.support.manifests import WORKER, WORKER_CONTAINER, WORKER_POD
from tests.support.rule_case import Case

_HOST = f"{WORKER_POD}.hostNetwork"
_DNS = f"{WORKER_POD}.dnsPolicy"
_ENV = f"{WORKER_CONTAINER}.env.2"
_TO_DNS = [{"to": [{"namespaceSelector": {}}], "ports": [{"port": 53, "protocol": "UDP"}]}]


def _variable(name: str, value: str) -> dict[str, str]:
    return {"name": name, "value": value}


CASES: tuple[Case, ...] = (
    Case("host-network", {_HOST: True, _DNS: "ClusterFirstWithHostNet"}, {_HOST: False}),
    Case("hostnetwork-dns", {_HOST: True}, {_HOST: True, _DNS: "ClusterFirstWithHostNet"}),
    Case(
        "deny-egress-no-dns",
        {"spec.networkPolicy": {"mode": "DenyAll", "head": {"egressRules": _TO_DNS}}},
        {"spec.networkPolicy": {"mode": "DenyAll", "worker": {"egressRules": _TO_DNS}}},
    ),
    Case(
        "service-mesh-sidecar",
        {f"{WORKER}.template.metadata.labels": {"sidecar.istio.io/inject": "true"}},
        {f"{WORKER}.template.metadata.labels": {"sidecar.istio.io/inject": "false"}},
    ),
    Case(
        "ifname-eth0-hostnetwork",
        {_HOST: True, _ENV: _variable("NCCL_SOCKET_IFNAME", "eth0")},
        {_HOST: True, _ENV: _variable("NCCL_SOCKET_IFNAME", "en,eth")},
    ),
    Case(
        "ifname-hardcoded",
        {_ENV: _variable("NCCL_SOCKET_IFNAME", "eth0")},
        {_ENV: _variable("NCCL_SOCKET_IFNAME", "^lo,docker0")},
    ),
    Case(
        "ifname-pod-identity",
        {_HOST: True, _ENV: _variable("NCCL_SOCKET_IFNAME", "^lo,docker,veth")},
        {_HOST: True, _ENV: _variable("NCCL_SOCKET_IFNAME", "^lo,docker,pod-id")},
    ),
    Case(
        "gloo-ifname-list",
        {_ENV: _variable("GLOO_SOCKET_IFNAME", "^lo")},
        {_ENV: _variable("GLOO_SOCKET_IFNAME", "eth0,eth1")},
    ),
)
