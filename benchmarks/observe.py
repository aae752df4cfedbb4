"""What `observe()` costs a training loop of about 50 ms a step.

    python benchmarks/observe.py [--rounds 7] [--steps 60] [--step-ms 50]

Two gloo ranks train a small model under DistributedDataParallel in two arms, in turn, the order reversed every other
round:

  bare       the loop alone
  observed   the same with `observe(model, optimizer)` in a run directory on a local disk, `trial.batches`, `trial.step`

Three figures come out. `calls`: the seconds that a step spends inside `trial.step` and in what `trial.batches` adds, on
the rank's own clock; steps with a gradient roll call are counted apart. `cpu`: the processor time of the same calls,
which a busy machine does not change. `steps`: the median step of the two arms, whose ratio holds everything, the
machine's noise too. Batches hold three int64 tensors of 4 × 1024, as a tokenizer's do.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from seatrial.canon import canonical
from seatrial.events import Layout
from seatrial.probe.processes import RUN_VARIABLE

TARGET = 0.01
ARMS = ("bare", "observed")
WARM_UP = 5


def member(steps: int, wanted_s: float) -> None:
    """One rank: prints the seconds of each step, and what of them the calls took."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    from seatrial import observe

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    inside = nn.Sequential(nn.Embedding(1000, 64), nn.Linear(64, 64), nn.LayerNorm(64), nn.Linear(64, 1000))
    net = DistributedDataParallel(inside)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    ids = torch.randint(0, 1000, (4, 1024))
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}
    left, right = torch.randn(2, 256, 256).unbind()
    taken: list[float] = []
    calls: list[float] = []
    cpu: list[float] = []
    with observe(model=net, optimizer=optimizer) as trial:
        mark = handed = time.perf_counter()
        used = time.thread_time()
        for given in trial.batches([batch] * steps):
            fetched, used = time.perf_counter() - handed, time.thread_time() - used
            loss = nn.functional.cross_entropy(net(given["input_ids"][:, :128]).flatten(0, 1), ids[:, :128].flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            while time.perf_counter() - mark < wanted_s:  # the rest of the step: work that never sleeps
                left = torch.tanh(left @ right)
            began, busy = time.perf_counter(), time.thread_time()
            trial.step(loss=loss)
            now = time.perf_counter()
            cpu.append(used + time.thread_time() - busy)
            used = time.thread_time()
            calls.append(fetched + now - began)
            taken.append(now - mark)
            mark = handed = now
    if dist.get_rank() == 0:
        print(json.dumps({"steps": taken, "calls": calls, "cpu": cpu}))
    dist.destroy_process_group()


def arm(name: str, steps: int, step_ms: float) -> dict[str, list[float]]:
    """Runs one arm in new processes."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    with tempfile.TemporaryDirectory(prefix="observe-") as folder:
        if name == "observed":
            layout = Layout(Path(folder) / "run")
            layout.make()
            layout.claims.write_bytes(canonical({"run": "run", "claims": []}))
            layout.trial.write_bytes(canonical({}))
            environment[RUN_VARIABLE] = str(layout.root)
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        command += [__file__, "--member", str(steps), str(step_ms / 1e3)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{name} ended with {done.returncode}: {done.stderr[-2000:]}")
    found: dict[str, list[float]] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def ordinary(calls: list[float]) -> list[float]:
    """Those of the steps after the first few that have no gradient roll call."""
    return [c for n, c in enumerate(calls, start=1) if n > WARM_UP and n & (n - 1)]


def spread(values: list[float], unit: str = "ms", scale: float = 1e3) -> str:
    """Median, 5th and 95th percentile."""
    ordered = sorted(values)
    at = [ordered[round(share * (len(ordered) - 1))] * scale for share in (0.5, 0.05, 0.95)]
    return f"median {at[0]:.3f} {unit}   5 % {at[1]:.3f}   95 % {at[2]:.3f}"


def main() -> None:
    """Runs the arms and prints what the calls and the steps took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--step-ms", type=float, default=50.0)
    given = parser.parse_args()
    seen: dict[str, list[dict[str, list[float]]]] = {name: [] for name in ARMS}
    for number in range(given.rounds):
        for name in ARMS if number % 2 == 0 else reversed(ARMS):
            seen[name].append(arm(name, given.steps, given.step_ms))
        last: Any = {name: statistics.median(seen[name][-1]["steps"][WARM_UP:]) * 1e3 for name in ARMS}
        print(f"round {number + 1}: median step " + "  ".join(f"{n} {ms:.2f} ms" for n, ms in last.items()), flush=True)
    plain = [c for run in seen["observed"] for c in ordinary(run["calls"])]
    cpu = [c for run in seen["observed"] for c in ordinary(run["cpu"])]
    watched = [c for run in seen["observed"] for n, c in enumerate(run["calls"], start=1) if not n & (n - 1)]
    ratios = [
        statistics.median(o["steps"][WARM_UP:]) / statistics.median(b["steps"][WARM_UP:])
        for o, b in zip(seen["observed"], seen["bare"], strict=True)
    ]
    print()
    for name, values in (("calls", plain), ("cpu", cpu)):
        share = statistics.median(values) * 1e3 / given.step_ms
        verdict = "met" if share < TARGET else "missed"
        print(f"{name:<6} {spread(values)}   {share:.2%} of {given.step_ms:.0f} ms; target < {TARGET:.0%}: {verdict}")
    print(f"calls with a gradient roll call {spread(watched)}")
    print(f"steps  observed / bare by rounds {spread(ratios, unit='', scale=1.0)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--member"]:
        member(int(sys.argv[2]), float(sys.argv[3]))
    else:
        main()
