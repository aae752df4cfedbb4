"""The cache of tokenised stores: `<storage>/tokens/<key>/`. A store is built beside its place and moved there whole.

Of two builders of one key, the second waits for the first's lock and then finds the store. The lock ends with the
process that holds it. On a file system without locks both build, and the first to move its store into place wins.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from seatrial.errors import RunError
from seatrial.train.data.rows import BadRows
from seatrial.train.data.store import Recipe, build, read_index


def ensure(cache: Path, recipe: Recipe) -> Path:
    """The folder of the store. It is built unless a complete one is there.

    Raises RunError for data with more bad rows than the trial allows, or if the storage fails.
    """
    folder = cache / recipe.key
    try:
        if not read_index(folder):
            cache.mkdir(parents=True, exist_ok=True)
            with _locked(cache / f".{recipe.key}.lock") as alone:
                if not read_index(folder):
                    _make(cache, folder, recipe, alone)
    except OSError as error:
        raise RunError(f"storage: {error.filename or cache}: {error.strerror or error}") from error
    index(folder, recipe.max_bad_rows)
    return folder


def index(folder: Path, max_bad_rows: int) -> dict[str, Any]:
    """The index of a store. Raises RunError if it is not complete, or has more bad rows than the trial allows."""
    found = read_index(folder)
    if found is None:
        raise RunError(f"storage: {folder} is no complete store on this host; expected storage that all hosts share")
    BadRows(max_bad_rows, **found["bad"]).refuse()
    return found


def _make(cache: Path, folder: Path, recipe: Recipe, alone: bool) -> None:
    """Builds a store beside its place and moves it there.

    `alone` says that no other process builds this key: then what killed builders left is removed first.
    """
    if alone:
        for left in cache.glob(f".{recipe.key}.*.part"):
            shutil.rmtree(left)
    part = Path(tempfile.mkdtemp(prefix=f".{recipe.key}.", suffix=".part", dir=cache))
    try:
        part.chmod(0o755)  # other hosts may read as other users
        build(recipe, part)
        _settle(part)
        _publish(part, folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)  # gone already if it was moved


def _settle(part: Path) -> None:
    """Flushes every file to the disk: a rename must not be there before its content."""
    for path in part.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())


def _publish(part: Path, folder: Path) -> None:
    """Moves a finished store into place. A complete one that is there is kept; a broken one is replaced."""
    if folder.exists() and not read_index(folder):
        aside = part.with_name(part.name.replace(".part", ".broken.part"))
        folder.rename(aside)
        shutil.rmtree(aside)
    try:
        part.rename(folder)
    except OSError:
        if not read_index(folder):  # else another builder was first
            raise


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Holds the lock of one key. Yields whether the file system has locks at all."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            alone = True
        except OSError:  # some network file systems have none
            alone = False
        yield alone
