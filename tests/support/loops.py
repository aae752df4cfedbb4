"""Training loops that are not seatrial's, over real gloo processes: what a team's own script would do."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from seatrial.canon import canonical
from seatrial.events import Layout, Stream, read
from seatrial.probe.processes import RUN_VARIABLE
from tests.support.gloo import free_port
from tests.support.waiting import LIMIT_S

Loop = Callable[..., Any]
_PRELOAD = ["torch", "torch.distributed.fsdp", "seatrial.train.observe.observation"]


def run_directory(storage: Path) -> Layout:
    """A run directory as the driver leaves it before a script starts: claims and trial are frozen."""
    layout = Layout(storage / "run")
    layout.make()
    layout.claims.write_bytes(canonical({"run": "run", "claims": []}))
    layout.trial.write_bytes(canonical({"metadata": {"name": "own"}}))
    return layout


def ranks(loop: Loop, layout: Layout | None, folder: Path, world: int = 2, **told: Any) -> list[str]:
    """Runs `loop(rank, folder, **told)` in every rank; inside a trial if there is a layout. Returns what each failed with."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOAD)
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    root = str(layout.root) if layout else ""
    processes = [
        context.Process(target=_member, args=(loop, rank, world, port, root, folder, told)) for rank in range(world)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(LIMIT_S)
    for process in processes:
        if process.is_alive():
            process.kill()
            process.join()
    failed = [folder / f"failed-{rank}" for rank in range(world)]
    said = [f.read_text() if f.exists() else "" for f in failed]
    return [text or ("" if p.exitcode == 0 else f"exit {p.exitcode}") for text, p in zip(said, processes, strict=True)]


def _member(loop: Loop, rank: int, world: int, port: int, root: str, folder: Path, told: dict[str, Any]) -> None:
    import torch
    import torch.distributed as dist

    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo", LOCAL_RANK=str(rank), **({RUN_VARIABLE: root} if root else {})
    )  # fmt: skip
    torch.set_num_threads(1)
    if told.pop("group", True):
        dist.init_process_group("gloo", rank=rank, world_size=world, timeout=timedelta(seconds=LIMIT_S))
    try:
        loop(rank, folder, **told)
    except BaseException:
        (folder / f"failed-{rank}").write_text(traceback.format_exc())
        os._exit(1)


def streams(layout: Layout, world: int = 2, attempt: int = 1) -> list[Stream]:
    """The event file of each rank."""
    return [read(layout.process(attempt, f"rank-{r}"), f"rank-{r}", "run") for r in range(world)]


def model(kind: str) -> Any:
    """A small language model: `plain`, in DDP, or sharded by FSDP2."""
    import torch
    from torch import nn
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(3)
    net = nn.Sequential(
        nn.Embedding(64, 16), nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 16), nn.LayerNorm(16), nn.Linear(16, 64)
    )  # fmt: skip
    if kind == "ddp":
        return DistributedDataParallel(net)
    if kind == "fsdp":
        fully_shard(net[4])
        fully_shard(net)
    return net


def batches(rank: int, steps: int, repeat: bool = False) -> list[dict[str, Any]]:
    """Of each step (4, 9) token ids that follow a rule, other ones on each rank."""
    import torch

    def batch(step: int) -> dict[str, Any]:
        generator = torch.Generator().manual_seed(1000 * (0 if repeat else step) + rank)
        ids = torch.randint(0, 8, (4, 9), generator=generator).cumsum(dim=1) % 64
        return {"input_ids": ids}

    return [batch(step) for step in range(steps)]


def train(
    rank: int,
    folder: Path,
    kind: str = "ddp",
    steps: int = 5,
    tell: bool = True,
    plant: Callable[..., Any] | None = None,
) -> None:
    """A plain loop; leaves a digest of its parameters and of all random states in the folder."""
    import random

    import numpy
    import torch
    import torch.nn.functional as F

    from seatrial import observe
    from seatrial.canon import digest
    from seatrial.train.checkpoint import host_rng_state
    from seatrial.train.observe.proofs import tensor_digest

    net = model(kind)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    hooks = plant(rank, net, optimizer) if plant else None
    torch.manual_seed(100 + rank)
    random.seed(rank)
    numpy.random.seed(rank)
    told = {"model": net, "optimizer": optimizer, "steps": steps} if tell else {}
    with observe(**told) as trial:
        for batch in trial.batches(batches(rank, steps)):
            ids = batch["input_ids"]
            loss = F.cross_entropy(net(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
            (hooks["loss"](loss) if hooks and "loss" in hooks else loss).backward()
            if hooks and "gradient" in hooks:
                hooks["gradient"](net)
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            trial.step(loss=loss, tokens=ids.numel())
    held = {name: tensor_digest(p) for name, p in net.named_parameters()}
    state = {"parameters": held, "random": tensor_digest(torch.get_rng_state()), "host": host_rng_state()}
    (folder / f"end-{rank}").write_text(digest(state))
