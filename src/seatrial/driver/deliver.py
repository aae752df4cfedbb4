"""A sealed run as lines of a log, for a client that cannot see the storage: the record and its files.

Each line begins with a mark, so that other lines may come between. The first one describes the delivery; the others
are numbered pieces of a zip in base64. Checkpoint shards and files beyond the limit are left out, and the first line
names them.
"""

from __future__ import annotations

import base64
import io
import math
import os
import sys
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path, PurePosixPath
from typing import Any

from seatrial.canon import canonical, parse, sha256
from seatrial.errors import EvidenceError
from seatrial.events import Layout
from seatrial.record import latest, read_record

VARIABLE = "SEATRIAL_DELIVER"  # set for whoever seals: the driver, or the guard in its place
MARK = "seatrial-record "
SCHEMA = "seatrial.delivery/1"
LIMIT_BYTES = 8 << 20  # of the zip: Ray keeps a job's log on the head's disk, and hands it out in one answer
TRIED, LEVEL = 20, 6  # at most TRIED limits of bytes are compressed; a run that is asked to stop has two minutes
PIECE = 180  # characters of base64: ten lines of it in a job's failure message do no harm
_FIRST = ("record", "trial.json", "claims.json", "code.diff", "events/", "logs/")
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Head:
    """The description of a delivery. `left_out` are the paths of listed files and of shards that it does not hold."""

    run: str
    directory: str
    record: str  # the record file's digest
    file: str  # the record file's name
    left_out: list[str]
    size: int
    sha256: str
    pieces: int


@dataclass(frozen=True)
class Delivery:
    """A delivery that arrived whole: its zip has the digest that its head states."""

    head: Head
    data: bytes

    def unpack(self, folder: Path) -> None:
        """Writes every file below `folder`, which is empty. Raises EvidenceError for a path that leads out of it."""
        with zipfile.ZipFile(io.BytesIO(self.data)) as archive:
            for name in archive.namelist():
                parts = PurePosixPath(name).parts
                if name.startswith("/") or ".." in parts or not parts:
                    raise EvidenceError(f"the delivery of {self.head.run} holds the path {name!r}; nothing was written")
            for name in archive.namelist():
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(name))


def pack(root: Path, limit: int = LIMIT_BYTES) -> Delivery:
    """The delivery of a run directory's newest record. Raises EvidenceError if there is none, OSError."""
    path = latest(root)
    record, digest = read_record(path)
    data, left_out = _zip(root, path, record, limit)
    pieces = math.ceil(len(base64.b64encode(data)) / PIECE)
    return Delivery(Head(root.name, str(root), digest, path.name, left_out, len(data), sha256(data), pieces), data)


def lines(delivery: Delivery) -> Iterator[str]:
    """A delivery as lines of a log."""
    text = base64.b64encode(delivery.data).decode()
    yield f"{MARK}{canonical({'schema': SCHEMA, **asdict(delivery.head)}).decode()}"
    for number in range(delivery.head.pieces):
        piece = text[number * PIECE : (number + 1) * PIECE]
        yield f"{MARK}{number + 1}/{delivery.head.pieces} {piece}"


def _zip(root: Path, path: Path, record: dict[str, Any], limit: int) -> tuple[bytes, list[str]]:
    """A zip of the record, its seal and the files that it lists, the most important first; and the paths left out."""
    listed = [str(entry["path"]) for entry in record["artifacts"]]
    names = sorted([path.name, path.with_suffix(".sha256").name, *listed], key=_rank)
    left_out, buffer, tried = [], io.BytesIO(), 0
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            size = (root / name).stat().st_size
            if tried + size > TRIED * limit:
                left_out.append(name)
                continue
            tried += size
            data = (root / name).read_bytes()
            if buffer.tell() + _packed(data) + 2 * len(name) > limit:
                left_out.append(name)
                continue
            archive.writestr(entry, data, compresslevel=LEVEL)
    return buffer.getvalue(), sorted([*left_out, *_shards(root, listed)])


