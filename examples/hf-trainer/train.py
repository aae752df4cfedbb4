"""Hugging Face's Trainer under Ray Train: a small Qwen2 learns the bytes of Python's standard library.

Runs by itself (`python train.py`), and under seatrial, which then sees what its callback tells it.
"""

from __future__ import annotations

import argparse
import os
import sysconfig
from pathlib import Path
from typing import Any

import torch
from ray.train import RunConfig, ScalingConfig
from ray.train.huggingface.transformers import RayTrainReportCallback, prepare_trainer
from ray.train.torch import TorchTrainer
from torch.utils.data import Dataset
from transformers import Qwen2Config, Qwen2ForCausalLM, Trainer, TrainingArguments

from seatrial.callbacks.transformers import ObserveCallback

LENGTH, HELDOUT = 128, 128


class Bytes(Dataset[dict[str, torch.Tensor]]):
    """Rows of LENGTH bytes, int64, from the files of one split; one file in ten is held out."""

    def __init__(self, heldout: bool):
        root = Path(sysconfig.get_paths()["stdlib"])
        files = [path for at, path in enumerate(sorted(root.glob("*.py"))) if (at % 10 == 0) == heldout]
        self.stream = torch.frombuffer(bytearray(b"\x00".join(p.read_bytes() for p in files)), dtype=torch.uint8)

    def __len__(self) -> int:
        return len(self.stream) // LENGTH

    def __getitem__(self, at: int) -> dict[str, torch.Tensor]:
        row = self.stream[at * LENGTH : (at + 1) * LENGTH].long()
        return {"input_ids": row, "labels": row}


def model() -> Qwen2ForCausalLM:
    """0.5 M parameters over bytes."""
    torch.manual_seed(0)
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=256,
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=LENGTH,
            tie_word_embeddings=True,
            initializer_range=0.05,
        )
    )


def train(config: dict[str, Any]) -> None:
    """What each worker does."""
    heldout = Bytes(heldout=True)
    arguments = TrainingArguments(
        output_dir=os.path.join(config["folder"], "checkpoints"),
        max_steps=config["steps"],
        per_device_train_batch_size=8,
        per_device_eval_batch_size=32,
        learning_rate=3e-3,
        warmup_steps=10,
        logging_steps=1,  # the loss of every step, which seatrial's callback takes from the log
        save_steps=config["steps"],
        eval_strategy="steps",
        eval_steps=config["steps"],
        eval_on_start=True,
        report_to="none",
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
        fsdp=True if config["fsdp"] else None,
    )
    trainer = Trainer(
        model=model(),
        args=arguments,
        train_dataset=Bytes(heldout=False),
        eval_dataset=torch.utils.data.Subset(heldout, range(0, len(heldout), len(heldout) // HELDOUT)),
        callbacks=[RayTrainReportCallback(), ObserveCallback()],
    )
    trainer = prepare_trainer(trainer)
    if config["evaluate_first"]:
        trainer.evaluate()
    trainer.train()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--fsdp", action="store_true", help="ask the Trainer for FSDP")
    parser.add_argument("--evaluate-first", action="store_true", help="call trainer.evaluate() before trainer.train()")
    given = parser.parse_args()
    folder = os.path.abspath("results")
    TorchTrainer(
        train,
        train_loop_config={**vars(given), "folder": folder},
        scaling_config=ScalingConfig(num_workers=given.workers),
        run_config=RunConfig(name="hf-trainer", storage_path=folder),
    ).fit()
