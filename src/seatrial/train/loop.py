"""The training, on one page: what one rank does from the first roll call to the last."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from seatrial.events.base import Event
from seatrial.events.schema import Baselines, DataOpened, Environment, Overlap
from seatrial.plan.batches import learning_rate
from seatrial.plan.order import indices, sample_digest
from seatrial.train import checkpoint, connectivity, isolation, model
from seatrial.train.context import Context, carry_out, check_storage
from seatrial.train.data import IGNORED, Dataset, baselines, open_data, overlap, stacked
from seatrial.train.environment import process_layers
from seatrial.train.evaluate import evaluate
from seatrial.train.loss import token_nats
from seatrial.train.observe import gradients, proofs
from seatrial.train.observe.steps import Steps
from seatrial.train.shard import describe, make_mesh, shard
from seatrial.train.tasks.contamination import overlaps
from seatrial.train.tasks.score import evaluate as evaluate_tasks


def run(context: Context) -> None:
    """Trains one trial on this rank. All ranks call it with a process group ready; errors end up in the events."""
    carry_out(context, _phases(context))


def _phases(context: Context) -> Iterator[str]:
    yield "storage check"
    check_storage(context)
    yield "start roll call"
    proofs.roll_call(context, "start", 0)
    for layer in process_layers(context):
        context.events.write(layer)

    yield "connectivity check"
    connectivity.check(context)

    yield "model and data"
    state = build(context)
    record_data(context, state.data)
    if state.data.folder:
        isolation.check(context, state.module, state.data.statistics.largest + 1)
    context.events.write(proofs.parameters(state.module, 0))

    yield "evaluation before"
    evaluate(context, state.module, state.data, "before", 0)
    evaluate_tasks(context, state.module, "before", 0)

    yield "training"
    train(context, state)

    yield "evaluation after"
    evaluate(context, state.module, state.data, "after", context.plan.steps)
    evaluate_tasks(context, state.module, "after", context.plan.steps)
    context.events.write(proofs.parameters(state.module, context.plan.steps))
    proofs.roll_call(context, "end", context.plan.steps)


class TrainState:
    """Model, optimizer and data of one rank, as training and reload both build them."""

    def __init__(
        self, module: nn.Module, root: FSDPModule, mesh: DeviceMesh, optimizer: torch.optim.Optimizer, data: Dataset
    ):
        self.module, self.root, self.mesh, self.optimizer, self.data = module, root, mesh, optimizer, data


def build(context: Context) -> TrainState:
    """Builds and shards a new model, fills it, and makes its optimizer; opens the data."""
    trial, work = context.trial, context.trial.training
    folder = _fetch_once(context)
    config = model.configure(work.model, folder)
    module = model.meta_model(config)
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
        context.events.write(Environment(layer="sharding", content=describe(module, context.plan, work).content()))
    return TrainState(module, root, mesh, optimizer, open_data(context, folder, int(config.vocab_size)))


def _fetch_once(context: Context) -> Path | None:
    """One rank a host downloads; the others wait, then find the files in place."""
    folder = model.fetch(context.trial.training.model) if context.is_local_rank_zero else None
    dist.barrier()
    return folder if context.is_local_rank_zero else model.fetch(context.trial.training.model)


def record_data(context: Context, data: Dataset) -> None:
    """Each rank records the data that it has. Rank 0 adds manifest, baselines and the overlap of the splits."""
    mine = DataOpened(
        source=data.source,
        manifest=data.manifest,
        tokenizer=data.tokenizer.name,
        train_tokens=len(data.train.tokens),
        rows=data.rows,
        heldout_windows=data.windows,
        dropped=data.content.get("dropped", []),
        documents=data.statistics.documents,
        counted=data.statistics.counted,
        truncated=data.statistics.truncated,
        bad=data.statistics.bad,
        bad_named=list(data.statistics.named),
        windows=data.windows_digest(),
    )
    context.events.write(mine)
    if context.rank == 0:
        tokenizer = {"name": data.tokenizer.name, "files": data.tokenizer.files}
        context.events.write(Environment(layer="tokenizer", content=tokenizer))
        if data.content:
            context.events.write(Environment(layer="data", content=data.content))
        for event in (*baselines_and_overlap(data), *overlaps(context, data)):
            context.events.write(event)


def baselines_and_overlap(data: Dataset) -> list[Event]:
    """What a model without learning would reach, and how much of the held-out windows is in train."""
    if data.bigrams is None:
        return []
    nats, sizes = baselines.score(data)
    return [Baselines(nats=nats, bytes=sizes), Overlap(ngram=overlap.ngram(data), shares=overlap.shares(data))]


def train(context: Context, state: TrainState) -> None:
    """All steps, recorded as those of a script's own loop are. Only here the gradient's reduction is known exactly."""
    plan, work = context.plan, context.trial.training
    watch = gradients.ExactWatch(state.module, state.mesh)
    steps = Steps(context, state.optimizer, watch, plan.gradient_roll_calls)
    for step in range(1, plan.steps + 1):
        done = forward_backward(context, state, step)
        steps.reduced()
        norm = nn.utils.clip_grad_norm_(state.module.parameters(), work.optimizer.clip, foreach=True)
        rate = learning_rate(step, peak=work.optimizer.lr, warmup_steps=work.optimizer.warmup_steps, steps=plan.steps)
        optimizer_step(state.optimizer, rate)
        total = norm.full_tensor() if isinstance(norm, DTensor) else norm
        steps.saw(done.samples, done.waited)
        tokens = len(done.samples) * work.sequence_length
        steps.step(done.loss, tokens, total, counted=done.counted, divisor=done.divisor)
        if step in plan.checkpoints:
            with steps.aside():
                proofs.roll_call(context, "checkpoint", step)
                checkpoint.save(context, state.module, state.optimizer, progress(context, step, rate))


class StepResult(NamedTuple):
    """What one rank did in a step: mean loss (nats per counted token), samples as given to forward, seconds of waiting
    for data, its targets that count, and what the sum of nats was divided by: those of all ranks."""

    loss: float
    samples: list[tuple[int, str]]
    waited: float
    counted: int
    divisor: int


def forward_backward(context: Context, state: TrainState, step: int) -> StepResult:
    """All micro-batches of a step; gradients are reduced once, after the last.

    The loss is the mean over all counted targets of the global batch: how many there are follows from the data alone.
    """
    work, plan = context.trial.training, context.plan
    samples: list[tuple[int, str]] = []
    began, nats, counted = time.monotonic(), 0.0, 0
    divisor = state.data.counted(range((step - 1) * work.global_batch, step * work.global_batch))
    waited = time.monotonic() - began
    for micro in range(plan.micro_batches):
        state.root.set_requires_gradient_sync(micro == plan.micro_batches - 1)
        began = time.monotonic()
        wanted = indices(
            step,
            context.rank,
            micro,
            world_size=context.world_size,
            micro_batch=work.micro_batch,
            global_batch=work.global_batch,
        )
        batch = micro_batch(state.data, wanted)
        waited += time.monotonic() - began
        total = compute_loss(state.module, *(part.to(context.device) for part in batch))
        torch.autograd.backward(total / max(1, divisor))
        nats += float(total.detach())
        counted += int((batch[1] != IGNORED).sum())
        samples += zip(wanted, map(_digest, *batch), strict=True)
    return StepResult(nats / max(1, counted), samples, waited, counted, divisor)


def micro_batch(data: Dataset, wanted: range) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs, targets and positions, each (micro_batch, sequence_length), int64."""
    return stacked([data.sample(index) for index in wanted])


def compute_loss(module: nn.Module, inputs: Tensor, targets: Tensor, positions: Tensor) -> Tensor:
    """Summed nats of a micro-batch over the targets that count, a scalar."""
    return token_nats(module, inputs, targets, positions).sum()


def optimizer_step(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """One optimizer step at `rate`."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    optimizer.zero_grad()


def progress(context: Context, step: int, rate: float) -> dict[str, Any]:
    """What a later process needs beside tensors: step, schedule, data cursor (one integer, see `plan.order`)."""
    work = context.trial.training
    return {"step": step, "schedule": {"lr": rate}, "data": {"cursor": step * work.global_batch, "seed": work.seed}}


def _digest(*parts: Tensor) -> str:
    """Of one row: inputs, targets, positions."""
    return sample_digest(*(part.to(torch.int32).numpy().tobytes() for part in parts))
