"""A plain PyTorch loop under Ray Train: a small GRU learns the bytes of Python's standard library.

Runs by itself (`python train.py`), and under seatrial, which then sees what `observe` tells it.
"""

from __future__ import annotations

import argparse
import os
import sysconfig
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from ray.train import CheckpointConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_data_loader, prepare_model
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from seatrial import observe

LENGTH, HELDOUT = 128, 64


class Bytes(Dataset[Tensor]):
    """Rows of LENGTH + 1 bytes, int64, from the files of one split; one file in ten is held out."""

    def __init__(self, heldout: bool):
        root = Path(sysconfig.get_paths()["stdlib"])
        files = [path for at, path in enumerate(sorted(root.glob("*.py"))) if (at % 10 == 0) == heldout]
        self.stream = torch.frombuffer(bytearray(b"\x00".join(p.read_bytes() for p in files)), dtype=torch.uint8)

    def __len__(self) -> int:
        return (len(self.stream) - 1) // LENGTH

    def __getitem__(self, at: int) -> Tensor:
        return self.stream[at * LENGTH : (at + 1) * LENGTH + 1].long()


class Model(nn.Module):
    """Bytes in, logits of the next byte out: (batch, length) -> (batch, length, 256)."""

    def __init__(self, width: int = 128):
        super().__init__()
        self.embedding = nn.Embedding(256, width)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 256)

    def forward(self, rows: Tensor) -> Tensor:
        logits: Tensor = self.head(self.norm(self.gru(self.embedding(rows))[0]))
        return logits


def nats(model: nn.Module, rows: Tensor) -> Tensor:
    """Summed loss of each row, shape (batch,)."""
    return F.cross_entropy(model(rows[:, :-1]).transpose(1, 2), rows[:, 1:], reduction="none").sum(dim=1)


def train(config: dict[str, Any]) -> None:
    """What each worker does."""
    import ray.train

    torch.manual_seed(0)
    model = prepare_model(Model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loader = prepare_data_loader(DataLoader(Bytes(heldout=False), batch_size=16, shuffle=True, drop_last=True))
    heldout, me = Bytes(heldout=True), ray.train.get_context()
    mine = list(range(me.get_world_rank(), HELDOUT, me.get_world_size()))
    rows = torch.stack([heldout[n * len(heldout) // HELDOUT] for n in mine])

    with observe(model, optimizer, steps=config["steps"]) as trial:

        def score(phase: str) -> None:
            with trial.aside(), torch.no_grad():
                trial.evaluated(phase, nats=nats(model, rows).tolist(), tokens=[LENGTH] * len(mine), ids=mine)

        score("before")
        for step, batch in enumerate(trial.batches(loader), start=1):
            loss = nats(model, batch).mean() / LENGTH
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            trial.step(loss=loss, tokens=batch.shape[0] * LENGTH)
            if step == config["steps"]:
                break
        score("after")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    TorchTrainer(
        train,
        train_loop_config={"steps": given.steps},
        scaling_config=ScalingConfig(num_workers=given.workers),
        run_config=RunConfig(
            name="plain-loop",
            storage_path=os.path.abspath("results"),
            checkpoint_config=CheckpointConfig(num_to_keep=1),
        ),
    ).fit()