def _packed(data: bytes) -> int:
    """The bytes that a file takes in the zip with its two headers, without the name in each."""
    return len(zlib.compress(data, LEVEL)) + 200


def _rank(name: str) -> tuple[int, str]:
    return next((at for at, start in enumerate(_FIRST) if name.startswith(start)), len(_FIRST)), name


def _shards(root: Path, listed: list[str]) -> Iterator[str]:
    """The shards of checkpoints: the record lists their manifests, not the shards."""
    for manifest in (root / name for name in listed if name.endswith("/manifest.json")):
        for shard in sorted(p for p in manifest.parent.iterdir() if p.is_file() and p.name != manifest.name):
            yield Layout(root).relative(shard)


def write(root: Path) -> None:
    """Prints a sealed run on stdout, in one piece. Raises EvidenceError if it was not sealed, OSError."""
    text = "".join(f"{line}\n" for line in lines(pack(root)))
    sys.stdout.flush()
    left = memoryview(text.encode())
    while left:
        left = left[os.write(sys.stdout.fileno(), left) :]


def is_part(line: str) -> bool:
    """Whether a line of a log belongs to a delivery, and is not meant for people."""
    return line.startswith(MARK)


def find(log: str) -> Delivery | None:
    """The delivery in a log; None if there is none. Raises EvidenceError, in one line, if it is incomplete.

    Each head begins a new delivery. All complete ones must hold the same record.
    """
    whole: list[Delivery] = []
    problem = ""
    for head, pieces in _told(log):
        try:
            whole.append(_join(head, pieces))
        except EvidenceError as error:
            problem = str(error)
    if len({delivery.head.record for delivery in whole}) > 1:
        raise EvidenceError(f"the log holds {len(whole)} different records; expected one")
    if problem and not whole:
        raise EvidenceError(problem)
    return whole[0] if whole else None


def _told(log: str) -> Iterator[tuple[str, list[str]]]:
    """Heads and the lines that follow them."""
    head, pieces = "", list[str]()
    for line in log.splitlines():
        if not is_part(line):
            continue
        said = line.removeprefix(MARK)
        if said.startswith("{"):
            if head or pieces:
                yield head, pieces
            head, pieces = said, []
        else:
            pieces.append(said)
    if head or pieces:
        yield head, pieces


def _join(said: str, pieces: list[str]) -> Delivery:
    head = _head(said)
    wanted = [f"{number + 1}/{head.pieces}" for number in range(head.pieces)]
    numbers = [piece.partition(" ")[0] for piece in pieces]
    if numbers != wanted:
        missing = sorted(set(wanted) - set(numbers), key=wanted.index)
        told = f"piece {missing[0]} is missing" if missing else "its pieces are out of order"
        raise EvidenceError(f"the log's copy of {head.run} is torn: {told}")
    try:
        data = base64.b64decode("".join(piece.partition(" ")[2] for piece in pieces), validate=True)
    except ValueError:
        data = b""
    if len(data) != head.size or sha256(data) != head.sha256:
        raise EvidenceError(f"the log's copy of {head.run} is altered: its digest is {sha256(data)}, not {head.sha256}")
    return Delivery(head, data)


def _head(said: str) -> Head:
    try:
        document = parse(said)
        if not isinstance(document, dict) or document.pop("schema") != SCHEMA:
            raise ValueError(SCHEMA)
        head = Head(**document)
    except (ValueError, KeyError, TypeError):
        raise EvidenceError("the log holds a record's copy without its first line, or of another version") from None
    kinds = {"str": str, "int": int, "list[str]": list}
    if wrong := [f.name for f in fields(Head) if not isinstance(getattr(head, f.name), kinds[str(f.type)])]:
        raise EvidenceError(f"the log's copy of a record states no valid {wrong[0]}")
    for name in (head.run, head.file):  # both become paths, and anyone may have printed to a job's log
        if name in ("", ".", "..") or name != PurePosixPath(name).name:
            raise EvidenceError(f"the log's copy of a record has the name {name!r}; expected a plain file name")
    return head
