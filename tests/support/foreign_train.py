"""A team's own training script: Ray Train, plain PyTorch, DDP over gloo. It knows nothing of this project.

`python foreign_train.py STEPS PAUSE_S STORAGE WORKERS [TIMES]`: TIMES is a file to which rank 0 writes when each step
ended, POSIX seconds; each step all-reduces 512·512 + 512 float32 gradients. It ends before its STEPS, after a checkpoint,
where a file STORAGE/enough says so.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from typing import Any

import ray.train
import torch
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model

WIDTH, CHECKPOINT_EVERY = 512, 50
GRADIENT_BYTES = 4 * (WIDTH * WIDTH + WIDTH)


def loop(config: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    rank = ray.train.get_context().get_world_rank()
    model = prepare_model(torch.nn.Linear(WIDTH, WIDTH))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1, config["steps"] + 1):
        loss = model(torch.randn(4, WIDTH)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and config["times"]:
            with open(config["times"], "a") as times:
                times.write(f"{time.time()}\n")
        if step % CHECKPOINT_EVERY == 0:
            report(model, rank, loss.item())
            if enough(config["storage"]):
                break
        time.sleep(config["pause"])


def enough(storage: str) -> bool:
    """Whether the file is there, as the first rank sees it: all of them end with the same step."""
    seen = torch.tensor(float(os.path.exists(os.path.join(storage, "enough"))))
    torch.distributed.broadcast(seen, src=0)
    return bool(seen)


def report(model: torch.nn.Module, rank: int, loss: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        if rank == 0:
            torch.save(model.state_dict(), os.path.join(folder, "model.pt"))
        ray.train.report({"loss": loss}, checkpoint=Checkpoint.from_directory(folder) if rank == 0 else None)


if __name__ == "__main__":
    steps, pause, storage, workers, *times = sys.argv[1:]
    TorchTrainer(
        loop,
        train_loop_config={
            "steps": int(steps),
            "pause": float(pause),
            "storage": storage,
            "times": times[0] if times else "",
        },
        scaling_config=ScalingConfig(num_workers=int(workers), placement_strategy="SPREAD"),
        run_config=RunConfig(name="foreign", storage_path=storage),
    ).fit()
