"""The plan's messages against what torch really asks of gloo, collective by collective, in a step of real training."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from seatrial.events import read
from seatrial.events.layers import Sharding, layer
from seatrial.plan import plan
from seatrial.plan.traffic import messages
from tests.support import gloo
from tests.support.trials import quick

pytestmark = pytest.mark.dist
STEP = 2  # without a gradient roll call

# Dispatched operation -> the collective, and which of its arguments is the whole tensor.
COLLECTIVES = {
    "_allgather_base_": ("all_gather", 0),
    "_reduce_scatter_base_": ("reduce_scatter", 1),
    "allreduce_": ("all_reduce", 0),
}


def listen(folder: Path) -> None:
    """Writes what rank 0 asks of the process group in one step: `[collective, bytes of the whole tensor]`."""
    import torch
    import torch.distributed as dist
    from torch.utils._python_dispatch import TorchDispatchMode

    from seatrial.train import loop

    asked: list[tuple[str, int]] = []

    class Listener(TorchDispatchMode):
        def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            space, _, name = str(operation).partition(".")
            if space == "c10d" and (known := COLLECTIVES.get(name.partition(".")[0])):
                whole = args[known[1]]
                tensors = whole if isinstance(whole, list | tuple) else [whole]
                asked.append(
                    (known[0], sum(t.numel() * t.element_size() for t in tensors if isinstance(t, torch.Tensor)))
                )
            return operation(*args, **(kwargs or {}))

    forward_backward = loop.forward_backward

    def heard(context: Any, state: Any, step: int) -> Any:
        if step != STEP or dist.get_rank():
            return forward_backward(context, state, step)
        with Listener():
            result = forward_backward(context, state, step)
        (folder / "asked.json").write_text(json.dumps(asked))
        return result

    loop.forward_backward = heard


@pytest.mark.parametrize(
    ("world", "workload"),
    [
        (2, {"strategy": "fsdp"}),
        (2, {"strategy": "fsdp-grad-op", "precision": "bf16"}),
        (2, {"strategy": "ddp"}),
        (4, {"strategy": "hsdp", "shard_degree": 2, "precision": "bf16"}),
    ],
    ids=lambda v: v["strategy"] if isinstance(v, dict) else str(v),
)
def test_messages_are_what_torch_sends(world: int, workload: dict[str, Any], tmp_path: Path) -> None:
    trial = quick(
        {"scaling": {"num_workers": world}},
        steps=3,
        checkpoint={"every": 3},
        measure={"warmup_steps": 1},
        micro_batch=2,
        **workload,
    )
    layout = gloo.run(trial, tmp_path / "runs", partial(listen, tmp_path))
    stream = read(layout.process(1, "rank-0"), "rank-0", layout.root.name)
    sharding = layer(stream, Sharding)
    assert sharding
    planned = Counter[tuple[str, int]]()
    for message in messages(sharding, plan(trial).micro_batches):
        planned[message.collective, message.size] += message.times
    assert Counter((name, size) for name, size in json.loads((tmp_path / "asked.json").read_text())) == planned
    assert planned
