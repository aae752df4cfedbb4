"""Token cross-entropy, as sums: means are taken over the tokens of all ranks, once."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def token_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Nats per token, shape (batch, sequence); logits are (batch, sequence, vocabulary) and reduced in fp32."""
    flat = F.cross_entropy(logits.flatten(0, 1).to(torch.float32), targets.flatten(), reduction="none")
    return flat.view(targets.shape)
