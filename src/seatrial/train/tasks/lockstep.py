"""Forwards of a model that is sharded over ranks: each is a collective, so all ranks make the same number of them.

Rows of a batch are padded on the right and carry no mask: a causal model's logits at a position do not see what
follows it, so padding cannot reach a result. Only the order of additions inside a matrix product depends on the shape.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

T = TypeVar("T")
Work = Generator[Tensor, Tensor, T]  # yields token ids (batch, length), is sent logits (batch, length, vocabulary)


@torch.no_grad()
def in_lockstep(model: nn.Module, device: torch.device, work: Work[T]) -> T:
    """The result of this rank's work. All ranks call it together; one that is done forwards a token for the others."""
    wanted, result = _advance(partial(next, work))
    idle = torch.zeros((1, 1), dtype=torch.int64)
    while _any_rank(wanted is not None, device):
        rows = idle if wanted is None else wanted
        logits = model(input_ids=rows.to(device), use_cache=False).logits
        if wanted is not None:
            wanted, result = _advance(partial(work.send, logits))
    done: T = result
    return done


def _advance(step: Callable[[], Tensor]) -> tuple[Tensor | None, Any]:
    """What is to be forwarded next, or nothing and the result."""
    try:
        return step(), None
    except StopIteration as end:
        return None, end.value


def _any_rank(busy: bool, device: torch.device) -> bool:
    flag = torch.tensor([int(busy)], dtype=torch.int32, device=device)
    if dist.is_initialized():
        dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    return bool(flag.item())


def by_length(lengths: Sequence[int], size: int) -> list[list[int]]:
    """Positions in batches of `size`, the shortest first, so that little is padded."""
    order = sorted(range(len(lengths)), key=lambda at: (lengths[at], at))
    return [order[start : start + size] for start in range(0, len(order), size)]


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    """Rows of token ids as (batch, longest), int64, padded on the right."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *([0] * (longest - len(row)))] for row in rows], dtype=torch.int64)


def likelihoods(requests: Sequence[tuple[list[int], list[int]]], size: int) -> Work[list[tuple[float, bool]]]:
    """For each (context, continuation), neither empty: summed log-probability in nats, and whether greedy decoding
    would say the continuation."""
    found: list[tuple[float, bool]] = [(0.0, False)] * len(requests)
    for batch in by_length([len(a) + len(b) for a, b in requests], size):
        logits = yield padded([[*requests[at][0], *requests[at][1]][:-1] for at in batch])
        for row, at in enumerate(batch):
            context, continuation = requests[at]
            first = len(context) - 1
            scores = logits[row, first : first + len(continuation)].float().log_softmax(dim=-1)
            wanted = torch.tensor(continuation, device=scores.device)[:, None]
            greedy = _lowest_best(scores) == wanted[:, 0]
            found[at] = float(scores.gather(1, wanted).double().sum()), bool(greedy.all())
    return found


def continuations(
    prompts: Sequence[list[int]], size: int, most: Sequence[int], finished: Callable[[int, list[int]], bool]
) -> Work[list[list[int] | None]]:
    """What greedy decoding adds to each prompt, up to `most` tokens or until `finished(position, tokens)`.

    None where the logits were not finite. Ties go to the lowest token.
    """
    found: list[list[int] | None] = [[] for _ in prompts]
    for batch in by_length([len(prompt) for prompt in prompts], size):
        open_rows = list(batch)
        while open_rows:
            rows = [[*prompts[at], *(found[at] or [])] for at in open_rows]
            logits = yield padded(rows)
            last = torch.stack([logits[row, len(tokens) - 1] for row, tokens in enumerate(rows)]).float()
            still = []
            for at, token in zip(open_rows, _lowest_best(last).tolist(), strict=True):
                said = found[at]
                if said is None or token < 0:
                    found[at] = None
                    continue
                said.append(token)
                if len(said) < most[at] and not finished(at, said):
                    still.append(at)
            open_rows = still
    return found


def _lowest_best(scores: Tensor) -> Tensor:
    """The lowest index of the largest score in each row of (rows, vocabulary); -1 where one is not a number."""
    best = scores.amax(dim=-1, keepdim=True)
    numbers = torch.arange(scores.shape[-1], device=scores.device).expand_as(scores)
    lowest = torch.where(scores == best, numbers, scores.shape[-1]).amin(dim=-1)
    return torch.where(lowest == scores.shape[-1], -1, lowest)
