"""What a rank reads: rows of tokens in which documents stay apart, in the order of `plan.order`.

A row is `sequence_length + 1` tokens: inputs are all but the last, targets all but the first. Text is one stream of
documents cut into rows; a chat row is whole conversations and a rest of padding. Positions restart at each document,
which is what keeps a model from looking across; a target that nothing before it in its document predicts is IGNORED.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from seatrial.errors import RunError
from seatrial.plan.order import row, sample_digest
from seatrial.train.data.store import counted_runs
from seatrial.train.data.tokenizer import ByteTokenizer, Tokenizer, Tokens

if TYPE_CHECKING:
    import torch

IGNORED = -100  # a target that does not count, as torch's cross entropy has it
SYNTHETIC_TOKENS = 1 << 20


@dataclass(frozen=True)
class Sample:
    """One row as forward gets it: each of shape (sequence_length,), int64."""

    inputs: Tokens
    targets: Tokens
    positions: Tokens

    @property
    def counted(self) -> int:
        """Targets that count."""
        return int((self.targets != IGNORED).sum())

    @property
    def digest(self) -> str:
        """What the step events and the audit compare."""
        return sample_digest(*(part.astype("<i4").tobytes() for part in (self.inputs, self.targets, self.positions)))


def stacked(samples: list[Sample]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Inputs, targets and positions, each (len(samples), sequence_length), int64."""
    import torch

    parts = ([sample.inputs for sample in samples], [s.targets for s in samples], [s.positions for s in samples])
    inputs, targets, positions = (torch.from_numpy(np.stack(part)) for part in parts)
    return inputs, targets, positions


@dataclass(frozen=True)
class Split:
    """One stream of documents. `starts` are the first tokens of documents, then the end of the stream.

    Chat has `answers`, 1 for what counts, and `first`: the first document of each row, then the number of documents.
    """

    tokens: npt.NDArray[Any]
    starts: npt.NDArray[np.int64]
    sequence_length: int
    answers: npt.NDArray[np.uint8] | None = None
    first: npt.NDArray[np.int64] | None = None

    @property
    def rows(self) -> int:
        return (len(self.tokens) - 1) // self.sequence_length if self.first is None else len(self.first) - 1

    def span(self, number: int) -> tuple[int, int]:
        """First token of a row, and the end."""
        if self.first is None:
            start = number * self.sequence_length
            return start, start + self.sequence_length + 1
        return int(self.starts[self.first[number]]), int(self.starts[self.first[number + 1]])

    def counted(self, number: int) -> int:
        """Targets of a row that count, without reading its tokens."""
        start, stop = self.span(number)
        if self.answers is not None:
            return int(self.answers[start:stop].sum())
        return self.sequence_length - len(self._inner_starts(start, stop))

    def counted_in_all(self) -> int:
        """Targets that count, of all rows."""
        if self.answers is not None:
            return sum(int(self.answers[at : at + (1 << 24)].sum()) for at in range(0, len(self.answers), 1 << 24))
        read = max(0, self.rows) * self.sequence_length
        return read - len(self._inner_starts(0, read + 1))

    def sample(self, number: int) -> Sample:
        """A row, with its positions and the targets that count."""
        start, stop = self.span(number)
        room = self.sequence_length + 1
        tokens, begins = np.zeros(room, dtype=np.int64), np.zeros(room, dtype=bool)
        counts = np.zeros(room, dtype=bool)
        tokens[: stop - start] = self.tokens[start:stop]
        counts[: stop - start] = True if self.answers is None else self.answers[start:stop]
        begins[self._inner_starts(start, stop) - start] = True
        begins[stop - start : stop - start + 1] = True  # padding, if any, is a document of its own
        at = np.arange(room)
        positions = at - np.maximum.accumulate(np.where(begins, at, 0))
        targets = np.where(counts & ~begins, tokens, IGNORED)
        return Sample(tokens[:-1], targets[1:], positions[:-1])

    def _inner_starts(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Starts of documents within a row, beyond its own."""
        low, high = np.searchsorted(self.starts, [start + 1, stop])
        return np.asarray(self.starts[low:high])


@dataclass(frozen=True)
class StoreStatistics:
    """Figures of a store: counts of documents, of targets and of bad rows, and the largest token."""

    documents: int = 0  # of train
    counted: int = 0  # targets of all rows of train
    truncated: int = 0
    largest: int = 0  # token id
    bad: dict[str, int] = field(default_factory=dict)
    named: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dataset:
    """Everything a rank reads. `bigrams` counts adjacent bytes of train; None for synthetic tokens."""

    source: str
    manifest: str  # digest
    tokenizer: Tokenizer
    train: Split
    heldout: Split
    seed: int
    windows: int
    bigrams: npt.NDArray[np.int64] | None = None
    content: dict[str, Any] = field(default_factory=dict)  # the manifest itself, where this process read the source
    statistics: StoreStatistics = StoreStatistics()
    folder: Path | None = None

    @property
    def sequence_length(self) -> int:
        return self.train.sequence_length

    @property
    def rows(self) -> int:
        return self.train.rows

    def sample(self, index: int) -> Sample:
        """Global sample `index`."""
        return self.train.sample(row(self.seed, index, self.rows))

    def counted(self, indices: range) -> int:
        """Targets that count in these global samples: what the loss of a step is divided by, on every rank."""
        return sum(self.train.counted(row(self.seed, index, self.rows)) for index in indices)

    def window_row(self, number: int) -> int:
        """The held-out row of window `number`; windows are spread evenly."""
        return number * self.heldout.rows // self.windows

    def window(self, number: int) -> Sample:
        """Held-out window `number`."""
        return self.heldout.sample(self.window_row(number))

    def window_bytes(self, number: int) -> Iterator[tuple[bytes, bytes]]:
        """The runs of counted targets of a window: the byte before each, and its bytes."""
        window = self.window(number)
        tokens = np.append(window.inputs, max(0, int(window.targets[-1])))
        yield from counted_runs(self.tokenizer, tokens, np.append(False, window.targets != IGNORED))

    def windows_digest(self) -> str:
        """One digest of all held-out windows as they are scored."""
        text = "\n".join(self.window(number).digest for number in range(self.windows))
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def synthetic(seed: int, sequence_length: int, windows: int, vocabulary: int) -> Dataset:
    """Random tokens, one document a split: they stand for no text."""
    splits = [
        np.random.Generator(np.random.Philox(key=[seed, part])).integers(0, vocabulary, SYNTHETIC_TOKENS)
        for part in (0, 1)
    ]
    name = f"synthetic:random-tokens/{vocabulary}/{seed}"
    train, heldout = (Split(s, np.asarray([0, len(s)]), sequence_length) for s in splits)
    return checked(Dataset(name, name, ByteTokenizer(), train, heldout, seed, windows))


def checked(data: Dataset) -> Dataset:
    """`data`. Raises RunError if it is too small to train or to score on."""
    for name, split in (("train", data.train), ("heldout", data.heldout)):
        if split.rows < 1:
            raise RunError(f"{name} has fewer tokens than one row of sequence_length = {data.sequence_length}")
    return data
