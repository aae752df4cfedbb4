"""Builds the model: the full weights exist on rank 0 only, the other ranks receive their shards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from seatrial.canon import file_digest
from seatrial.errors import RunError
from seatrial.trial import Trial
from seatrial.trial.workload import Model

_WANTED = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]


def fetch(model: Model) -> Path | None:
    """The folder that holds the model's files, downloaded if it is named; None for a model built from a config."""
    if model.path:
        folder = Path(model.path)
        if not (folder / "config.json").is_file():
            raise RunError(f"workload.model.path: {folder} has no config.json")
        return folder
    if model.name is None:
        return None
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(model.name, revision=model.revision, allow_patterns=_WANTED))
    except Exception as error:  # the hub client raises errors of four libraries
        raise RunError(
            f"workload.model.name: {model.name} could not be loaded: {type(error).__name__}: {error}"
        ) from error


def identity(model: Model, folder: Path | None, config: Any) -> dict[str, Any]:
    """What the model is: its config, and for files the revision and a digest each."""
    files = (
        {}
        if folder is None
        else {p.relative_to(folder).as_posix(): file_digest(p) for p in sorted(folder.rglob("*")) if p.is_file()}
    )
    return {
        "config": config.to_dict(),
        "files": files,
        "revision_asked": model.revision,
        "revision": folder.name if model.name and folder else None,
    }


def configure(model: Model, folder: Path | None) -> Any:
    """The Transformers config. Raises RunError for an architecture or key that Transformers refuses."""
    from transformers import AutoConfig

    try:
        if folder is not None:
            return AutoConfig.from_pretrained(folder)
        values = dict(model.config or {})
        return AutoConfig.for_model(values.pop("model_type"), **values)
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise RunError(f"workload.model: {error}") from error


def meta_model(config: Any) -> nn.Module:
    """The architecture on the meta device, in fp32 master precision."""
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model: nn.Module = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    return model


def full_weights(config: Any, folder: Path | None, seed: int) -> nn.Module:
    """The whole model on the CPU of this process: loaded, or initialised from `seed` alone."""
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    if folder is None:
        model: nn.Module = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    else:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model


def blocks(model: nn.Module) -> list[nn.Module]:
    """The repeated blocks: the children of the module list that holds most parameters. Raises RunError without one."""
    lists: list[nn.ModuleList] = [m for m in model.modules() if isinstance(m, nn.ModuleList) and len(m)]
    if not lists:
        raise RunError("the model has no module list of blocks to shard by")
    largest = max(lists, key=lambda m: sum(p.numel() for p in m.parameters()))
    return list(largest)


def materialise(model: nn.Module, trial: Trial, config: Any, folder: Path | None, device: torch.device) -> None:
    """Fills a sharded meta model with rank 0's weights and buffers.

    Buffers are sent one by one: rotary tables are not in the state dict, and are garbage after `to_empty`.
    """
    from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

    full = full_weights(config, folder, trial.training.seed) if dist.get_rank() == 0 else None
    model.to_empty(device=device)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(model, full.state_dict() if full else {}, options=options)
    values = dict(full.named_buffers()) if full else {}
    for name, buffer in model.named_buffers():
        if full:
            buffer.copy_(values[name])
        dist.broadcast(buffer, src=0)
