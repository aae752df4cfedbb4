"""The paths between hosts as one self-contained HTML page."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from seatrial.cli.transport_text import QUESTIONS
from seatrial.errors import InputError, Place

MOST_HOSTS = 256  # a cell for each pair
# Light enough for dark letters. Each path also has its own letter, for readers who cannot tell the colours apart.
COLORS = ("#8fd3a8", "#f2b880", "#9cc3f0", "#e7a0b8", "#d6cf7e", "#c3aee6", "#a5d6d3", "#cfcfcf")


def write(path: Path, document: dict[str, Any]) -> None:
    """Writes the page. Raises InputError if the file cannot be written."""
    hosts = document["hosts"][:MOST_HOSTS]
    cells = {(pair["from"], pair["to"]): list(pair["paths"]) for pair in document["paths"]}
    kinds = sorted({kind for paths in cells.values() for kind in paths})
    text = (files("seatrial.cli") / "templates/transport.html").read_text(encoding="utf-8")
    page = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True).from_string(text)
    try:
        path.write_text(
            page.render(
                **{**document, "hosts": hosts},
                cells=cells,
                lines=list(dict.fromkeys(line for finding in document["findings"] for line in finding["lines"])),
                questions=QUESTIONS,
                letters={kind: chr(ord("A") + number % 26) for number, kind in enumerate(kinds)},
                colors={kind: COLORS[number % len(COLORS)] for number, kind in enumerate(kinds)},
            ),
            encoding="utf-8",
        )
    except OSError as error:
        raise InputError(
            f"cannot be written: {error.strerror}", place=Place(str(path)), field="--html", expected="a file to write"
        ) from None
