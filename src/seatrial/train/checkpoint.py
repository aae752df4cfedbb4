"""Saves and loads everything that the next step depends on.

A checkpoint exists once its `manifest.json` is complete, which is written last. It has step, world size, data cursor,
and the DCP shards with size and sha256, each by the rank that wrote it. No folder is used twice: DCP would leave old
metadata beside new shards.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.checkpoint.state_dict_loader import load as dcp_load
from torch.distributed.checkpoint.state_dict_saver import save as dcp_save

from seatrial.canon import canonical, digest, file_digest, parse, plain, sha256
from seatrial.events.schema import CheckpointRemoved, CheckpointSaved
from seatrial.train.context import Context
from seatrial.train.observe.proofs import tensor_digest

MANIFEST = "manifest.json"


def _as_tensor(value: Any) -> Tensor:
    """JSON as a byte tensor: DCP would pickle anything else."""
    return torch.tensor(list(canonical(value)), dtype=torch.uint8)


def host_rng_state() -> dict[str, Any]:
    """The state of Python's and NumPy's random generators, as JSON."""
    version, internal, gauss = random.getstate()
    kind, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    return {
        "python": [version, list(internal), gauss],
        "numpy": [kind, [int(k) for k in keys], position, has_gauss, cached],
    }


def set_host_rng_state(state: dict[str, Any]) -> None:
    """Restores what `host_rng_state` returned."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))


def state_dict(
    context: Context, model: nn.Module, optimizer: torch.optim.Optimizer, progress: dict[str, Any]
) -> dict[str, Any]:
    """The state dict that is saved. Random generators have keys of this rank's own."""
    mine: dict[str, Any] = {"torch": torch.get_rng_state(), "host": _as_tensor(host_rng_state())}
    if context.device.type == "cuda":
        mine["cuda"] = torch.cuda.get_rng_state(context.device)
    return {
        "model": get_model_state_dict(model),
        "optim": get_optimizer_state_dict(model, optimizer),
        "progress": _as_tensor(progress),
        "rng": {str(context.rank): mine},
    }


def digests(state: dict[str, Any]) -> dict[str, str]:
    """Digest of every item of a state dict that this rank holds, tensors and settings, by DCP's dotted names."""
    found: dict[str, str] = {}

    def walk(value: Any, name: str) -> None:
        if isinstance(value, Tensor):
            found[name] = tensor_digest(value)
        elif isinstance(value, dict):
            for key, child in value.items():
                walk(child, f"{name}.{key}" if name else str(key))
        elif isinstance(value, list) and any(isinstance(child, dict | Tensor) for child in value):
            for position, child in enumerate(value):
                walk(child, f"{name}.{position}")
        else:
            found[name] = digest(plain(value))[7:39]

    walk(state, "")
    return found


def save(context: Context, model: nn.Module, optimizer: torch.optim.Optimizer, progress: dict[str, Any]) -> None:
    """Writes a checkpoint after `progress["step"]` steps; returns once its manifest is complete, on every rank."""
    began = time.monotonic()
    step = int(progress["step"])
    folder = context.layout.checkpoints / f"step-{step:06d}-a{context.attempt}"
    state = state_dict(context, model, optimizer, progress)
    dcp_save(state, checkpoint_id=folder)
    mine = [
        p
        for p in sorted(folder.iterdir())
        if p.name.startswith(f"__{context.rank}_") or (context.rank == 0 and p.name == ".metadata")
    ]
    held = digests(state)
    shards = [{"path": p.name, "size": p.stat().st_size, "sha256": file_digest(p), "rank": context.rank} for p in mine]
    generators = {name: value for name, value in held.items() if name.startswith("rng.")}
    everyone: list[Any] = [None] * context.world_size
    dist.all_gather_object(everyone, (shards, generators))
    manifest = _commit(folder, context, progress, everyone) if context.rank == 0 else ""
    dist.barrier()
    context.events.write(
        CheckpointSaved(
            step=step,
            path=context.layout.relative(folder),
            state=held,
            duration_s=time.monotonic() - began,
            manifest=manifest,
        )
    )
    if context.rank == 0:
        _retain(context)


def _commit(folder: Path, context: Context, progress: dict[str, Any], parts: list[Any]) -> str:
    """Writes the manifest to the disk, renames it into place, and returns its digest.

    `parts` are (shards, digests of the random generators) by rank.
    """
    data = canonical(
        {
            "schema": "seatrial.checkpoint/1",
            "progress": progress,
            "attempt": context.attempt,
            "world_size": context.world_size,
            "mesh": list(context.plan.mesh),
            "rng": {name: value for _, generators in parts for name, value in generators.items()},
            "shards": [shard for shards, _ in parts for shard in shards],
        }
    )
    temporary = folder / f"{MANIFEST}.tmp"
    with temporary.open("wb") as handle:
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())
    temporary.rename(folder / MANIFEST)
    return sha256(data)


def _retain(context: Context) -> None:
    """Removes all but the newest checkpoints. The manifest goes first: without it, what is left is no checkpoint."""
    for folder in complete_checkpoints(context.layout.checkpoints)[: -context.trial.training.checkpoint.num_to_keep]:
        (folder / MANIFEST).unlink()
        shutil.rmtree(folder)
        context.events.write(CheckpointRemoved(step=_step(folder), path=context.layout.relative(folder)))


def complete_checkpoints(root: Path) -> list[Path]:
    """The folders of all complete checkpoints, oldest first."""
    return sorted((p.parent for p in root.glob(f"step-*/{MANIFEST}")), key=lambda folder: (_step(folder), folder.name))


def _step(folder: Path) -> int:
    return int(folder.name.split("-")[1])


def load(
    context: Context, folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[dict[str, Any], list[str]]:
    """Loads into a new model and optimizer. Returns the progress and the names that the checkpoint lacks.

    Nothing is loaded if anything is missing: a partial load would look like a resume and be another run.
    """
    state = state_dict(context, model, optimizer, {})
    state["progress"] = torch.zeros(_progress_size(folder), dtype=torch.uint8)
    mine = state["rng"][str(context.rank)]
    reader = FileSystemReader(folder)
    saved = reader.read_metadata().state_dict_metadata
    if host := saved.get(f"rng.{context.rank}.host"):
        mine["host"] = torch.zeros(host.size, dtype=torch.uint8)  # type: ignore[union-attr]
    missing = sorted(name for name in digests(state) if name not in saved)
    if missing:
        return {}, missing
    dcp_load(state, storage_reader=reader)
    set_model_state_dict(model, state["model"])
    set_optimizer_state_dict(model, optimizer, state["optim"])
    torch.set_rng_state(mine["torch"])
    if "cuda" in mine:
        torch.cuda.set_rng_state(mine["cuda"], context.device)
    set_host_rng_state(json.loads(bytes(mine["host"].tolist())))
    progress: dict[str, Any] = json.loads(bytes(state["progress"].tolist()))
    return progress, []


def _progress_size(folder: Path) -> int:
    return len(canonical(parse((folder / MANIFEST).read_bytes())["progress"]))
