"""Where data comes from: the standard library of this interpreter, the user's files, or a Hugging Face dataset.

The manifest lists every file with size, digest and split; its digest is what ranks must agree on.
"""

from __future__ import annotations

import hashlib
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from seatrial.canon import digest, file_digest, printable
from seatrial.errors import RunError
from seatrial.train.data import formats
from seatrial.train.data.rows import Row
from seatrial.trial.data import Data

# Left out: not the library itself (site-packages), tests, and files that are tables rather than code.
EXCLUDED = frozenset({"site-packages", "test", "tests", "idlelib", "lib2to3", "encodings", "pydoc_data"})
HELDOUT_SHARE = 10  # one file in ten
MIN_LINE = 20  # shorter lines are shared by unrelated files
MAX_SHARED = 0.2
SPLITS = ("train", "heldout")


class Source(Protocol):
    """What the rest of this package needs of a source; `rows` starts from the beginning each time."""

    @property
    def manifest(self) -> dict[str, Any]: ...

    def rows(self, split: str) -> Iterator[Row]: ...


@dataclass(frozen=True)
class SourceFile:
    """A file of the source: where it lies on this host, its name within the source, and its format."""

    path: Path
    name: str
    format: str = "text"


@dataclass(frozen=True)
class FileSource:
    """Rows of files, split by split, in the order of their names."""

    name: str
    splits: dict[str, list[SourceFile]]
    column: str = "text"
    chat: bool = False
    dropped: list[str] = field(default_factory=list)
    manifest: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        files = [
            {
                "path": printable(file.name),
                "size": file.path.stat().st_size,
                "sha256": file_digest(file.path),
                "split": split,
            }
            for split, members in self.splits.items()
            for file in members
        ]
        manifest: dict[str, Any] = {"source": self.name, "files": files, "dropped": self.dropped}
        if {file.format for members in self.splits.values() for file in members} != {"text"}:
            manifest |= {"field": self.column, "chat": self.chat}
        object.__setattr__(self, "manifest", manifest)

    def rows(self, split: str) -> Iterator[Row]:
        """Every row of a split. Raises RunError for a file that is not of its format."""
        for file in self.splits[split]:
            yield from formats.read(file.path, printable(file.name), file.format, self.column, self.chat)


def source_of(data: Data) -> Source:
    """The source that a trial names; every file is read once, for its digest. Raises RunError if it cannot be used."""
    if data.dataset:
        from seatrial.train.data.hub import HubSource

        return HubSource(data.dataset, data.column, data.chat)
    try:
        return python_stdlib() if data.corpus else user_files(data)
    except OSError as error:
        raise RunError(f"workload.data: {error.filename} cannot be read: {error.strerror}") from error


def python_stdlib(root: Path | None = None) -> FileSource:
    """The `*.py` files of this interpreter's standard library, split by the digest of the relative path.

    A held-out file that shares over 20 % of its lines (of 20 characters or more) with train is dropped and listed:
    vendored copies and generated twins would be graded on what was learnt.
    """
    root = root or Path(sysconfig.get_paths()["stdlib"])
    paths = sorted(
        p.relative_to(root).as_posix() for p in root.rglob("*.py") if not EXCLUDED & set(p.relative_to(root).parts)
    )
    held = [path for path in paths if _in_heldout(path)]
    train = [path for path in paths if not _in_heldout(path)]
    known = {line for path in train for line in _lines((root / path).read_bytes())}
    dropped = [path for path in held if _shared((root / path).read_bytes(), known) > MAX_SHARED]
    kept = [path for path in held if path not in dropped]
    splits = {"train": [SourceFile(root / p, p) for p in train], "heldout": [SourceFile(root / p, p) for p in kept]}
    return FileSource("corpus:python-stdlib", splits, dropped=dropped)


def user_files(data: Data) -> FileSource:
    """The files under `train` and `heldout`. Raises RunError naming a path that cannot be used."""
    splits: dict[str, list[SourceFile]] = {}
    for split, given in zip(SPLITS, (data.train, data.heldout), strict=True):
        splits[split] = _listed(Path(given or ""), data.format, f"workload.data.{split}")
    forms = sorted({file.format for members in splits.values() for file in members})
    if forms != ["text"] and "text" in forms and not data.format:
        raise RunError("workload.data: one split is text and the other is not; expected one format, or `format`")
    if forms == ["text"] and (data.chat or data.field):
        asked = "chat" if data.chat else "field"
        raise RunError(f"workload.data.{asked}: these files are text, which has no {asked}; expected jsonl or parquet")
    return FileSource("+".join(forms), splits, data.column, data.chat)


def _listed(path: Path, asked: str | None, where: str) -> list[SourceFile]:
    """The files under a path but hidden ones; of a folder those of the format asked for, if one is."""
    if path.is_file():
        return [SourceFile(path, path.name, asked or formats.format_of(path))]
    there = sorted(p for p in path.rglob("*") if p.is_file() and not any(_hidden(path, p)))
    found = {p: formats.format_of(p) for p in there}
    if asked and asked != "text":
        there = [p for p in there if found[p] == asked]
    if not there:
        raise RunError(f"{where}: {path} holds no {asked or ''}{' ' if asked else ''}file")
    if not asked and len(kinds := sorted(set(found.values()))) > 1:
        raise RunError(f"{where}: {path} holds {' and '.join(kinds)} files; expected one kind, or `format` to pick one")
    return [SourceFile(p, p.relative_to(path).as_posix(), asked or found[p]) for p in there]


def _hidden(root: Path, path: Path) -> Iterator[bool]:
    return (part.startswith(".") for part in path.relative_to(root).parts)


def content_digest(source: Source) -> str:
    """The digest of a source's manifest."""
    return digest(source.manifest)


def _in_heldout(path: str) -> bool:
    return int.from_bytes(hashlib.sha256(path.encode()).digest()[:8], "big") % HELDOUT_SHARE == 0


def _lines(document: bytes) -> set[bytes]:
    return {line for raw in document.split(b"\n") if len(line := raw.strip()) >= MIN_LINE}


def _shared(document: bytes, known: set[bytes]) -> float:
    lines = _lines(document)
    return len(lines & known) / len(lines) if lines else 0.0
