"""The training, on one page: what one rank does from the first roll call to the last."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from seatrial.canon import measured
from seatrial.errors import RunError
from seatrial.events.base import Event
from seatrial.events.schema import Baselines, DataOpened, Environment, Overlap, Step
from seatrial.plan.order import indices, sample_digest
from seatrial.plan.schedule import learning_rate
from seatrial.train import checkpoint, connectivity, model, observe
from seatrial.train.context import Context, carry_out, check_storage
from seatrial.train.data import Dataset, baselines, open_data, overlap
from seatrial.train.environment import process_layers
from seatrial.train.evaluate import evaluate
from seatrial.train.loss import token_loss
from seatrial.train.shard import describe, make_mesh, shard


def run(context: Context) -> None:
    """Trains one trial on this rank. All ranks call it with a process group ready; errors end up in the events."""
    carry_out(context, _phases(context))


def _phases(context: Context) -> Iterator[str]:
    yield "storage check"
    check_storage(context)
    yield "start roll call"
    observe.roll_call(context, "start", 0)
    for layer in process_layers(context):
        context.events.write(layer)

    yield "connectivity check"
    connectivity.check(context)

    yield "model and data"
    trainee = build(context)
    open_and_prove(context, trainee.data)
    context.events.write(observe.parameters(trainee.module, 0))

    yield "evaluation before"
    evaluate(context, trainee.module, trainee.data, "before", 0)

    yield "training"
    train(context, trainee)

    yield "evaluation after"
    evaluate(context, trainee.module, trainee.data, "after", context.plan.steps)
    context.events.write(observe.parameters(trainee.module, context.plan.steps))
    observe.roll_call(context, "end", context.plan.steps)


class Trainee:
    """Model, optimizer and data of one rank, as training and reload both build them."""

    def __init__(
        self, module: nn.Module, root: FSDPModule, mesh: DeviceMesh, optimizer: torch.optim.Optimizer, data: Dataset
    ):
        self.module, self.root, self.mesh, self.optimizer, self.data = module, root, mesh, optimizer, data


def build(context: Context) -> Trainee:
    """A new model, sharded and filled, its optimizer, and the data."""
    trial, work = context.trial, context.trial.workload
    folder = _fetch_once(context)
    config = model.configure(work.model, folder)
    module = model.skeleton(config)
    mesh = make_mesh(context.plan, context.device)
    root = shard(module, model.blocks(module), mesh, context.plan, work)
    model.materialise(module, trial, config, folder, context.device)
    optimizer = torch.optim.AdamW(
        module.parameters(),
        lr=work.optimizer.lr,
        betas=work.optimizer.betas,
        weight_decay=work.optimizer.weight_decay,
        fused=True,
    )
    if context.rank == 0:
        context.events.write(Environment(layer="model", content=model.identity(work.model, folder, config)))
        context.events.write(Environment(layer="sharding", content=describe(module, context.plan, work)))
    return Trainee(module, root, mesh, optimizer, open_data(trial, folder, int(config.vocab_size)))


def _fetch_once(context: Context) -> Path | None:
    """One rank a host downloads; the others wait, then find the files in place."""
    folder = model.fetch(context.trial.workload.model) if context.leads_host else None
    dist.barrier()
    return folder if context.leads_host else model.fetch(context.trial.workload.model)


def open_and_prove(context: Context, data: Dataset) -> None:
    """Ranks must have the same data; rank 0 records its manifest, the baselines and the overlap of the splits."""
    mine = DataOpened(
        source=data.source,
        manifest=data.manifest,
        tokenizer=data.tokenizer.name,
        train_tokens=len(data.train),
        rows=data.rows,
        heldout_windows=data.windows,
        dropped=data.documents.dropped if data.documents else [],
    )
    context.events.write(mine)
    manifests: list[Any] = [None] * context.world_size
    dist.all_gather_object(manifests, data.manifest)
    if len(set(manifests)) > 1:
        raise RunError(
            f"ranks have different data: manifests {', '.join(sorted(set(manifests)))}; every host needs the same files"
        )
    if context.rank == 0:
        tokenizer = {"name": data.tokenizer.name, "files": data.tokenizer.files}
        context.events.write(Environment(layer="tokenizer", content=tokenizer))
        if data.documents:
            context.events.write(Environment(layer="data", content=data.documents.manifest))
        for event in references(data):
            context.events.write(event)


def references(data: Dataset) -> list[Event]:
    """What a model without learning would reach, and how much of the held-out windows stands in train."""
    if data.documents is None:
        return []
    nats, sizes = baselines.score(data)
    return [Baselines(nats=nats, bytes=sizes), Overlap(ngram=overlap.ngram(data), shares=overlap.shares(data))]


def train(context: Context, trainee: Trainee) -> None:
    """All steps. A step's time starts where the last one's bookkeeping ended: what observing costs is inside."""
    plan, work = context.plan, context.trial.workload
    watch = observe.GradientWatch(trainee.module)
    mark = time.monotonic()
    for step in range(1, plan.steps + 1):
        watched = step in plan.gradient_roll_calls
        if watched:
            watch.start()
        loss, samples, waited = forward_backward(context, trainee, step)
        compared = watch.stop() if watched else None
        norm = nn.utils.clip_grad_norm_(trainee.module.parameters(), work.optimizer.clip, foreach=True)
        rate = learning_rate(step, peak=work.optimizer.lr, warmup_steps=work.optimizer.warmup_steps, steps=plan.steps)
        apply(trainee.optimizer, rate)
        total = float(norm.full_tensor() if isinstance(norm, DTensor) else norm)
        ended = time.monotonic()
        context.events.write(
            Step(
                step=step,
                samples=samples,
                tokens=len(samples) * work.sequence_length,
                loss=measured(loss),
                gradient_norm=measured(total),
                lr=trainee.optimizer.param_groups[0]["lr"],  # what the optimizer used, not what it was told
                duration_s=ended - mark,
                data_wait_s=waited,
                started_s=mark,
            )
        )
        mark = ended
        if compared:
            context.events.write(watch.call(step, compared, trainee.mesh, trainee.module))
        if step in plan.checkpoints:
            observe.roll_call(context, "checkpoint", step)
            checkpoint.save(context, trainee.module, trainee.optimizer, progress(context, step, rate))
        if compared or step in plan.checkpoints:
            mark = time.monotonic()  # saving and hashing shards are no training time


def forward_backward(context: Context, trainee: Trainee, step: int) -> tuple[float, list[tuple[int, str]], float]:
    """All micro-batches of a step; gradients are reduced once, after the last.

    Returns this rank's mean loss (nats per token), its samples as given to forward, and seconds spent waiting for data.
    """
    work, plan = context.trial.workload, context.plan
    samples: list[tuple[int, str]] = []
    nats, waited = 0.0, 0.0
    for micro in range(plan.micro_batches):
        trainee.root.set_requires_gradient_sync(micro == plan.micro_batches - 1)
        began = time.monotonic()
        wanted = indices(
            step,
            context.rank,
            micro,
            world_size=context.world_size,
            micro_batch=work.micro_batch,
            global_batch=work.global_batch,
        )
        inputs, targets = fetch(trainee.data, wanted)
        waited += time.monotonic() - began
        total = compute_loss(trainee.module, inputs.to(context.device), targets.to(context.device))
        torch.autograd.backward(total / plan.tokens_per_step)
        nats += float(total.detach())
        samples += zip(wanted, (_digest(i, t) for i, t in zip(inputs, targets, strict=True)), strict=True)
    return nats / (len(samples) * work.sequence_length), samples, waited


def fetch(data: Dataset, wanted: range) -> tuple[Tensor, Tensor]:
    """Inputs and targets, each (micro_batch, sequence_length), int64."""
    rows = torch.stack([torch.from_numpy(data.sample(index)) for index in wanted])
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def compute_loss(module: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Summed nats of a micro-batch, a scalar."""
    return token_loss(module(input_ids=inputs, use_cache=False).logits, targets).sum()


def apply(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """One optimizer step at `rate`."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    optimizer.zero_grad()


def progress(context: Context, step: int, rate: float) -> dict[str, Any]:
    """What a later process needs beside tensors: step, schedule, data cursor (one integer, see `plan.order`)."""
    work = context.trial.workload
    return {"step": step, "schedule": {"lr": rate}, "data": {"cursor": step * work.global_batch, "seed": work.seed}}


def _digest(inputs: Tensor, targets: Tensor) -> str:
    return sample_digest(inputs.to(torch.int32).numpy().tobytes(), targets.to(torch.int32).numpy().tobytes())
