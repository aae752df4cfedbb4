"""Ray Train's torch backend, on the network that Ray itself uses.

Without a setting, gloo takes the address that the host's name resolves to: in many images and on many machines that is
a loopback address, and ranks on several hosts never meet. Ray's nodes do reach each other, by the address that each was
started with. The interface that carries it can have another name on every host, so each process sets its own.
"""

from __future__ import annotations

import os
from typing import Any

import ray
from ray.train.torch import TorchConfig

from seatrial.driver import ray_internals
from seatrial.errors import RunError
from seatrial.probe import interfaces

TorchBackend: Any = ray_internals.torch_backend()


class NodeTorchConfig(TorchConfig):  # type: ignore[misc]  # ray is not typed
    """TorchConfig whose process groups use the interface of each Ray node's address. A setting that is there wins."""

    @property
    def backend_cls(self) -> type[_NodeTorchBackend]:
        return _NodeTorchBackend


class _NodeTorchBackend(TorchBackend):  # type: ignore[misc]
    def on_start(self, worker_group: Any, backend_config: TorchConfig) -> None:
        """Sets the interface in every worker before the process group is made.

        Raises RunError if a worker has a setting with which it cannot reach the others.
        """
        hosts = len(set(worker_group.execute(_node)))
        nccl = "nccl" in (backend_config.backend or "")
        problems = [problem for problem in worker_group.execute(_choose, hosts, nccl) if problem]
        if problems:
            raise RunError(problems[0])
        super().on_start(worker_group, backend_config)


def _node() -> str:
    """In a worker: the host it is on."""
    return str(ray.get_runtime_context().get_node_id())


def _choose(hosts: int, nccl: bool) -> str:
    """In a worker: sets what is not set. Returns what is wrong with what was set before, or nothing."""
    found = interfaces.addresses()
    # An address that no interface has is forwarded to this host; then torch's own choice is as good as any.
    name = interfaces.carrying(ray.util.get_node_ip_address(), found)
    for variable, form in (("GLOO_SOCKET_IFNAME", "{}"), *((("NCCL_SOCKET_IFNAME", "={}"),) if nccl else ())):
        if asked := os.environ.get(variable):
            if problem := interfaces.problem_with(variable, asked, found, hosts):
                return problem
        elif name:
            os.environ[variable] = form.format(name)
    return ""
