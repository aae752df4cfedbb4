"""The tokenised store: built once from a source, named by the digest of what it is made of, read by memory mapping.

A folder holds for each split `tokens`, `starts` (first token of each document, and the end) and with chat `answers`
(1 where the assistant speaks) and `rows` (first document of each row, and the end); `pairs` counts the bytes of the
train split. `index.json` is written last and names every file with size and digest; `index.sha256` is its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from seatrial.canon import canonical, digest, parse, sha256
from seatrial.train.data.bigrams import BigramCounts
from seatrial.train.data.rows import TOO_LONG, BadRows, Row
from seatrial.train.data.source import SPLITS, Source, content_digest
from seatrial.train.data.tokenizer import Tokenizer, identity

FORMAT = 1
INDEX, SEAL = "index.json", "index.sha256"
BATCH_BYTES = 1 << 20  # of text that is tokenised at once
KnownLength = Callable[[str, int], int | None]  # split, document -> its length if it need not be tokenised


@dataclass(frozen=True)
class Recipe:
    """Everything that a store is made of; its digest is the store's name."""

    source: Source
    tokenizer: Tokenizer
    chat: bool
    sequence_length: int
    max_bad_rows: int

    @property
    def content(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "data": content_digest(self.source),
            "tokenizer": identity(self.tokenizer),
            "chat": {"sequence_length": self.sequence_length} if self.chat else None,
        }

    @property
    def key(self) -> str:
        return digest(self.content).removeprefix("sha256:")[:32]

    @property
    def dtype(self) -> str:
        largest = self.tokenizer.vocabulary - 1
        return "<u1" if largest < 1 << 8 else "<u2" if largest < 1 << 16 else "<u4"


@dataclass
class _Sink:
    """One file of a store: hashed and counted as it is written."""

    file: IO[bytes]
    size: int = 0
    hashed: Any = field(default_factory=hashlib.sha256)

    def write(self, data: bytes) -> None:
        self.file.write(data)
        self.hashed.update(data)
        self.size += len(data)

    def skip(self, size: int) -> None:
        """Leaves a hole, which takes no room on disk. The digest of such a file means nothing."""
        self.file.truncate(self.file.tell() + size)
        self.file.seek(size, 1)
        self.size += size


class _SplitWriter:
    """Writes one split of a store, document by document."""

    def __init__(self, folder: Path, split: str, recipe: Recipe):
        names = ["tokens", "starts", *(["answers", "rows"] if recipe.chat else [])]
        self.sinks = {f"{split}.{name}": _Sink((folder / f"{split}.{name}").open("wb")) for name in names}
        self._split, self._dtype, self._room = split, recipe.dtype, recipe.sequence_length + 1
        self.tokens = self.documents = self.truncated = self.rows = self.largest = 0
        self.inside, self._filled = False, self._room  # a first row is opened by the first conversation

    def add(self, ids: npt.NDArray[Any], more: bool, end: int) -> None:
        """A document or a piece of one; the last piece is closed by the end-of-text token."""
        self._begin()
        self._put(ids if more else np.append(ids, end))
        self.inside = more

    def skip(self, length: int) -> None:
        """A document that need not be tokenised: a hole of its length, in tokens."""
        self._begin()
        self.sinks[f"{self._split}.tokens"].skip(length * np.dtype(self._dtype).itemsize)
        self.tokens += length

    def add_conversation(self, ids: npt.NDArray[Any], answers: npt.NDArray[np.bool_]) -> None:
        """A conversation of at most a row, in the row that is open if it fits, else in a new one."""
        if self._filled + len(ids) > self._room:
            self._write("rows", np.asarray([self.documents], dtype="<i8"))
            self.rows, self._filled = self.rows + 1, 0
        self._begin()
        self._put(ids)
        self._write("answers", answers.astype(np.uint8))
        self._filled += len(ids)

    def close(self) -> None:
        """Writes the ends of the last document and of the last row, and closes the files."""
        self._write("starts", np.asarray([self.tokens], dtype="<i8"))
        if f"{self._split}.rows" in self.sinks:
            self._write("rows", np.asarray([self.documents], dtype="<i8"))
        for sink in self.sinks.values():
            sink.file.close()

    def _begin(self) -> None:
        if not self.inside:
            self._write("starts", np.asarray([self.tokens], dtype="<i8"))
            self.documents += 1

    def _put(self, ids: npt.NDArray[Any]) -> None:
        self.largest = max(self.largest, int(ids.max(initial=0)))
        self._write("tokens", ids.astype(self._dtype))
        self.tokens += len(ids)

    def _write(self, name: str, values: npt.NDArray[Any]) -> None:
        self.sinks[f"{self._split}.{name}"].write(values.tobytes())


