"""Scores the tasks of a trial in one phase: each rank scores its own items, all ranks in lockstep."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from seatrial.canon import measured
from seatrial.errors import RunError
from seatrial.events.tasks import SAID, TaskScored
from seatrial.train import model as models
from seatrial.train.checkpoint import host_rng_state, set_host_rng_state
from seatrial.train.context import Context, on_all_ranks
from seatrial.train.shard import reshard
from seatrial.train.tasks.items import Item, Message, TaskFile, read_items
from seatrial.train.tasks.lockstep import continuations, in_lockstep, likelihoods
from seatrial.train.tasks.text import TextCodec, open_text, pair
from seatrial.trial.evaluation import Task

PART = 256  # items of a rank in one event: a sign of life, and a bound on the size of a line
Phase = Literal["before", "after", "base", "reload"]
ScoredItem = tuple[int, str, object, str, list[object]]


@dataclass(frozen=True)
class Scorer:
    """What scoring needs: the context of this rank, the model, and its text codec."""

    context: Context
    module: nn.Module
    text: TextCodec

    @property
    def longest(self) -> int:
        """Tokens that the model can see at once; a model that says nothing has no bound."""
        config = getattr(self.module, "config", None)
        return int(getattr(config, "max_position_embeddings", 0) or 1 << 30)

    def likelihoods(self, requests: Sequence[tuple[list[int], list[int]]], size: int) -> list[tuple[float, bool]]:
        return in_lockstep(self.module, self.context.device, likelihoods(requests, size))

    def continue_(
        self, prompts: Sequence[list[int]], size: int, most: Sequence[int], stops: Sequence[Sequence[str]]
    ) -> list[str | None]:
        """The texts of greedy answers, cut where they stop; None where logits were not finite."""

        def finished(at: int, said: list[int]) -> bool:
            return said[-1] in self.text.ends or any(stop in self.text.decode(said) for stop in stops[at])

        found = in_lockstep(self.module, self.context.device, continuations(prompts, size, most, finished))
        return [None if f is None else _cut(self.text.decode(f), stops[at]) for at, f in enumerate(found)]


def evaluate(context: Context, module: nn.Module, phase: Phase, step: int) -> None:
    """Writes the items of this rank for every task of the trial. All ranks call it together.

    Leaves weights, gradients and random generators as they were. Raises RunError, on all ranks, for a task that cannot
    be scored.
    """
    evaluation = context.trial.training.evaluate
    if evaluation is None:
        return
    work = context.trial.training
    scorer = Scorer(context, module, open_text(work.model, models.fetch(work.model)))
    kept, generator = host_rng_state(), torch.get_rng_state()
    module.eval()
    try:
        for task in evaluation.tasks:
            for event in _scored(scorer, task, phase, step):
                context.events.write(event)
    finally:
        module.train()
        reshard(module)  # a forward without a backward may leave whole parameters in the place of shards
        set_host_rng_state(kept)
        torch.set_rng_state(generator)


def _scored(scorer: Scorer, task: Task, phase: Phase, step: int) -> Iterator[TaskScored]:
    if task.lm_eval is not None:
        from seatrial.train.tasks.harness import score

        digest, metric, total, rows = score(scorer, task)
        found: Iterator[list[ScoredItem]] = (rows[start : start + PART] for start in range(0, max(1, len(rows)), PART))
        parts = max(1, -(-len(rows) // PART))
    else:
        file, requests = on_all_ranks(lambda: _prepared(scorer, task))
        digest, metric, total = file.digest, str(task.kind), len(file.items)
        mine = list(range(scorer.context.rank, total, scorer.context.world_size))
        parts = math.ceil(math.ceil(total / scorer.context.world_size) / PART)
        found = (_part(scorer, task, file, requests, mine[n * PART : (n + 1) * PART]) for n in range(parts))
    for number, items in enumerate(found, 1):
        yield TaskScored.model_validate(
            {
                "task": task.label,
                "metric": metric,
                "phase": phase,
                "step": step,
                "digest": digest,
                "total": total,
                "part": number,
                "parts": parts,
                "items": items,
            }
        )


def _prepared(scorer: Scorer, task: Task) -> tuple[TaskFile, list[list[tuple[list[int], list[int]]]]]:
    """Items with their requests: (prompt, nothing) to be continued, or a pair for each choice."""
    file = read_items(task)
    requests = [_requests(scorer.text, task, item) for item in file.items]
    more = task.longest_answer if task.kind == "exact_match" else 0
    for item, pairs in zip(file.items, requests, strict=True):
        length = max(len(a) + len(b) for a, b in pairs) + more
        if length > scorer.longest:
            raise RunError(
                f"{task.path}:{item.line}: {length} tokens{f' with {more} new ones' if more else ''}; expected at most"
                f" {scorer.longest}, the model's max_position_embeddings"
            )
    return file, requests


def _requests(text: TextCodec, task: Task, item: Item) -> list[tuple[list[int], list[int]]]:
    prompt = prompt_of(task, text, item)
    if task.kind == "multiple_choice":
        return [pair(text, prompt, choice) for choice in item.choices]
    return [(text.encode(prompt) or [text.ends[0]], [])]


def prompt_of(task: Task, text: TextCodec, item: Item) -> str:
    """The prompt as the model is given it."""
    return text.chat(_messages(item.prompt)) if task.chat else str(item.prompt)


def _messages(prompt: str | tuple[Message, ...]) -> list[Message]:
    return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)


def _part(scorer: Scorer, task: Task, file: TaskFile, requests: Any, mine: list[int]) -> list[ScoredItem]:
    """The items of one part, scored; every rank comes through here for each part."""
    if task.kind == "multiple_choice":
        return _chosen(scorer, task, file, requests, mine)
    prompts = [requests[at][0][0] for at in mine]
    answers = scorer.continue_(prompts, task.batch, [task.longest_answer] * len(mine), [task.stops] * len(mine))
    rows: list[ScoredItem] = []
    for at, said in zip(mine, answers, strict=True):
        item, answer = file.items[at], (said or "").strip()
        score = math.nan if said is None else float(answer in item.answers)
        rows.append((at, item.id, measured(score), answer[:SAID], []))
    return rows


def _chosen(scorer: Scorer, task: Task, file: TaskFile, requests: Any, mine: list[int]) -> list[ScoredItem]:
    """The choice of the largest summed log-probability; ties go to the lowest index."""
    flat = [pair for at in mine for pair in requests[at]]
    scores = iter(scorer.likelihoods(flat, task.batch))
    rows: list[ScoredItem] = []
    for at in mine:
        item = file.items[at]
        nats = [next(scores)[0] for _ in item.choices]
        if not all(map(math.isfinite, nats)):
            rows.append((at, item.id, measured(math.nan), "", [measured(n) for n in nats]))
            continue
        chosen = nats.index(max(nats))
        rows.append((at, item.id, float(chosen == item.right), str(chosen), [measured(n) for n in nats]))
    return rows


def _cut(said: str, stops: Sequence[str]) -> str:
    """The answer before the first stop."""
    ends = [at for stop in stops if (at := said.find(stop)) >= 0]
    return said[: min(ends, default=len(said))]
