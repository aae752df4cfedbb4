"""Which rank of which attempt a process is, in a job that seatrial has not started itself."""

from __future__ import annotations

import itertools
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import torch.distributed as dist

from seatrial.canon import canonical
from seatrial.errors import RunError
from seatrial.events import Layout
from seatrial.probe.processes import ROLE_VARIABLE, SCRIPT_ROLE
from seatrial.train.observe.rendezvous import store

RankSource = Literal["torch.distributed", "ray.train", "environment", "alone"]


@dataclass(frozen=True)
class RankIdentity:
    """One rank of a job. `group` names the processes that were started together: one for all ranks of an attempt."""

    rank: int
    world_size: int
    local_rank: int
    source: RankSource
    group: str
    node: str  # Ray's id of this node; empty without Ray
    device: torch.device


def identify() -> RankIdentity:
    """Where this process is. Raises RunError in the script itself, which trains nothing."""
    ray_node, placement = _ray()
    train = _ray_train()
    if os.environ.get(ROLE_VARIABLE) == SCRIPT_ROLE and not ray_node and "TORCHELASTIC_RUN_ID" not in os.environ:
        raise RunError(
            "observe() was called in the script, not in a worker: put it into the function given to TorchTrainer"
        )
    local = train.get_local_rank() if train else int(os.environ.get("LOCAL_RANK", "0"))
    rank, world, source = _rank(train)
    return RankIdentity(rank, world, local, source, placement or _group(), ray_node, _device(local))


def _ray() -> tuple[str, str]:
    """Node and placement group of a Ray actor; a new attempt of Ray Train has a new placement group."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized() or not (here := ray.get_runtime_context()).get_actor_id():
        return "", ""
    return here.get_node_id(), here.get_placement_group_id() or ""


def _ray_train() -> Any:
    """Ray Train's context in one of its workers, else None."""
    train = sys.modules.get("ray.train")
    try:
        return train.get_context() if train else None
    except RuntimeError:  # what it raises outside a worker
        return None


def _rank(train: Any) -> tuple[int, int, RankSource]:
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size(), "torch.distributed"
    if train:
        return train.get_world_rank(), train.get_world_size(), "ray.train"
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), "environment"
    return 0, 1, "alone"


def _group() -> str:
    """Without Ray: the launcher's variables, or where there is a process group, its first process to come here."""
    said = ":".join(
        os.environ.get(name, "")
        for name in ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
    )
    me = f"{said}:{socket.gethostname()}:{os.getpid()}"
    if not (dist.is_available() and dist.is_initialized()):
        return said if said.strip(":") else me
    shared = store()
    return str(shared.compare_set("seatrial/group", "", me).decode()) if shared else said


def _device(local_rank: int) -> torch.device:
    """Where the collectives of the process group want their tensors."""
    if dist.is_available() and dist.is_initialized() and "nccl" in str(dist.get_backend()):
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def number_attempt(layout: Layout, group: str) -> int:
    """The number of a group's attempt: the first that is free, or that this group has already.

    A link puts a whole file in place or none: of two groups that take a number at once, one wins.
    """
    content = canonical({"group": group}) + b"\n"
    for number in itertools.count(1):
        path = layout.events / f"a{number}.id"
        if not path.exists():
            _link(path, content)
        if path.read_bytes() == content:
            return number
    raise AssertionError("unreachable")


def _link(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}")  # host and pid can be two containers'
    temporary.write_bytes(content)
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()
