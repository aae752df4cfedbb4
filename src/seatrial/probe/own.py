"""seatrial's own code: what this process runs, and what a run takes to where it is not installed."""

from __future__ import annotations

import hashlib
import zipfile
from importlib.resources.abc import Traversable
from pathlib import Path
from zipimport import zipimporter

import seatrial
from seatrial.canon import digest
from seatrial.events.schema import Environment

# What runs beside Ray, and travels where it is not installed: modules and data tables of these rooms.
ROOMS = ("trial", "hardware", "events", "plan", "probe", "train", "evidence", "record", "driver", "callbacks")
SUFFIXES = (".py", ".json")
CLIENT_ONLY = ("trial/loader.py", "trial/source.py")  # they read YAML


def seatrial_layer() -> Environment:
    """The code that this process runs, by version and digest."""
    return Environment(layer="seatrial", content={"version": seatrial.__version__, "files": package_digest()})


def travelling() -> dict[str, bytes]:
    """The files that a run needs, by their path in the package; the same from a folder and from the zips of its parts.

    Raises FileNotFoundError if a part is missing.
    """
    found: dict[str, bytes] = {}
    for root in map(_folder, seatrial.__path__):
        found |= {entry.name: entry.read_bytes() for entry in root.iterdir() if entry.name.endswith(SUFFIXES)}
        for room in ROOMS:
            if (root / room).is_dir():
                found |= _below(root / room, f"{room}/")
    if absent := set(ROOMS) - {name.partition("/")[0] for name in found}:
        raise FileNotFoundError(f"seatrial is incomplete: no {', '.join(sorted(absent))} in {list(seatrial.__path__)}")
    return {name: found[name] for name in sorted(found) if name not in CLIENT_ONLY}


def _folder(path: str) -> Traversable:
    if Path(path).is_dir():
        return Path(path)
    part = zipimporter(path)
    return zipfile.Path(part.archive, part.prefix)


def _below(folder: Traversable, prefix: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for entry in folder.iterdir():
        if entry.is_dir():
            found |= _below(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(SUFFIXES):
            found[f"{prefix}{entry.name}"] = entry.read_bytes()
    return found


def package_digest() -> str:
    """One digest over every file that a run needs."""
    return digest({name: hashlib.sha256(data).hexdigest() for name, data in travelling().items()})
