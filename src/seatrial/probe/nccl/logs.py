"""Log files as a user names them: files, folders, compressed files, standard input; several at once."""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from seatrial.errors import InputError, Place
from seatrial.probe.nccl.facts import Log, ProcessLog
from seatrial.probe.nccl.reader import Reader

STDIN = "-"
APART_BYTES = 64 << 20  # from this size on, files are worth a process each
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def files(paths: Iterable[Path]) -> list[Path]:
    """Every file below the paths, in order, each once. Raises InputError for a path that holds none."""
    found: dict[Path, None] = {}
    for path in paths:
        if str(path) == STDIN or path.is_file():
            found[path] = None
        elif path.is_dir():
            inside = sorted(entry for entry in path.rglob("*") if entry.is_file())
            if not inside:
                raise InputError("holds no file", place=Place(str(path)), expected="the logs of a job's processes")
            found |= dict.fromkeys(inside)
        else:
            raise InputError("does not exist", place=Place(str(path)), expected="a log file, a folder of them, or -")
    return list(found)


def read(paths: list[Path], jobs: int = 1) -> Log:
    """All of them as one log. Raises InputError for one that cannot be read."""
    sizes = sum(path.stat().st_size for path in paths if str(path) != STDIN)
    if jobs > 1 and len(paths) > 1 and sizes > APART_BYTES and STDIN not in map(str, paths):
        with ProcessPoolExecutor(min(jobs, len(paths))) as pool:
            parts = pool.map(_one, paths)
            return merged(parts)
    return merged(map(_one, paths))


def _one(path: Path) -> Log:
    reader = Reader()
    _into(reader, path)
    return reader.log


def _into(reader: Reader, path: Path) -> None:
    name = "standard input" if str(path) == STDIN else str(path)
    try:
        with _opened(path) as file:
            reader.read(file, name)
    except (OSError, EOFError, zlib.error) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be read: {said}", place=Place(name), expected="a whole log file") from None


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a log, decompressed by what it begins with, whatever it is called."""
    if str(path) == STDIN:
        yield sys.stdin.buffer
        return
    with path.open("rb") as raw:
        magic = raw.read(4)
        raw.seek(0)
        if magic.startswith(_GZIP):
            with gzip.open(raw) as file:
                yield cast(BinaryIO, file)
        elif magic == _ZSTD:
            with _zstd(raw, path) as file:
                yield file
        else:
            yield raw


@contextmanager
def _zstd(raw: BinaryIO, path: Path) -> Iterator[BinaryIO]:
    try:
        import zstandard
    except ImportError:
        raise InputError(
            "is compressed with zstd",
            place=Place(str(path)),
            expected="the zstandard package beside seatrial",
            fix="pip install 'seatrial[zstd]', or decompress it first",
        ) from None
    try:
        with zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True) as file:
            yield cast(BinaryIO, file)
    except zstandard.ZstdError as error:
        raise InputError(f"cannot be read: {error}", place=Place(str(path)), expected="a whole log file") from None


def merged(parts: Iterable[Log]) -> Log:
    """Several logs as one."""
    whole = Log()
    for part in parts:
        for who, process in part.processes.items():
            known = whole.processes.get(who)
            whole.processes[who] = process if known is None else _joined(known, process)
        whole.versions |= part.versions
        for name, line in part.libfabric.items():
            whole.libfabric.setdefault(name, line)
        whole.deduplicated |= part.deduplicated
        whole.files += part.files
        for field in ("bytes_read", "lines", "nccl_lines", "torn", "repeated", "unfinished"):
            setattr(whole, field, getattr(whole, field) + getattr(part, field))
    return whole


def _joined(first: ProcessLog, second: ProcessLog) -> ProcessLog:
    """One process in two files: its output twice, or a rotated file and the one after it."""
    known = {(m.pointer, m.rank, m.size): m for m in first.members}
    new = [m for m in second.members if (m.pointer, m.rank, m.size) not in known]
    old = [(known[m.pointer, m.rank, m.size], m) for m in second.members if m not in new]
    # Initialised in both files: one of them repeats the other.
    again = bool(old) and not new and all((a.started, a.completed) == (b.started, b.completed) for a, b in old)
    shift = 0 if old else len(first.members)
    for own, other in old:
        own.started, own.completed = own.started or other.started, own.completed or other.completed
        own.nodes, own.network = own.nodes or other.nodes, own.network or other.network
    for generation, counts in enumerate(second.raw, shift):
        while len(first.raw) <= generation:
            first.raw.append({})
        mine = first.raw[generation]
        for key, lines in counts.items():
            there = mine.get(key, 0)
            mine[key] = max(there, lines) if again else there + lines
    for member in new:
        member.generation += shift
        first.members.append(member)
    for name in ("version", "plugin", "libfabric"):
        setattr(first, name, getattr(first, name) or getattr(second, name))
    first.providers += second.providers
    first.fabrics += second.fabrics
    first.protocols += second.protocols
    first.settings = {**second.settings, **first.settings}
    first.link_types |= second.link_types
    first.nvls |= second.nvls
    first.trouble = {**second.trouble, **first.trouble}
    first.torn += second.torn
    first.repeated += second.repeated
    first.info |= second.info
    first.capped |= second.capped
    return first


def cores() -> int:
    """How many files are read at once."""
    return len(os.sched_getaffinity(0))
