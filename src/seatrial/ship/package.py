"""seatrial as zips that Python imports from: `PYTHONPATH=/…/seatrial.zip:/…/seatrial-2.zip python -m seatrial.driver`.

There are as many parts as it takes for each to fit into a ConfigMap. A part holds whole rooms. Only the first part has
the package's own `__init__.py`: it makes one package of all parts, in any order on the path.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import PurePosixPath

from seatrial.driver.code import travelling
from seatrial.errors import SeatrialError

# A ConfigMap holds 1 MiB. But `kubectl apply` copies it, in base64, into an annotation, which holds 256 KiB.
LIMIT_BYTES = 180 << 10
_ROOT, _INIT = "seatrial", "__init__.py"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can state
_MODE, _FOLDER_MODE = 0o100644, 0o40755


@dataclass(frozen=True)
class Part:
    """One zip and its file's name."""

    file: str
    data: bytes


@dataclass
class _OpenPart:
    """A part that is being filled, and an upper bound of its size in bytes."""

    files: dict[str, bytes] = field(default_factory=dict)
    size: int = 0

    def add(self, files: dict[str, bytes], size: int) -> None:
        self.files |= files
        self.size += size


@cache
def package() -> tuple[Part, ...]:
    """The parts of seatrial, built once in a process. The same files give the same bytes."""
    return parts({f"{_ROOT}/{name}": data for name, data in travelling().items()})


def parts(files: dict[str, bytes], limit: int = LIMIT_BYTES) -> tuple[Part, ...]:
    """Zips of at most `limit` bytes: each unit goes into the first with room. Raises SeatrialError if one is larger.

    Two units in two zips take more bytes than in one, so the sum of their sizes is an upper bound.
    """
    opened = [_OpenPart()]
    for unit in _units(files, _ROOT, limit):
        size = len(_zip(unit))
        if size > limit:
            raise SeatrialError(f"{min(unit)} and its neighbours are {size} bytes as a zip; a part holds {limit}")
        target = next((part for part in opened if part.size + size <= limit), None)
        if target is None:
            target = _OpenPart()
            opened.append(target)
        target.add(unit, size)
    names = (f"{_ROOT}.zip", *(f"{_ROOT}-{number}.zip" for number in range(2, len(opened) + 1)))
    return tuple(Part(name, _zip(part.files)) for name, part in zip(names, opened, strict=True))


def _units(files: dict[str, bytes], folder: str, limit: int) -> Iterator[dict[str, bytes]]:
    """Files that must stay together: a package's own modules, and each sub-package. Large ones are divided."""
    below: dict[str, dict[str, bytes]] = {}
    for name in sorted(files):
        first, deeper, _ = name.removeprefix(f"{folder}/").partition("/")
        below.setdefault(first if deeper else "", {})[name] = files[name]
    yield below.pop("", {})
    for name, content in below.items():
        if len(_zip(content)) <= limit:
            yield content
        elif b"extend_path" in content.get(f"{folder}/{name}/{_INIT}", b""):
            yield from _units(content, f"{folder}/{name}", limit)
        else:
            raise SeatrialError(
                f"{folder}/{name} is too large for one part of {limit} bytes, and cannot be divided: its {_INIT} lacks "
                "`__path__ = extend_path(__path__, __name__)`"
            )


def _zip(files: dict[str, bytes]) -> bytes:
    """A zip of the sources as they are, so that tracebacks keep their lines."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(_folders(files) | set(files)):
            entry = zipfile.ZipInfo(name, _EPOCH)
            mode = _FOLDER_MODE if name.endswith("/") else _MODE
            entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, 3, mode << 16
            archive.writestr(entry, files.get(name, b""), compresslevel=9)
    return buffer.getvalue()


def _folders(files: dict[str, bytes]) -> set[str]:
    """Folders whose `__init__.py` is in another part. Up to Python 3.12, zipimport sees a folder only by its entry."""
    found = {f"{folder}/" for name in files for folder in PurePosixPath(name).parents if folder.name}
    return {folder for folder in found if f"{folder}{_INIT}" not in files}
