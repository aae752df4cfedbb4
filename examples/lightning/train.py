"""Lightning under Ray Train: a small convolutional language model over the bytes of Python's standard library.

Runs by itself (`python train.py`), and under seatrial, which then sees what its callback tells it.
"""

from __future__ import annotations

import argparse
import os
import sysconfig
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from ray.train import RunConfig, ScalingConfig
from ray.train.lightning import RayDDPStrategy, RayLightningEnvironment, RayTrainReportCallback, prepare_trainer
from ray.train.torch import TorchTrainer
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from seatrial.callbacks.lightning import ObserveCallback

LENGTH, WIDTH, BATCH = 128, 96, 16


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


class Causal(nn.Module):
    """A convolution that sees no position after its own, and the input added again."""

    def __init__(self, dilation: int):
        super().__init__()
        self.reach = 2 * dilation
        self.convolution = nn.Conv1d(WIDTH, WIDTH, kernel_size=3, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:  # (batch, WIDTH, length)
        return x + F.gelu(self.convolution(F.pad(x, (self.reach, 0))))


class Model(pl.LightningModule):
    """0.2 M parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, WIDTH)
        self.blocks = nn.Sequential(*(Causal(2**at) for at in range(5)))
        self.head = nn.Linear(WIDTH, 256)

    def loss(self, batch: Tensor) -> Tensor:
        hidden = self.blocks(self.embedding(batch[:, :-1]).transpose(1, 2)).transpose(1, 2)
        return F.cross_entropy(self.head(hidden).flatten(0, 1), batch[:, 1:].flatten())

    def training_step(self, batch: Tensor, at: int) -> Tensor:
        return self.loss(batch)

    def validation_step(self, batch: Tensor, at: int) -> None:
        self.log("heldout", self.loss(batch), sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def train(config: dict[str, Any]) -> None:
    """What each worker does."""
    pl.seed_everything(0, verbose=False)
    trainer = pl.Trainer(
        max_steps=config["steps"],
        accelerator="auto",
        devices="auto",
        strategy=RayDDPStrategy(),
        plugins=[RayLightningEnvironment()],
        callbacks=[RayTrainReportCallback(), ObserveCallback()],
        val_check_interval=config["steps"] // 2,
        limit_val_batches=8,
        num_sanity_val_steps=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loaders = [DataLoader(Bytes(heldout), batch_size=BATCH, shuffle=not heldout) for heldout in (False, True)]
    prepare_trainer(trainer).fit(Model(), *loaders)
    print(f"held-out loss after {trainer.global_step} steps: {trainer.callback_metrics['heldout']:.3f} nats per byte")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    TorchTrainer(
        train,
        train_loop_config={"steps": given.steps},
        scaling_config=ScalingConfig(num_workers=given.workers),
        run_config=RunConfig(name="lightning", storage_path=os.path.abspath("results")),
    ).fit()
