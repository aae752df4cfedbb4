"""Makes the planned data again from its source, in a process that did not train: reads, tokenises and cuts it.

One thing is taken from the store that the ranks read: where the data is large, the lengths of documents that no planned
row touches. Those documents are not tokenised again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from seatrial.errors import RunError
from seatrial.events.schema import DataAudited
from seatrial.plan.order import row, step_digest
from seatrial.train.context import Context
from seatrial.train.data import Dataset
from seatrial.train.data.opening import open_store, recipe_of
from seatrial.train.data.source import content_digest, source_of
from seatrial.train.data.store import KnownLength, build
from seatrial.train.data.tokens import Split

AUDIT_STEPS = 2000
WHOLE = 1 << 24  # tokens up to which everything is tokenised again, as chat always is


@contextmanager
def recomputed(context: Context, used: Dataset) -> Iterator[Dataset]:
    """Makes the data of a trial again, in a temporary folder. Synthetic tokens have no source and stay."""
    if used.folder is None:
        yield used
        return
    source = source_of(context.trial.training.data)
    recipe = recipe_of(context, source, used.tokenizer)
    name = content_digest(source)
    whole = name != used.manifest or recipe.chat or len(used.train.tokens) <= WHOLE
    with tempfile.TemporaryDirectory(prefix="seatrial-audit-") as folder:
        try:
            build(recipe, Path(folder), None if whole else lengths(context, used))
        except OSError as error:
            raise RunError(f"the data could not be made again in {folder}: {error.strerror or error}") from error
        yield open_store(context, Path(folder), used.tokenizer, (used.source, name), source.manifest)


def lengths(context: Context, used: Dataset) -> KnownLength:
    """The length of each document that no planned row touches, as the store has it."""
    samples = min(used.rows, context.plan.steps * context.trial.training.global_batch)
    rows = {
        "train": [row(used.seed, index, used.rows) for index in range(samples)],
        "heldout": [used.window_row(number) for number in range(used.windows)],
    }
    touched = {split: _touched(getattr(used, split), numbers) for split, numbers in rows.items()}

    def known(split: str, document: int) -> int | None:
        flags = touched[split]
        if document >= len(flags) or flags[document]:
            return None
        starts = getattr(used, split).starts
        return int(starts[document + 1] - starts[document])

    return known


def _touched(split: Split, rows: list[int]) -> npt.NDArray[np.bool_]:
    """Says for each document whether one of `rows` has a token of it."""
    spans = np.asarray([split.span(number) for number in rows], dtype=np.int64)
    first = np.searchsorted(split.starts, spans[:, 0], side="right") - 1
    last = np.searchsorted(split.starts, spans[:, 1], side="left")
    # A difference array: its running sum counts the rows that touch each document, in memory of one number each.
    change = np.zeros(len(split.starts) + 1, dtype=np.int64)
    np.add.at(change, first, 1)
    np.add.at(change, last, -1)
    return np.cumsum(change)[: len(split.starts) - 1] > 0


def audit(context: Context, data: Dataset) -> Iterator[DataAudited]:
    """Digests of each step's planned samples over all ranks, and of all held-out windows."""
    batch, total = context.trial.training.global_batch, context.plan.steps
    windows = data.windows_digest()
    for first in range(0, total, AUDIT_STEPS):
        steps: list[str] = []
        counted: list[int] = []
        for step in range(first, min(first + AUDIT_STEPS, total)):
            samples = {index: data.sample(index) for index in range(step * batch, (step + 1) * batch)}
            steps.append(step_digest([(index, sample.digest) for index, sample in samples.items()]))
            counted.append(sum(sample.counted for sample in samples.values()))
        yield DataAudited(manifest=data.manifest, first=first + 1, steps=steps, counted=counted, windows=windows)
