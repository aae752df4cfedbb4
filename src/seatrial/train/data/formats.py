"""Files to rows: text, JSON lines (plain or gzip) and Parquet, each read in pieces of bounded size."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from seatrial.errors import RunError, shown
from seatrial.train.data.rows import EMPTY, NO_FIELD, NOT_JSON, NOT_UTF8, WRONG_TYPE, Row

SUFFIXES = {"jsonl": (".jsonl", ".jsonl.gz"), "parquet": (".parquet",)}
PIECE = 4 << 20  # bytes of a text file that are tokenised at once, to the next end of a line
BATCH = 512  # rows of a Parquet file that are in memory


def format_of(path: Path) -> str:
    """The format that a file's name says; a name that says nothing is text."""
    return next((name for name, endings in SUFFIXES.items() if path.name.endswith(endings)), "text")


def read(path: Path, name: str, form: str, column: str, chat: bool) -> Iterator[Row]:
    """The rows of one file. Raises RunError for a file that is not of its format."""
    try:
        if form == "text":
            yield from _text(path, name)
        elif form == "jsonl":
            yield from _jsonl(path, name, column, chat)
        else:
            yield from _parquet(path, name, column, chat)
    except (OSError, EOFError, zlib.error) as error:
        raise RunError(f"workload.data: {path} cannot be read as {form}: {error}") from error


def _text(path: Path, name: str) -> Iterator[Row]:
    """One document a file. A large file comes in pieces that end with a line; an empty file is no document."""
    if line := _not_utf8(path):
        yield Row(f"{name}:{line}", problem=NOT_UTF8)
        return
    with path.open("rb") as file:
        piece = file.read(PIECE) + file.readline()
        while piece:
            following = file.read(PIECE) + file.readline()
            yield Row(name, piece, more=bool(following))
            piece = following


def _not_utf8(path: Path) -> int:
    """The first line that is not UTF-8, 0 if there is none."""
    with path.open("rb") as file:
        number = 1
        while lines := file.readlines(PIECE):
            try:
                b"".join(lines).decode("utf-8")
            except UnicodeDecodeError as error:
                return number + error.object.count(b"\n", 0, error.start)
            number += len(lines)
    return 0


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    with gzip.open(path, "rb") if path.name.endswith(".gz") else path.open("rb") as file:
        yield file  # type: ignore[misc]


def _jsonl(path: Path, name: str, column: str, chat: bool) -> Iterator[Row]:
    """One JSON object a line; blank lines are skipped."""
    with _opened(path) as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield _row(f"{name}:{number}", line, column, chat)


def _row(place: str, line: bytes, column: str, chat: bool) -> Row:
    try:
        document = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return Row(place, problem=NOT_UTF8)
    except (ValueError, RecursionError) as error:
        return Row(place, problem=NOT_JSON, detail=str(error))
    if not isinstance(document, dict):
        return Row(place, problem=WRONG_TYPE, detail=f"saw {shown(document)}, expected a map")
    if column not in document:
        return Row(place, problem=NO_FIELD, detail=column)
    return checked(place, document[column], chat)


def _parquet(path: Path, name: str, column: str, chat: bool) -> Iterator[Row]:
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            if column not in file.schema_arrow.names:
                there = ", ".join(file.schema_arrow.names)
                raise RunError(f"workload.data.field: {path} has no column {column}; expected one of {there}")
            number = 0
            for batch in file.iter_batches(batch_size=BATCH, columns=[column]):
                for value in batch.column(0).to_pylist():
                    number += 1
                    yield checked(f"{name}:{number}", value, chat)
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:
        raise RunError(f"workload.data: {path} cannot be read as parquet: {str(error).splitlines()[0]}") from error


def checked(place: str, value: Any, chat: bool) -> Row:
    """The row of a value, or the problem with it."""
    if value is None:
        return Row(place, problem=EMPTY)
    if chat:
        return _conversation(place, value)
    if not isinstance(value, str):
        return Row(place, problem=WRONG_TYPE, detail=f"saw {shown(value)}, expected text")
    if not value:
        return Row(place, problem=EMPTY)
    try:
        return Row(place, value.encode("utf-8"))
    except UnicodeEncodeError:  # JSON can spell half a surrogate pair
        return Row(place, problem=NOT_UTF8)


def _conversation(place: str, value: Any) -> Row:
    if not isinstance(value, list):
        return Row(place, problem=WRONG_TYPE, detail=f"saw {shown(value)}, expected a list of messages")
    if not value:
        return Row(place, problem=EMPTY)
    for number, message in enumerate(value):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            return Row(place, problem=WRONG_TYPE, detail=f"message {number} has no role")
        content = message.get("content")
        if not isinstance(content, str) and not (content is None and message.get("tool_calls")):
            return Row(place, problem=WRONG_TYPE, detail=f"content of message {number}: saw {shown(content)}")
        if isinstance(content, str) and not _encodes(content):
            return Row(place, problem=NOT_UTF8)
    return Row(place, value)


def _encodes(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
