"""Scores the fixed held-out windows, item by item."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from seatrial.canon import measured
from seatrial.events.schema import Evaluated
from seatrial.train.context import Context
from seatrial.train.data import Dataset
from seatrial.train.loss import token_loss
from seatrial.train.shard import reshard


@torch.no_grad()
def evaluate(
    context: Context, model: nn.Module, data: Dataset, phase: Literal["before", "after", "base", "reload"], step: int
) -> None:
    """Writes one item a window of this rank: window, nats, tokens, bytes.

    Windows are dealt round-robin. Ranks run the same number of forwards, since each is a collective: a rank that ran
    out scores a window again and throws the result away.
    """
    mine = list(range(context.rank, data.windows, context.world_size))
    most = -(-data.windows // context.world_size)
    size = context.trial.workload.micro_batch
    items: list[tuple[int, object, int, int]] = []
    model.eval()
    for start in range(0, most, size):
        numbers = mine[start : start + size]
        rows = torch.stack([torch.from_numpy(data.window(n)) for n in (numbers or [0])]).to(context.device)
        nats = token_loss(model(input_ids=rows[:, :-1], use_cache=False).logits, rows[:, 1:]).sum(dim=1)
        for number, value in zip(numbers, nats.tolist(), strict=False):
            items.append((number, measured(value), data.sequence_length, len(data.window_bytes(number)[1])))
    model.train()
    reshard(model)  # a forward without a backward may leave whole parameters in the place of shards
    context.events.write(Evaluated(phase=phase, step=step, items=items))
