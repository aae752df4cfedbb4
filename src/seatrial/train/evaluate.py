"""Scores the fixed held-out windows, item by item."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from seatrial.canon import measured
from seatrial.events.schema import Evaluated
from seatrial.train.context import Context
from seatrial.train.data import Dataset, stacked
from seatrial.train.loss import token_nats
from seatrial.train.shard import reshard


@torch.no_grad()
def evaluate(
    context: Context, model: nn.Module, data: Dataset, phase: Literal["before", "after", "base", "reload"], step: int
) -> None:
    """Writes one item for each window of this rank: window, nats, and the tokens and bytes that they are over.

    Windows are assigned round-robin. All ranks run as many forwards, because each is a collective: a rank that has no
    window left scores window 0 and discards the result.
    """
    mine = list(range(context.rank, data.windows, context.world_size))
    most = -(-data.windows // context.world_size)
    size = context.trial.training.micro_batch
    items: list[tuple[int, object, int, int]] = []
    model.eval()
    for start in range(0, most, size):
        numbers = mine[start : start + size]
        rows = [data.window(n) for n in (numbers or [0])]
        nats = token_nats(model, *(part.to(context.device) for part in stacked(rows))).sum(dim=1)
        for number, row, value in zip(numbers, rows, nats.tolist(), strict=False):
            size_bytes = sum(len(said) for _, said in data.window_bytes(number))
            items.append((number, measured(value), row.counted, size_bytes))
    model.train()
    reshard(model)  # a forward without a backward may leave whole parameters in the place of shards
    context.events.write(Evaluated(phase=phase, step=step, items=items))
