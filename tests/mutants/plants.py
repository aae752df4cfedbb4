"""Planted lies. Each is called in every training rank before the loop starts and changes what the rank really does.

Reload processes are never planted in: they are the honest witness.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from seatrial.train import checkpoint, loop


def nothing() -> None:
    """The clean run."""


def frozen_blocks() -> None:
    """The blocks are left out of the training, as if by a wrong `requires_grad` filter."""
    from seatrial.train.model import blocks

    build = loop.build

    def frozen(context: Any) -> Any:
        state = build(context)
        for block in blocks(state.module):
            block.requires_grad_(False)
        return state

    loop.build = frozen


def starved_blocks() -> None:
    """The gradients of the blocks' matrices are zeroed before each update: they decay, they count steps, they never learn."""
    apply, build = loop.optimizer_step, loop.build
    block_parameters: list[torch.nn.Parameter] = []

    def remember(context: Any) -> Any:
        state = build(context)
        block_parameters.extend(p for n, p in state.module.named_parameters() if ".layers." in n and p.dim() > 1)
        return state

    def starve(optimizer: Any, rate: float) -> None:
        for parameter in block_parameters:
            if parameter.grad is not None:
                parameter.grad.zero_()
        apply(optimizer, rate)

    loop.build, loop.optimizer_step = remember, starve


def learning_rate_zero() -> None:
    """The schedule is logged, zero is applied."""
    apply = loop.optimizer_step
    loop.optimizer_step = lambda optimizer, rate: apply(optimizer, 0.0)


def wrong_schedule() -> None:
    """The warm-up never ends."""
    loop.learning_rate = lambda step, *, peak, warmup_steps, steps: peak * step / steps / 10


def rate_at_a_tenth() -> None:
    """The optimizer is given a tenth of the rate that the schedule says."""
    apply = loop.optimizer_step
    loop.optimizer_step = lambda optimizer, rate: apply(optimizer, rate / 10)


def shuffled_labels() -> None:
    """Targets are permuted within the micro-batch after they were fetched."""
    compute = loop.compute_loss

    def shuffled(module: Any, inputs: Any, targets: Any, positions: Any) -> Any:
        flat = targets.flatten()
        return compute(module, inputs, flat[torch.randperm(len(flat))].view(targets.shape), positions)

    loop.compute_loss = shuffled


def heldout_in_train() -> None:
    """The training stream begins with the held-out stream."""
    from dataclasses import replace

    import numpy as np

    opened = loop.open_data

    def leaked(*arguments: Any) -> Any:
        data = opened(*arguments)
        held, train = data.heldout, data.train
        tokens = np.concatenate([held.tokens, train.tokens])
        starts = np.concatenate([held.starts[:-1], train.starts + len(held.tokens)])
        return replace(data, train=replace(train, tokens=tokens, starts=starts))

    loop.open_data = leaked


def heldout_fetched() -> None:
    """The training stream is clean, and training reads the held-out windows all the same."""
    fetch = loop.micro_batch

    def leaked(data: Any, wanted: range) -> Any:
        from dataclasses import replace

        return fetch(replace(data, train=data.heldout), wanted)

    loop.micro_batch = leaked


def swapped_parts() -> None:
    """Each rank reads another rank's part of the batch: together they read all of it."""
    indices = loop.indices
    loop.indices = lambda step, rank, micro, **kwargs: indices(step, kwargs["world_size"] - 1 - rank, micro, **kwargs)


def same_batch_for_ever() -> None:
    """Every step asks for the next samples and is given the first batch's."""
    fetch = loop.micro_batch
    loop.micro_batch = lambda data, wanted: fetch(data, range(wanted.start % 16, wanted.start % 16 + len(wanted)))


def restarted_data() -> None:
    """Half-way the data begins again, as after a resume that lost its cursor."""
    indices = loop.indices
    loop.indices = lambda step, *rest, **kwargs: indices(step if step <= 20 else step - 20, *rest, **kwargs)


def same_shard() -> None:
    """Every rank reads rank 0's part, under its own indices."""
    fetch = loop.micro_batch

    def same(data: Any, wanted: range) -> Any:
        shift = dist.get_rank() * len(wanted)
        return fetch(data, range(wanted.start - shift, wanted.stop - shift))

    loop.micro_batch = same


