"""Finds items in the training tokens: a model that was trained on the answers is graded on its memory.

An item is its prompt and right answer. Its last 64 tokens are looked for, or the last 32 or 16 of a shorter one. An
item of fewer than 16 tokens is not compared: chance and idiom would look like copies.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from seatrial.events.tasks import TaskOverlap
from seatrial.train import model as models
from seatrial.train.context import Context
from seatrial.train.data import Dataset, overlap
from seatrial.train.tasks.items import Item, read_items
from seatrial.train.tasks.score import prompt_of
from seatrial.train.tasks.text import TextCodec, open_text
from seatrial.trial.evaluation import Task

SIZES = (64, 32, 16)
MOST_NAMED = 100
_CHUNK = 1 << 20


def overlaps(context: Context, data: Dataset) -> Iterator[TaskOverlap]:
    """One event for each task of prompts; none where the training tokens are random."""
    work = context.trial.training
    if data.bigrams is None or work.evaluate is None:
        return
    text = open_text(work.model, models.fetch(work.model))
    for task in work.evaluate.tasks:
        if task.lm_eval is None:
            yield _overlap(task, text, data)


def _overlap(task: Task, text: TextCodec, data: Dataset) -> TaskOverlap:
    file = read_items(task)
    endings = [[_ending(text.encode(told)) for told in _tellings(task, text, item)] for item in file.items]
    wanted = [ending for some in endings for ending in some if ending]
    found = found_in(data.train.tokens, wanted)
    suspect = [item.id for item, some in zip(file.items, endings, strict=True) if any(e in found for e in some)]
    return TaskOverlap(
        task=task.label,
        digest=file.digest,
        compared=sum(any(some) for some in endings),
        too_short=sum(not any(some) for some in endings),
        found=len(suspect),
        suspect=suspect[:MOST_NAMED],
    )


def _tellings(task: Task, text: TextCodec, item: Item) -> list[str]:
    """The item as a text would tell it: the right answer right after the prompt, or after a space."""
    prompt = prompt_of(task, text, item)
    if task.kind == "multiple_choice":
        return [prompt + item.choices[item.right]]
    return [prompt + space + answer for answer in item.answers for space in ("", " ")]


def _ending(tokens: list[int]) -> tuple[int, ...]:
    size = next((size for size in SIZES if len(tokens) >= size), 0)
    return tuple(tokens[-size:]) if size else ()


def found_in(stream: npt.NDArray[np.generic], wanted: list[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """Those of the endings that a 1-D stream of tokens has, by a 64-bit hash of every n-gram of their lengths."""
    found: set[tuple[int, ...]] = set()
    for size in SIZES:
        mine = [ending for ending in wanted if len(ending) == size]
        if not mine or len(stream) < size:
            continue
        hashes = np.array([overlap.hashes(np.array(ending), size)[0] for ending in mine])
        known = np.unique(hashes)
        hit = np.zeros(len(known), dtype=bool)
        for start in range(0, len(stream), _CHUNK):
            part = stream[start : start + _CHUNK + size - 1]
            if len(part) >= size:
                seen = overlap.hashes(part, size)
                at = np.minimum(np.searchsorted(known, seen), len(known) - 1)
                hit[at[known[at] == seen]] = True
        there = set(known[hit].tolist())
        found |= {ending for ending, value in zip(mine, hashes.tolist(), strict=True) if value in there}
    return found
