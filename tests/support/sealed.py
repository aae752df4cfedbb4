"""Records that version 0.1.0 sealed before facts had types: what they held must be read the same for ever.

`run` is a built-in training with a task, `script` the plain-loop example, `observed` a look at a job (made by hand).
"""

from __future__ import annotations

import tarfile
from pathlib import Path

RECORDS = Path(__file__).parents[1] / "data" / "records"
NAMES = ("run", "script", "observed")


def unpacked(name: str, folder: Path) -> Path:
    """The run directory of a sealed record, with the storage's list of seals beside it."""
    with tarfile.open(RECORDS / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return next(folder.rglob("record.json")).parent
