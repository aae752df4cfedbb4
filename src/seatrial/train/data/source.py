"""Documents and where they came from: the standard library of this interpreter, or the user's text files.

The manifest lists every file with size, digest and split; its digest is what ranks must agree on.
"""

from __future__ import annotations

import hashlib
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seatrial.canon import digest, printable, sha256
from seatrial.errors import RunError

# Left out: not the library itself (site-packages), tests, and files that are tables rather than code.
EXCLUDED = frozenset({"site-packages", "test", "tests", "idlelib", "lib2to3", "encodings", "pydoc_data"})
HELDOUT_SHARE = 10  # one file in ten
MIN_LINE = 20  # shorter lines are shared by unrelated files
MAX_SHARED = 0.2


@dataclass(frozen=True)
class Documents:
    """Raw documents per split, in path order, with the manifest they are listed in."""

    source: str
    train: list[bytes]
    heldout: list[bytes]
    files: list[dict[str, Any]]
    dropped: list[str] = field(default_factory=list)

    @property
    def manifest(self) -> dict[str, Any]:
        return {"source": self.source, "files": self.files, "dropped": self.dropped}

    @property
    def digest(self) -> str:
        return digest(self.manifest)


def python_stdlib(root: Path | None = None) -> Documents:
    """The `*.py` files of this interpreter's standard library, split by the digest of the relative path.

    A held-out file that shares over 20 % of its lines (of 20 characters or more) with train is dropped and listed:
    vendored copies and generated twins would be graded on what was learnt.
    """
    root = root or Path(sysconfig.get_paths()["stdlib"])
    paths = sorted(
        p.relative_to(root).as_posix() for p in root.rglob("*.py") if not EXCLUDED & set(p.relative_to(root).parts)
    )
    held = {path for path in paths if _in_heldout(path)}
    content = {path: (root / path).read_bytes() for path in paths}
    known = {line for path in paths if path not in held for line in _lines(content[path])}
    dropped = sorted(path for path in held if _shared(content[path], known) > MAX_SHARED)
    train = [path for path in paths if path not in held]
    heldout = [path for path in paths if path in held and path not in dropped]
    files = [
        _entry(path, content[path], split)
        for split, names in (("train", train), ("heldout", heldout))
        for path in names
    ]
    return Documents("corpus:python-stdlib", [content[p] for p in train], [content[p] for p in heldout], files, dropped)


def text(train: Path, heldout: Path) -> Documents:
    """Text files, or folders of them, one document a file. Raises RunError naming a path that cannot be used."""
    files: list[dict[str, Any]] = []
    splits: dict[str, list[bytes]] = {"train": [], "heldout": []}
    for split, path in (("train", train), ("heldout", heldout)):
        names = (
            [path]
            if path.is_file()
            else sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith("."))
        )
        if not names:
            raise RunError(f"workload.data.{split}: {path} holds no file")
        for name in names:
            document = name.read_bytes()
            splits[split].append(document)
            files.append(_entry(name.name if name == path else name.relative_to(path).as_posix(), document, split))
    return Documents("text", splits["train"], splits["heldout"], files)


def _in_heldout(path: str) -> bool:
    return int.from_bytes(hashlib.sha256(path.encode()).digest()[:8], "big") % HELDOUT_SHARE == 0


def _lines(document: bytes) -> set[bytes]:
    return {line for raw in document.split(b"\n") if len(line := raw.strip()) >= MIN_LINE}


def _shared(document: bytes, known: set[bytes]) -> float:
    lines = _lines(document)
    return len(lines & known) / len(lines) if lines else 0.0


def _entry(path: str, document: bytes, split: str) -> dict[str, Any]:
    return {"path": printable(path), "size": len(document), "sha256": sha256(document), "split": split}
