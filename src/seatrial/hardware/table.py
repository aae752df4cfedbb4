"""Reads the JSON tables of this room: columns, rows, and the sources of each row.

The `source` column holds keys of the file's own `sources`; `unverified` names columns whose value was not checked at
its origin. A null is unknown. Standard library only: the tables travel to the image inside a zip.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def document(name: str) -> dict[str, Any]:
    """A JSON file of this folder, read once."""
    parsed: dict[str, Any] = json.loads(files("seatrial.hardware").joinpath(name).read_text("utf-8"))
    return parsed


def rows(name: str) -> Iterator[dict[str, Any]]:
    """The rows of a file by column, with their sources written out."""
    table = document(name)
    for row in table["rows"]:
        named = dict(zip(table["columns"], row, strict=True))
        yield named | {"source": cited(name, named["source"]), "unverified": tuple(named["unverified"])}


def cited(name: str, keys: str) -> str:
    """The sources of some keys, joined with "; ". Spaces separate the keys."""
    return "; ".join(document(name)["sources"][key] for key in keys.split())
