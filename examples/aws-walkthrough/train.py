"""The walkthrough of AWS's Ray Train image in its shape: Qwen2.5-1.5B, random tokens, FSDP over all GPUs.

Nothing can be learnt from random tokens: such a run shows that the machinery works, and no more. `--tiny` trains a
model of the same architecture with 0.2 M parameters, which is for a machine without GPUs.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from typing import Any

import ray.train
import torch
import torch.distributed.checkpoint as dcp
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, get_device
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from transformers import AutoConfig, AutoModelForCausalLM, Qwen2Config

from seatrial import observe


def config_of(name: str, tiny: bool) -> Any:
    """The model's own, or one of the same architecture that a laptop trains."""
    if not tiny:
        return AutoConfig.from_pretrained(name)
    return Qwen2Config(
        vocab_size=2048,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )


def train(config: dict[str, Any]) -> None:
    """What each worker does."""
    device = get_device()
    torch.manual_seed(0)  # all ranks begin with the same weights
    model = AutoModelForCausalLM.from_config(config_of(config["model"], config["tiny"])).to(device)
    model.train()
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if device.type == "cuda" else MixedPrecisionPolicy()
    for layer in model.model.layers:
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)

    rank = ray.train.get_context().get_world_rank()
    generator = torch.Generator().manual_seed(1 + rank)
    shape = (config["batch"], config["length"])

    def tokens() -> Any:
        for _ in range(config["steps"]):
            yield torch.randint(0, model.config.vocab_size, shape, generator=generator)

    with observe(model=model, optimizer=optimizer, steps=config["steps"]) as trial:
        for batch in trial.batches(tokens()):
            ids = batch.to(device)
            loss = model(input_ids=ids, labels=ids, use_cache=False).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            trial.step(loss=loss, tokens=ids.numel())
        with trial.aside():
            save(model, optimizer, loss.item())


def save(model: torch.nn.Module, optimizer: torch.optim.Optimizer, loss: float) -> None:
    """Every rank writes its own shards; Ray Train puts them into one checkpoint."""
    weights, state = get_state_dict(model, optimizer)
    with tempfile.TemporaryDirectory() as folder:
        dcp.save({"model": weights, "optimizer": state}, checkpoint_id=folder)
        ray.train.report({"loss": loss}, checkpoint=Checkpoint.from_directory(folder))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="Qwen/Qwen2.5-1.5B")
    parser.add_argument("--tiny", action="store_true", help="a model of 0.2 M parameters, on CPUs")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=1, help="sequences of each rank in a step")
    parser.add_argument("--length", type=int, default=2048, help="tokens of a sequence")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--results", default="results", help="where Ray Train stores; all hosts must see it")
    given = parser.parse_args()
    TorchTrainer(
        train,
        train_loop_config=vars(given),
        scaling_config=ScalingConfig(num_workers=given.workers, use_gpu=not given.tiny),
        run_config=RunConfig(name="aws-walkthrough", storage_path=os.path.abspath(given.results)),
    ).fit()
