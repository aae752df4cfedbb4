"""Tokens: documents packed into one stream, cut into rows; row order is `plan.order`'s.

A row is `sequence_length + 1` tokens: inputs are all but the last, targets all but the first. Byte tokens are the bytes
themselves, with NUL between documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from seatrial.canon import file_digest
from seatrial.errors import RunError
from seatrial.plan.order import row
from seatrial.train.data.source import Documents, python_stdlib, text
from seatrial.trial import Trial

Tokens = npt.NDArray[np.int64]
SYNTHETIC_TOKENS = 1 << 20
SEPARATOR = b"\x00"


class Tokenizer(Protocol):
    """What this module needs of a tokenizer."""

    name: str
    files: dict[str, str]

    def encode(self, documents: list[bytes]) -> npt.NDArray[Any]: ...
    def to_bytes(self, tokens: Tokens) -> bytes: ...


class ByteTokenizer:
    """256 tokens; nothing to download, nothing to disagree about."""

    name = "bytes"

    def __init__(self) -> None:
        self.files: dict[str, str] = {}

    def encode(self, documents: list[bytes]) -> npt.NDArray[Any]:
        return np.frombuffer(SEPARATOR.join(documents) + SEPARATOR, dtype=np.uint8)

    def to_bytes(self, tokens: Tokens) -> bytes:
        return tokens.astype(np.uint8).tobytes()


class ModelTokenizer:
    """The tokenizer in the model's folder; documents are UTF-8, separated by its end-of-text token."""

    def __init__(self, folder: Path):
        from transformers import AutoTokenizer

        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self.name = f"{type(self._tokenizer).__name__}/{len(self._tokenizer)}"
        self.files = {p.name: file_digest(p) for p in sorted(folder.glob("*token*")) if p.is_file()}
        self._end = self._tokenizer.eos_token_id
        if self._end is None:
            raise RunError(f"the tokenizer in {folder} has no end-of-text token to separate documents with")

    def encode(self, documents: list[bytes]) -> npt.NDArray[Any]:
        end = [self._end]
        parts = [
            self._tokenizer(d.decode("utf-8", "replace"), add_special_tokens=False)["input_ids"] + end
            for d in documents
        ]
        return np.concatenate([np.asarray(part, dtype=np.int32) for part in parts])

    def to_bytes(self, tokens: Tokens) -> bytes:
        """The text, with NUL for the end-of-text token: the bytes that the baselines were fitted on."""
        parts = np.split(tokens, np.flatnonzero(tokens == self._end))
        texts = [part[1:] if number else part for number, part in enumerate(parts)]
        return SEPARATOR.join(self._decode(text.tolist()) for text in texts)

    def _decode(self, ids: list[int]) -> bytes:
        return str(self._tokenizer.decode(ids, clean_up_tokenization_spaces=False)).encode("utf-8")


@dataclass(frozen=True)
class Dataset:
    """Everything a rank reads. `train` and `heldout` are 1-D streams; `documents` is None for synthetic tokens."""

    source: str
    manifest: str
    tokenizer: Tokenizer
    train: npt.NDArray[Any]
    heldout: npt.NDArray[Any]
    sequence_length: int
    seed: int
    windows: int
    documents: Documents | None = None

    @property
    def rows(self) -> int:
        return (len(self.train) - 1) // self.sequence_length

    @property
    def heldout_rows(self) -> int:
        return (len(self.heldout) - 1) // self.sequence_length

    def sample(self, index: int) -> Tokens:
        """Tokens of global sample `index`, shape (sequence_length + 1,)."""
        return self._cut(self.train, row(self.seed, index, self.rows))

    def window(self, number: int) -> Tokens:
        """Tokens of held-out window `number`, shape (sequence_length + 1,); windows are spread evenly."""
        return self._cut(self.heldout, number * self.heldout_rows // self.windows)

    def window_bytes(self, number: int) -> tuple[bytes, bytes]:
        """The bytes before the targets (at least one), and the bytes of the targets of a window."""
        tokens = self.window(number)
        return self.tokenizer.to_bytes(tokens[:1]) or SEPARATOR, self.tokenizer.to_bytes(tokens[1:])

    def _cut(self, stream: npt.NDArray[Any], at: int) -> Tokens:
        start = at * self.sequence_length
        return stream[start : start + self.sequence_length + 1].astype(np.int64)


def open_data(trial: Trial, model_folder: Path | None, vocabulary: int) -> Dataset:
    """The dataset of a trial on this host. Raises RunError if it is too small to train or to score on."""
    data, work = trial.workload.data, trial.workload
    if data.synthetic:
        return _checked(_synthetic(trial, vocabulary))
    documents = python_stdlib() if data.corpus else text(Path(data.train or ""), Path(data.heldout or ""))
    tokenizer: Tokenizer = ByteTokenizer() if work.model.tokens_are_bytes else ModelTokenizer(model_folder or Path())
    train, heldout = tokenizer.encode(documents.train), tokenizer.encode(documents.heldout)
    largest = int(max(train.max(initial=0), heldout.max(initial=0)))
    if largest >= vocabulary:
        raise RunError(
            f"the data has token {largest}, the model's vocabulary ends at {vocabulary - 1}; raise vocab_size"
        )
    windows = min(data.heldout_windows, (len(heldout) - 1) // work.sequence_length)
    return _checked(
        Dataset(
            documents.source,
            documents.digest,
            tokenizer,
            train,
            heldout,
            work.sequence_length,
            work.seed,
            windows,
            documents,
        )
    )


def _synthetic(trial: Trial, vocabulary: int) -> Dataset:
    work = trial.workload
    streams = [
        np.random.Generator(np.random.Philox(key=[work.seed, part])).integers(0, vocabulary, SYNTHETIC_TOKENS)
        for part in (0, 1)
    ]
    name = f"synthetic:random-tokens/{vocabulary}/{work.seed}"
    return Dataset(
        name, name, ByteTokenizer(), streams[0], streams[1], work.sequence_length, work.seed, work.data.heldout_windows
    )


def _checked(data: Dataset) -> Dataset:
    for split, rows in (("train", data.rows), ("heldout", data.heldout_rows)):
        if rows < 1:
            raise RunError(f"{split} has fewer tokens than one row of sequence_length = {data.sequence_length}")
    return data
