"""The end check: new processes build a new model and optimizer, load the final checkpoint and report what they got.

They also score the held-out windows before and after the load, fit the baselines and make the planned data again: a
second witness for what the training ranks reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from seatrial.canon import sha256
from seatrial.errors import RunError
from seatrial.events.schema import LOAD, Reloaded
from seatrial.train import checkpoint
from seatrial.train.audit import audit, recomputed
from seatrial.train.context import Context, carry_out
from seatrial.train.evaluate import evaluate
from seatrial.train.loop import baselines_and_overlap, build
from seatrial.train.observe import proofs
from seatrial.train.tasks.contamination import overlaps
from seatrial.train.tasks.score import evaluate as evaluate_tasks


def run(context: Context) -> None:
    """Reloads on this rank. All ranks call it together, in processes that have not trained."""
    carry_out(context, _phases(context))


def _phases(context: Context) -> Iterator[str]:
    yield "model and data"
    state = build(context)

    yield "evaluation of the base"
    evaluate(context, state.module, state.data, "base", 0)
    evaluate_tasks(context, state.module, "base", 0)

    yield LOAD
    found = checkpoint.complete_checkpoints(context.layout.checkpoints)
    if not found:
        raise RunError("there is no complete checkpoint to reload")
    folder = found[-1]
    progress, missing = checkpoint.load(context, folder, state.module, state.optimizer)
    held: dict[str, str] = {}
    if not missing:
        held = checkpoint.digests(checkpoint.state_dict(context, state.module, state.optimizer, progress))
    updates, dead = _updates(state.module, state.optimizer, bool(missing))
    context.events.write(
        Reloaded(
            step=int(progress.get("step", 0)),
            path=context.layout.relative(folder),
            manifest=sha256((folder / checkpoint.MANIFEST).read_bytes()),
            state=held,
            missing=missing,
            updates=updates,
            dead=dead,
        )
    )

    yield "evaluation after the reload"
    if not missing:
        evaluate(context, state.module, state.data, "reload", int(progress["step"]))
        evaluate_tasks(context, state.module, "reload", int(progress["step"]))

    yield "audit of the data"
    if context.rank == 0:
        with recomputed(context, state.data) as data:
            for event in (*baselines_and_overlap(data), *overlaps(context, data), *audit(context, data)):
                context.events.write(event)


def _updates(
    module: nn.Module, optimizer: torch.optim.Optimizer, nothing_loaded: bool
) -> tuple[dict[str, int], list[str]]:
    """The optimizer's own count of updates by parameter, and the parameters that never had a gradient."""
    updates: dict[str, int] = {}
    dead: list[str] = []
    for name, parameter in module.named_parameters():
        state: dict[str, Any] = {} if nothing_loaded else optimizer.state.get(parameter, {})
        step, second = state.get("step", 0), state.get("exp_avg_sq")
        updates[name] = int(step.item() if isinstance(step, Tensor) else step)
        if isinstance(second, Tensor) and not bool((proofs.local_shard(second) != 0).any()):
            dead.append(name)  # on this rank's shard; dead is what every rank says is dead
    return updates, dead
