"""Writes rendered files to a folder. Files of an earlier render are replaced, other files are not."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from seatrial.canon import canonical, sha256
from seatrial.errors import InputError, Place
from seatrial.render.manifests import Rendered

# Without a file extension, so that `kubectl apply -f FOLDER` does not read it.
LIST = ".seatrial-render"


@dataclass(frozen=True)
class Written:
    """What happened to each file."""

    folder: Path
    written: tuple[str, ...]
    unchanged: tuple[str, ...]
    removed: tuple[str, ...]  # files of an earlier render that this one does not have
    foreign: tuple[str, ...]  # not written by render, and left as they are


def write(rendered: Rendered, folder: Path) -> Written:
    """Writes all files or none. Raises InputError if one would overwrite a file that render did not write."""
    earlier = _earlier(folder)
    there = {path.name: path for path in folder.iterdir() if path.name != LIST} if folder.is_dir() else {}
    mine = {name for name, path in there.items() if path.is_file() and _digest(path) == earlier.get(name)}
    same = {name for name, text in rendered.files.items() if name in there and _is(there[name], text)}
    if taken := [name for name in rendered.files if name in there and name not in mine | same]:
        raise InputError(
            "was changed, or was not written by seatrial render",
            place=Place(str(folder / taken[0])),
            expected="an unchanged file of an earlier render, or none",
            fix="move it away, or choose another folder: `seatrial render TRIAL -o FOLDER`",
        )
    new = [name for name in rendered.files if name not in same]
    stale = sorted(mine - set(rendered.files))
    _put(rendered, folder, new, [there[name] for name in stale])
    foreign = sorted(set(there) - set(rendered.files) - set(stale))
    return Written(folder, tuple(new), tuple(n for n in rendered.files if n in same), tuple(stale), tuple(foreign))


def _put(rendered: Rendered, folder: Path, new: list[str], stale: list[Path]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in new:
            (folder / name).write_text(rendered.files[name], encoding="utf-8", newline="\n")
        for path in stale:
            path.unlink()
        written = {name: sha256(text.encode()) for name, text in rendered.files.items()}
        (folder / LIST).write_bytes(canonical({"files": written, "trial": rendered.digest}) + b"\n")
    except OSError as error:
        place = Place(str(error.filename or folder))
        raise InputError(f"cannot be written: {error.strerror}", place=place, expected="a folder to write to") from None


def _earlier(folder: Path) -> dict[str, str]:
    """The files of an earlier render, with their digests by name. Empty without a readable list."""
    try:
        files = json.loads((folder / LIST).read_text(encoding="utf-8"))["files"]
        return {str(name): str(digest) for name, digest in files.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _digest(path: Path) -> str:
    return sha256(path.read_bytes())


def _is(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode()
