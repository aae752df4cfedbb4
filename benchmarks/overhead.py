"""What running under seatrial costs: steady-window tokens/s of three arms, alternating, no checkpoint in the window.

  bare      torchrun + FSDP2, the plainest loop over the same model, batches, optimizer and schedule
  idle-ray  the same with an idle Ray (and its prestarted workers) beside it
  seatrial  the steady window of a `seatrial run`, from its record

The unit is the run. Ratios are of paired rounds, as geometric means with a 95 % interval (Student's t on log ratios).
The target is a ratio of at most 1.03 against idle-ray: `met`, `missed`, or `inconclusive` if the interval holds it.

    python benchmarks/overhead.py [--rounds 7] [--steps 60]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

TARGET = 1.03
ARMS = ("bare", "idle-ray", "seatrial")
# Two-sided 95 % quantiles of Student's t by degrees of freedom (NIST/SEMATECH e-Handbook, table 1.3.6.7.2).
T95 = {
    1: 12.706,
    2: 4.303,
    3: 3.182,
    4: 2.776,
    5: 2.571,
    6: 2.447,
    7: 2.365,
    8: 2.306,
    9: 2.262,
    10: 2.228,
    15: 2.131,
    20: 2.086,
    30: 2.042,
}


def trial(steps: int, warmup: int, storage: Path) -> dict[str, Any]:
    """The built-in local trial, shorter, with its only checkpoint after the window."""
    from seatrial.trial.loader import builtin

    document = builtin("local").trial.resolved()
    document["storage"] = {"path": str(storage)}
    document["workload"] |= {
        "steps": steps,
        "checkpoint": {"every": steps, "num_to_keep": 1},
        "measure": {"warmup_steps": warmup},
    }
    document["claims"] = [{"claim": "execution.completed"}]
    return document


def seatrial_arm(steps: int, warmup: int, folder: Path) -> float:
    """Tokens/s of the steady window of one `seatrial run`."""
    file = folder / "trial.yaml"
    file.write_text(yaml.safe_dump(trial(steps, warmup, folder / "runs")))
    done = subprocess.run(
        [sys.executable, "-m", "seatrial.cli.main", "run", str(file), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"seatrial run ended with {done.returncode}: {done.stderr}")
    return float(
        json.loads(done.stdout)["evidence"]["performance"]["performance.tokens_per_second"]["value"][
            "tokens_per_second"
        ]
    )


def bare_arm(steps: int, warmup: int, folder: Path) -> float:
    """Tokens/s of the same window under torchrun, without seatrial's loop."""
    document = folder / "bare.json"
    document.write_text(json.dumps(trial(steps, warmup, folder)["workload"]))
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        __file__,
        "--member",
        str(document),
        str(warmup),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"torchrun ended with {done.returncode}: {done.stderr[-2000:]}")
    return float(done.stdout.strip().splitlines()[-1])


def idle_ray_arm(steps: int, warmup: int, folder: Path) -> float:
    """The bare arm while a Ray of this machine idles beside it."""
    import ray

    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
    try:
        return bare_arm(steps, warmup, folder)
    finally:
        ray.shutdown()


def member(document: Path, warmup: int) -> None:
    """One rank of the bare arm: model, FSDP2, AdamW, clipping, cosine; nothing recorded but the window's time."""
    import time

    import numpy as np
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from transformers import AutoConfig, AutoModelForCausalLM

    from seatrial.plan.batches import learning_rate
    from seatrial.train.data.source import python_stdlib

    work = json.loads(document.read_text())
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(work["seed"])
    config = dict(work["model"]["config"])
    model = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(config.pop("model_type"), **config), dtype=torch.float32
    )
    mesh = init_device_mesh("cpu", (world,))
    policy = MixedPrecisionPolicy(param_dtype=torch.float32, reduce_dtype=torch.float32)
    for block in model.model.layers:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=True)
    asked = work["optimizer"]
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=asked["lr"], betas=asked["betas"], weight_decay=asked["weight_decay"], fused=True
    )
    stream = np.frombuffer(b"\x00".join(python_stdlib().train), dtype=np.uint8)
    length, size = work["sequence_length"], work["global_batch"] // world
    rows = np.random.default_rng(work["seed"]).permutation((len(stream) - 1) // length)
    began = 0.0
    for step in range(1, work["steps"] + 1):
        if step == warmup + 1:
            dist.barrier()
            began = time.monotonic()
        mine = rows[((step - 1) * world + rank) * size :][:size]
        batch = torch.from_numpy(
            np.stack([stream[r * length : r * length + length + 1] for r in mine]).astype(np.int64)
        )
        logits = model(input_ids=batch[:, :-1], use_cache=False).logits
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), asked["clip"], foreach=True)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, peak=asked["lr"], warmup_steps=asked["warmup_steps"], steps=work["steps"])
        optimizer.step()
        optimizer.zero_grad()
        loss.item()
    seconds = time.monotonic() - began
    if rank == 0:
        print((work["steps"] - warmup) * work["global_batch"] * length / seconds)
    dist.destroy_process_group()


def ratio(slow: list[float], fast: list[float]) -> tuple[float, float, float]:
    """Geometric mean of `fast / slow` throughput over paired rounds, with its 95 % interval: above 1 is overhead."""
    logs = [math.log(f / s) for s, f in zip(slow, fast, strict=True)]
    count, mean = len(logs), math.fsum(logs) / len(logs)
    spread = math.sqrt(math.fsum((x - mean) ** 2 for x in logs) / (count - 1) / count) if count > 1 else math.inf
    quantile = T95[max(k for k in T95 if k <= max(1, count - 1))]
    return math.exp(mean), math.exp(mean - quantile * spread), math.exp(mean + quantile * spread)


def main() -> None:
    """Runs the arms in turn, the order reversed every other round, and prints the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--warmup", type=int, default=10)
    given = parser.parse_args()
    arms = {"bare": bare_arm, "idle-ray": idle_ray_arm, "seatrial": seatrial_arm}
    seen: dict[str, list[float]] = {arm: [] for arm in ARMS}
    for number in range(given.rounds):
        for arm in ARMS if number % 2 == 0 else reversed(ARMS):
            with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
                seen[arm].append(arms[arm](given.steps, given.warmup, Path(folder)))
        print(
            f"round {number + 1}: " + "  ".join(f"{arm} {seen[arm][-1]:,.0f}" for arm in ARMS) + "  tokens/s",
            flush=True,
        )
    print()
    for arm in ARMS:
        ordered = sorted(seen[arm])
        print(
            f"{arm:<9} median {ordered[len(ordered) // 2]:>9,.0f} tokens/s"
            f"   min {ordered[0]:,.0f}   max {ordered[-1]:,.0f}"
        )
    for arm in ("bare", "idle-ray"):
        middle, low, high = ratio(seen["seatrial"], seen[arm])
        verdict = ""
        if arm == "idle-ray":
            verdict = (
                f"   target ≤ {TARGET}: {'met' if high <= TARGET else 'missed' if low > TARGET else 'inconclusive'}"
            )
        print(f"{arm}/seatrial   {middle:.3f}   95 % interval {low:.3f} to {high:.3f}{verdict}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--member"]:
        member(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
