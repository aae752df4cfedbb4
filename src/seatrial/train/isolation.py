"""Checks before the first step that documents which share a row do not see each other in this model.

Each row holds two documents, and the first half of the first one is changed. The loss of its second half must change,
or nothing was tested; the loss of the other document must not.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from seatrial.canon import measured
from seatrial.errors import RunError
from seatrial.events.schema import Isolation
from seatrial.train import loss
from seatrial.train.context import Context
from seatrial.train.shard import reshard

# Masked scores have weight 0 exactly, so a clean model leaks nothing; a leak is about as large as the effect.
LIMIT = 1e-3


@torch.no_grad()
def check(context: Context, module: nn.Module, vocabulary: int) -> None:
    """Records what leaked; raises RunError, naming the model, if documents of a row are not kept apart."""
    name = type(module).__name__.removeprefix("FSDP")
    if "position_ids" not in inspect.signature(module.forward).parameters:
        raise RunError(f"workload.model: {name} takes no position_ids: documents of a row cannot be kept apart")
    work = context.trial.training
    clean, changed, positions, parts = _rows(work.micro_batch, work.sequence_length, vocabulary)
    module.eval()
    first, second = (_nats(module, tokens, positions, context.device) for tokens in (clean, changed))
    module.train()
    reshard(module)
    moved = (second - first).abs()
    effect, leak = float(moved[parts == 1].max()), float(moved[parts == 2].max())
    context.events.write(Isolation(effect=measured(effect), leak=measured(leak), limit=LIMIT))
    if not leak <= LIMIT * effect and leak > 0:
        raise RunError(
            f"workload.model: {name} lets documents of a row see each other: changing one moved another's loss by"
            f" {leak:.2g} nats, its own by {effect:.2g}; position_ids that restart must keep them apart"
        )


def _rows(batch: int, length: int, vocabulary: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Rows, the same rows changed, positions, and which part each target is of: 0 changed, 1 same document, 2 other.

    All are (batch, length), rows (batch, length + 1); the documents meet at another place in each row.
    """
    generator = torch.Generator().manual_seed(0)
    clean = torch.randint(0, vocabulary, (batch, length + 1), generator=generator)
    changed, positions = clean.clone(), torch.arange(length).repeat(batch, 1)
    parts = torch.zeros(batch, length, dtype=torch.long)
    for number in range(batch):
        meet = length // 2 + number % 3 - 1
        changed[number, : meet // 2] = (clean[number, : meet // 2] + 1) % vocabulary
        positions[number, meet:] -= meet
        parts[number, meet // 2 : meet - 1] = 1  # the last token of the document predicts nothing of it
        parts[number, meet:] = 2
    return clean, changed, positions, parts


def _nats(module: nn.Module, rows: Tensor, positions: Tensor, device: Any) -> Tensor:
    inputs, targets = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
    return loss.token_nats(module, inputs.to(device), targets.to(device), positions.to(device)).float().cpu()
