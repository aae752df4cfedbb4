"""Cases for the rules of this name's module."""

from __future__ import annotations

from tests.support.manifests import GONE, WORKER_CONTAINER, WORKER_POD
from tests.support.rule_case import Case

_ENV = f"{WORKER_CONTAINER}.env.2"
_LIMITS = f"{WORKER_CONTAINER}.resources.limits"
_REQUESTS = f"{WORKER_CONTAINER}.resources.requests"
_TYPE = f"{WORKER_POD}.nodeSelector.[node.kubernetes.io/instance-type]"
_NO_EFA = {f"{_LIMITS}.[vpc.amazonaws.com/efa]": GONE, f"{_REQUESTS}.[vpc.amazonaws.com/efa]": GONE}


def _variable(name: str, value: str) -> dict[str, str]:
    return {"name": name, "value": value}


CASES: tuple[Case, ...] = (
    Case(
        "efa-env-without-efa",
        {_ENV: _variable("FI_PROVIDER", "efa"), **_NO_EFA},
        {_ENV: _variable("FI_PROVIDER", "efa")},
    ),
    Case(
        "efa-rdma-unsupported",
        {_ENV: _variable("FI_EFA_USE_DEVICE_RDMA", "1"), _TYPE: "ml.g5.12xlarge"},
        {_ENV: _variable("FI_EFA_USE_DEVICE_RDMA", "1")},
    ),
    Case(
        "rdmav-fork-safe",
        {_ENV: _variable("RDMAV_FORK_SAFE", "1")},
        {_ENV: _variable("FI_EFA_FORK_SAFE", "1")},
    ),
    Case("efa-hugepages", {f"{WORKER_CONTAINER}.env.1": _variable("A", "b")}),
    Case(
        "hugepages-no-memory",
        {f"{_LIMITS}.hugepages-2Mi": "5120Mi", f"{_REQUESTS}.hugepages-2Mi": "2560Mi"},
        {f"{_LIMITS}.hugepages-2Mi": "5120Mi"},
    ),
    Case("efa-memlock", {}, {f"{WORKER_CONTAINER}.securityContext.capabilities.add": ["IPC_LOCK"]}),
    Case(
        "infiniband-hostpath",
        {f"{WORKER_POD}.volumes.3": {"name": "ib", "hostPath": {"path": "/dev/infiniband"}}},
        {f"{WORKER_POD}.volumes.3": {"name": "nvme", "hostPath": {"path": "/mnt/k8s-disks/0"}}},
    ),
    Case(
        "nccl-kept-from-efa",
        {_ENV: _variable("NCCL_NET_PLUGIN", "none")},
        {_ENV: _variable("NCCL_NET_PLUGIN", "none"), **_NO_EFA},
    ),
    Case("nccl-kept-from-efa", {_ENV: _variable("FI_PROVIDER", "tcp")}, {_ENV: _variable("FI_PROVIDER", "efa,shm")}),
    Case("nccl-kept-from-efa", {_ENV: _variable("FI_PROVIDER", "^efa")}, {_ENV: _variable("FI_PROVIDER", "^tcp")}),
    Case(
        "nccl-p2p-shm-disable",
        {_ENV: _variable("NCCL_P2P_DISABLE", "1")},
        {_ENV: _variable("NCCL_P2P_DISABLE", "0")},
    ),
    Case(
        "nccl-timeout-huge",
        {_ENV: _variable("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "7200")},
        {_ENV: _variable("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "600")},
    ),
)
