"""Token cross-entropy, as sums: means are taken over the tokens of all ranks, once."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seatrial.train.data import IGNORED


def token_nats(module: nn.Module, inputs: Tensor, targets: Tensor, positions: Tensor) -> Tensor:
    """Nats of each target, 0 where it is IGNORED; all are (batch, sequence).

    Training and scoring both call the model here. Documents of a row stay apart by their positions alone: Transformers
    makes a mask of positions only where it is given neither a mask nor a cache.
    """
    logits = module(input_ids=inputs, position_ids=positions, use_cache=False).logits
    return token_loss(logits, targets)


def token_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Nats per token, shape (batch, sequence); logits are (batch, sequence, vocabulary) and reduced in fp32."""
    wide = logits.flatten(0, 1).to(torch.float32)
    return F.cross_entropy(wide, targets.flatten(), ignore_index=IGNORED, reduction="none").view(targets.shape)