def silent_rank() -> None:
    """Rank 1's loss is multiplied by zero: it takes part in every collective and adds nothing."""
    compute = loop.compute_loss
    if dist.get_rank() == 1:
        loop.compute_loss = lambda *arguments: compute(*arguments) * 0


def skipped_updates() -> None:
    """Every tenth update does not happen."""
    apply = loop.optimizer_step
    count = 0

    def skipping(optimizer: Any, rate: float) -> None:
        nonlocal count
        count += 1
        if count % 10:
            apply(optimizer, rate)
        else:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.zero_grad()

    loop.optimizer_step = skipping


def lost_micro_batch() -> None:
    """The first micro-batch's gradient is dropped before the second's is reduced."""
    compute = loop.compute_loss
    calls = 0

    def dropping(module: Any, *batch: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls % 2 == 0:
            for part in module.modules():
                state = getattr(part, "_get_fsdp_state", lambda: None)()
                for parameter in state._fsdp_param_group.fsdp_params if state and state._fsdp_param_group else ():
                    parameter.unsharded_accumulated_grad = None
                    if hasattr(parameter, "_unsharded_param"):
                        parameter._unsharded_param.grad = None
        return compute(module, *batch)

    loop.compute_loss = dropping


def replicas_apart() -> None:
    """DDP without its all-reduce: every replica keeps its own gradient."""
    all_reduce = dist.all_reduce

    def skipping(tensor: Any, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
        if group is None:
            return all_reduce(tensor, op, group, async_op)  # the roll calls'; FSDP names its group
        return all_reduce(torch.zeros(1), op, group, async_op)

    dist.all_reduce = skipping


def moment_not_saved() -> None:
    """The saved state lacks one parameter's second moment."""
    state_dict = checkpoint.state_dict

    def lacking(*arguments: Any) -> Any:
        state = state_dict(*arguments)
        name = sorted(state["optim"]["state"])[3]
        moments = {k: v for k, v in state["optim"]["state"][name].items() if k != "exp_avg_sq"}
        optim = {**state["optim"], "state": {**state["optim"]["state"], name: moments}}
        return {**state, "optim": optim}

    checkpoint.state_dict = lacking


def stale_weights_saved() -> None:
    """Every checkpoint holds the weights of the first one, with the optimizer and the step of its own."""
    state_dict = checkpoint.state_dict
    first: dict[str, Any] = {}

    def stale(*arguments: Any) -> Any:
        state = state_dict(*arguments)
        if not first:
            first.update({name: tensor.detach().clone() for name, tensor in state["model"].items()})
        return {**state, "model": first}

    checkpoint.state_dict = stale


def stale_cursor() -> None:
    """The checkpoint says that it is one step older than it is."""
    progress = loop.progress
    loop.progress = lambda context, step, rate: {**progress(context, step, rate), "step": step - 1}


def _scaled(wanted: str, factor: float) -> None:
    """The training ranks' score of one phase is reported at `factor` of what it is."""
    evaluate = loop.evaluate

    def scaled(context: Any, module: Any, data: Any, phase: Any, step: int) -> None:
        import seatrial.train.evaluate as scorer

        token_nats = scorer.token_nats
        if phase == wanted:
            scorer.token_nats = lambda *arguments: token_nats(*arguments) * factor
        evaluate(context, module, data, phase, step)
        scorer.token_nats = token_nats

    loop.evaluate = scaled


def flattering_evaluation() -> None:
    """The score after training is reported at nine tenths."""
    _scaled("after", 0.9)


def gloomy_base() -> None:
    """The score before training is reported at double, so that any training improves on it."""
    _scaled("before", 2.0)


def easy_baseline() -> None:
    """The table models are reported at double."""
    score = loop.baselines.score

    def easy(data: Any) -> Any:
        nats, sizes = score(data)
        return {name: [2 * n for n in values] for name, values in nats.items()}, sizes

    loop.baselines.score = easy


def diverged() -> None:
    """From step 3 on the loss is NaN."""
    compute = loop.compute_loss
    calls = 0

    def diverging(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        return compute(*arguments) * (float("nan") if calls > 4 else 1.0)

    loop.compute_loss = diverging
