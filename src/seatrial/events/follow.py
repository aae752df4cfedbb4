"""Follows the event files of a run while they grow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from seatrial.canon import parse
from seatrial.events.layout import Layout


class Follower:
    """Yields each whole line once, of the files of these `names`.

    What a line is worth is decided later, by the reader that checks the chain.
    """

    def __init__(self, layout: Layout, names: str = "*"):
        self._folder, self._pattern = layout.events, f"{names}.jsonl"
        self._offsets: dict[Path, int] = {}

    def poll(self) -> list[tuple[str, dict[str, Any]]]:
        """`(file stem, event)` of the lines that came since the last call, by file."""
        found: list[tuple[str, dict[str, Any]]] = []
        for path in sorted(self._folder.rglob(self._pattern)):
            with path.open("rb") as handle:
                handle.seek(self._offsets.get(path, 0))
                data = handle.read()
            whole = data.rfind(b"\n") + 1
            self._offsets[path] = self._offsets.get(path, 0) + whole
            found += [(path.stem, event) for line in data[:whole].splitlines() if (event := _event(line))]
        return found


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        event = parse(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None
