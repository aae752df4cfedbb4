"""Data for tests: small datasets through the real store, and files of each format."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from seatrial.train.data import store
from seatrial.train.data.opening import map_store
from seatrial.train.data.source import content_digest, source_of
from seatrial.train.data.tokenizer import ByteTokenizer
from seatrial.train.data.tokens import Dataset
from seatrial.trial.data import Data


def files(root: Path, train: list[bytes], heldout: list[bytes]) -> Data:
    """Text files, one a document."""
    for split, documents in (("train", train), ("heldout", heldout)):
        (root / split).mkdir(parents=True)
        for number, document in enumerate(documents):
            (root / split / f"{number:03}.txt").write_bytes(document)
    return Data(train=str(root / "train"), heldout=str(root / "heldout"))


def recipe(data: Data, length: int) -> store.Recipe:
    """A store of byte tokens."""
    return store.Recipe(source_of(data), ByteTokenizer(), data.chat, length, data.max_bad_rows)


def dataset(train: list[bytes], heldout: list[bytes], length: int, windows: int = 2) -> Dataset:
    """Documents through the real store; its folder is gone once the process has mapped it."""
    with tempfile.TemporaryDirectory() as folder:
        made = recipe(files(Path(folder), train, heldout), length)
        place = Path(folder) / "store"
        place.mkdir()
        store.build(made, place)
        source = ("text", content_digest(made.source))
        return map_store(place, made.tokenizer, source, made.source.manifest, length, 7, windows, 0)


def jsonl(path: Path, rows: list[Any]) -> Path:
    """One line a row; a `bytes` row is written as it is."""
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    data = b"".join(line + b"\n" for line in lines)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def parquet(path: Path, columns: dict[str, list[Any]]) -> Path:
    """A Parquet file of these columns."""
    import pyarrow
    from pyarrow import parquet as format

    format.write_table(pyarrow.table(columns), path)
    return path


def text_of(tokens: Any) -> bytes:
    """Byte tokens as bytes."""
    return np.asarray(tokens).astype(np.uint8).tobytes()