def build(recipe: Recipe, folder: Path, known: KnownLength | None = None) -> None:
    """Writes a store into an empty folder. Raises RunError for more bad rows than the trial allows.

    `known` gives the length of a document that need not be tokenised: an audit needs only some.
    """
    bad, bigrams = BadRows(recipe.max_bad_rows), BigramCounts()
    splits = {split: _SplitWriter(folder, split, recipe) for split in SPLITS}
    for split, writer in splits.items():
        counted = bigrams if split == "train" else None
        fill = _conversations if recipe.chat else _texts
        fill(recipe, split, writer, bad, counted, known)
        writer.close()
    bad.refuse()
    table = bigrams.table().tobytes()
    (folder / "pairs").write_bytes(table)
    sinks = {name: sink for writer in splits.values() for name, sink in writer.sinks.items()}
    files = {name: {"size": s.size, "sha256": "sha256:" + s.hashed.hexdigest()} for name, s in sinks.items()}
    index = {
        **recipe.content,
        "dtype": recipe.dtype,
        "bad": {"counts": bad.counts, "named": bad.named},
        "splits": {split: _statistics(writer) for split, writer in splits.items()},
        "files": {**files, "pairs": {"size": len(table), "sha256": sha256(table)}},
    }
    data = canonical(index)
    (folder / INDEX).write_bytes(data)
    (folder / SEAL).write_text(sha256(data))


def _statistics(writer: _SplitWriter) -> dict[str, int]:
    names = ("documents", "tokens", "rows", "truncated", "largest")
    return {name: int(getattr(writer, name)) for name in names}


def _texts(
    recipe: Recipe,
    split: str,
    writer: _SplitWriter,
    bad: BadRows,
    bigrams: BigramCounts | None,
    known: KnownLength | None,
) -> None:
    """Text: every document as it comes, tokenised in batches of about a megabyte."""
    end = recipe.tokenizer.end
    for batch in _batches(_good(recipe.source.rows(split), bad)):
        if bad.exceeded:
            continue  # the others are still counted: the message says what the limit would have to be
        if bigrams:
            bigrams.add([row.value if row.more else row.value + b"\x00" for row in batch])
        wanted = _lengths(batch, split, writer, known)
        coded = iter(recipe.tokenizer.encode([r.value for r, n in zip(batch, wanted, strict=True) if n is None]))
        for row, length in zip(batch, wanted, strict=True):
            if length is None:
                writer.add(next(coded), row.more, end)
            elif length >= 0:
                writer.skip(length)


def _lengths(batch: list[Row], split: str, writer: _SplitWriter, known: KnownLength | None) -> list[int | None]:
    """For each row of a batch the known length of its document, -1 for its further pieces, None to tokenise it."""
    if known is None:
        return [None] * len(batch)
    number, inside = writer.documents - 1, writer.inside
    length: int | None = known(split, number) if inside else None
    found: list[int | None] = []
    for row in batch:
        if not inside:
            number += 1
            length = known(split, number)
        found.append(-1 if inside and length is not None else length)
        inside = row.more
    return found


def _conversations(
    recipe: Recipe,
    split: str,
    writer: _SplitWriter,
    bad: BadRows,
    bigrams: BigramCounts | None,
    known: KnownLength | None,
) -> None:
    """Chat: whole conversations, packed next-fit into rows; one longer than a row loses its end."""
    room = recipe.sequence_length + 1
    for row in _good(recipe.source.rows(split), bad):
        if bad.exceeded:
            continue
        said = recipe.tokenizer.conversation(row.value)
        if said.ids is None or said.answers is None:
            bad.add(row, said.problem, said.detail)
            continue
        ids, answers = said.ids[:room], said.answers[:room].copy()
        answers[0] = False  # nothing comes before it to predict it from
        if not answers.any():
            bad.add(row, TOO_LONG, f"{len(said.ids)} tokens")
            continue
        writer.truncated += len(said.ids) > room
        writer.add_conversation(ids, answers)
        if bigrams:
            bigrams.add([before + after for before, after in counted_runs(recipe.tokenizer, ids, answers)])


def counted_runs(
    tokenizer: Tokenizer, tokens: npt.NDArray[Any], counted: npt.NDArray[np.bool_]
) -> Iterator[tuple[bytes, bytes]]:
    """The runs of counted tokens as bytes: the last byte before each run (NUL if there is none), and the run's."""
    edges = np.flatnonzero(np.diff(counted.astype(np.int8), prepend=0, append=0))
    for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        before = tokenizer.to_bytes(np.asarray(tokens[max(0, start - 1) : start], dtype=np.int64))
        yield before[-1:] or b"\x00", tokenizer.to_bytes(np.asarray(tokens[start:stop], dtype=np.int64))


def _good(rows: Iterator[Row], bad: BadRows) -> Iterator[Row]:
    for row in rows:
        if row.problem:
            bad.add(row, row.problem, row.detail)
        else:
            yield row


def _batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += len(row.value)
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def read_index(folder: Path) -> dict[str, Any] | None:
    """The index of a complete store; None if there is none, or if index or sizes are not as they were written."""
    try:
        data = (folder / INDEX).read_bytes()
        if (folder / SEAL).read_text() != sha256(data):
            return None
        index: dict[str, Any] = parse(data)
        whole = all((folder / name).stat().st_size == file["size"] for name, file in index["files"].items())
    except (OSError, ValueError, KeyError):
        return None
    return index if whole else None
