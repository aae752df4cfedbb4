"""Rows of a Hugging Face dataset: by its name on the hub, or in a folder that `datasets` wrote or can load."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from seatrial.canon import canonical, plain, printable
from seatrial.errors import RunError
from seatrial.train.data.formats import BATCH, checked
from seatrial.train.data.rows import Row
from seatrial.trial.data import Hub


class HubSource:
    """One column of two splits. The digest is of the values that were read, not of a cache's metadata."""

    def __init__(self, asked: Hub, column: str, chat: bool):
        self._asked, self._column, self._chat = asked, column, chat
        names = {"train": asked.train_split, "heldout": asked.heldout_split}
        self._splits = {split: self._load(name) for split, name in names.items()}
        files = [
            {
                "path": f"{asked.name}{f'/{asked.config}' if asked.config else ''}:{names[split]}",
                "size": len(rows),
                "sha256": self._digest(split),
                "split": split,
            }
            for split, rows in self._splits.items()
        ]
        self.manifest: dict[str, Any] = {
            "source": printable(f"dataset:{asked.name}"),
            "revision_asked": asked.revision,
            "files": files,
            "dropped": [],
            "field": column,
            "chat": chat,
        }

    def rows(self, split: str) -> Iterator[Row]:
        """Every row of a split, by its number from 1."""
        for number, value in enumerate(self._values(split), start=1):
            yield checked(f"{printable(self._asked.name)}:{number}", value, self._chat)

    def _values(self, split: str) -> Iterator[Any]:
        rows = self._splits[split]
        for start in range(0, len(rows), BATCH):
            yield from rows[start : start + BATCH][self._column]

    def _digest(self, split: str) -> str:
        """SHA-256 over the canonical JSON of every value, a line each."""
        hashed = hashlib.sha256()
        for value in self._values(split):
            hashed.update(canonical(plain(value)) + b"\n")
        return "sha256:" + hashed.hexdigest()

    def _load(self, split: str) -> Any:
        """The split as a table with the one column. Raises RunError, in one line."""
        try:
            import datasets
        except ImportError as error:
            raise RunError("workload.data.dataset needs the package datasets: pip install datasets") from error
        datasets.disable_progress_bars()
        asked, folder = self._asked, Path(self._asked.name)
        try:
            if (folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file():
                found = datasets.load_from_disk(str(folder))
                rows = found[split] if isinstance(found, datasets.DatasetDict) else found
                if rows is found and split != str(found.split):
                    raise KeyError(f"{folder} holds the split {found.split} alone")
            else:
                rows = datasets.load_dataset(asked.name, asked.config, split=split, revision=asked.revision)
        except Exception as error:  # the library raises errors of half a dozen others
            said = str(error).strip().splitlines() or [""]
            raise RunError(
                f"workload.data.dataset: {asked.name}, split {split}, could not be loaded:"
                f" {type(error).__name__}: {said[0]}"
            ) from error
        if self._column not in rows.column_names:
            there = ", ".join(rows.column_names)
            raise RunError(f"workload.data.field: {asked.name} has no column {self._column}; expected one of {there}")
        return rows.select_columns([self._column])
