"""What the command names: files, folders, standard input, trials; read one at a time, so that memory stays flat."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from seatrial.check import reading
from seatrial.check.reading import MAX_FILE_BYTES, Document
from seatrial.check.rule import Asked
from seatrial.check.values import Value
from seatrial.errors import InputError, Place

if TYPE_CHECKING:
    from seatrial.trial.model import Trial

STDIN = "-"
_ENDINGS = (".yaml", ".yml", ".json")
_MOST_FILES = 100_000


@dataclass(frozen=True)
class Input:
    """A file to read: `named` by the user, or found in a folder."""

    path: Path
    named: bool


def files(paths: tuple[Path, ...]) -> Iterator[Input | InputError]:
    """Every file that the paths name; folders are searched for YAML and JSON. A path that is not there is an error."""
    for path in paths:
        if str(path) == STDIN or not path.is_dir():
            yield Input(path, named=True)
            continue
        found = sorted(
            entry
            for entry in path.rglob("*")
            if entry.suffix in _ENDINGS and entry.is_file() and not _hidden(entry, path)
        )
        if not found:
            yield InputError(
                "holds no manifest", place=Place(str(path)), expected="files named *.yaml, *.yml or *.json"
            )
        yield from (Input(entry, named=False) for entry in found[:_MOST_FILES])


def concerns(raw: bytes) -> bool:
    """Whether a file speaks of Ray resources or is a trial; a folder holds much else."""
    return b"ray.io/" in raw or is_trial(raw)


def _hidden(entry: Path, below: Path) -> bool:
    return any(part.startswith(".") for part in entry.relative_to(below).parts)


def content(path: Path, stdin: BinaryIO) -> bytes:
    """A file's bytes, or those of standard input. Raises InputError."""
    place = Place("<stdin>" if str(path) == STDIN else str(path))
    try:
        if str(path) == STDIN:
            raw = stdin.read(MAX_FILE_BYTES + 1)
        else:
            if not stat.S_ISREG(path.stat().st_mode) and not stat.S_ISFIFO(path.stat().st_mode):
                raise InputError("is no regular file", place=place, expected="a YAML file or a folder")
            with path.open("rb") as handle:
                raw = handle.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot be read: {reason}", place=place, expected="a YAML file or a folder") from None
    if len(raw) > MAX_FILE_BYTES:
        raise InputError("is too large", place=place, expected=f"at most {MAX_FILE_BYTES >> 20} MiB")
    return raw


def name(path: Path) -> str:
    """The path as findings show it."""
    return "<stdin>" if str(path) == STDIN else str(path)


def is_trial(raw: bytes) -> bool:
    """Whether a file's bytes are a trial's."""
    return b"seatrial.io/v1" in raw and b"kind: Trial" in raw


def trial(path: Path) -> tuple[Trial, dict[str, str], Asked]:
    """A trial, the manifests that it renders to, and what it asks of the cluster. Raises InputError.

    A trial that runs without Kubernetes has no manifests.
    """
    from seatrial.render import render
    from seatrial.trial import loader

    loaded = loader.load(path)
    if loaded.trial.cluster.provider in ("local", "ray"):
        return loaded.trial, {}, asked(loaded.trial)
    try:
        rendered = render(loaded.trial)
    except InputError as error:
        raise loaded.locate(error) from None
    texts = {name: text for name, text in rendered.files.items() if name.endswith((".yaml", ".yml"))}
    return loaded.trial, texts, asked(loaded.trial)


def asked(trial: Trial) -> Asked:
    """What a trial asks of the cluster."""
    return Asked(trial.scaling.num_workers, trial.scaling.gpus_per_worker, trial.storage.path)


def asked_by(path: Path) -> Asked:
    """What the trial in a file asks of the cluster. Raises InputError."""
    from seatrial.trial import loader

    return asked(loader.load(path).trial)


def claims(raw: bytes, path: str) -> dict[tuple[str, str], Value]:
    """The PersistentVolumeClaims in a file, by namespace and name."""
    if b"PersistentVolumeClaim" not in raw or b"kind" not in raw:
        return {}
    found = {}
    for document in reading.documents(raw, path):
        if isinstance(document, Document) and document.root:
            root = Value.of(document.root, path, document.line)
            if root["kind"].raw == "PersistentVolumeClaim":
                found[root.at("metadata", "namespace").raw, root.at("metadata", "name").raw] = root
    return found
