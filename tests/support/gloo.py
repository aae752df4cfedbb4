"""Runs a trial over real gloo processes without Ray: the same prepare, loop, reload, judge and seal as the driver's.

Processes come from a fork server that has torch and Transformers imported already: every one is new, none pays the import.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from seatrial.driver.prepare import freeze, new_run
from seatrial.events import Layout
from seatrial.events.schema import PhaseEnded, PhaseStarted
from seatrial.trial import Trial
from tests.support.waiting import LIMIT_S

Plant = Callable[[], None]
_PRELOAD = [
    "torch",
    "torch.distributed.fsdp",
    "transformers.models.qwen2.modeling_qwen2",
    "seatrial.train.loop",
    "seatrial.train.reload",
]


def run(trial: Trial, storage: Path, plant: Plant | None = None) -> Layout:
    """Trains and reloads; leaves a run directory that is ready to be judged. `plant` is called in every training rank."""
    layout = new_run(trial, storage)
    with freeze(trial, layout) as events:
        for phase, role in (("train", "rank"), ("reload", "reload")):
            events.write(PhaseStarted(phase=phase, attempt=1))
            problem = group(trial, layout, role, plant if phase == "train" else None)
            events.write(PhaseEnded(phase=phase, attempt=1, status="failed" if problem else "finished", cause=problem))
            if problem:
                break
    return layout


def group(trial: Trial, layout: Layout, role: str, plant: Plant | None) -> str:
    """One process group of `num_workers` new processes. Returns what went wrong, or nothing."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOAD)
    world, port = trial.scaling.num_workers, free_port()
    processes = [
        context.Process(target=_member, args=(layout.root, role, rank, world, port, plant)) for rank in range(world)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(LIMIT_S)
    codes = [process.exitcode for process in processes]
    for process in processes:
        if process.is_alive():
            process.kill()
            process.join()
    return "" if all(code == 0 for code in codes) else f"exit codes {codes}"


def _member(root: Path, role: str, rank: int, world: int, port: int, plant: Plant | None) -> None:
    import torch
    import torch.distributed as dist

    from seatrial.train import loop, reload
    from seatrial.train.context import open_context

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo", HF_HUB_OFFLINE="1")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world, timeout=timedelta(seconds=LIMIT_S))
    if plant:
        plant()
    device = torch.device("cpu")
    context = open_context(root, role=role, attempt=1, rank=rank, world_size=world, local_rank=rank, device=device)
    (loop if role == "rank" else reload).run(context)
    dist.destroy_process_group()


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
