"""NCCL's logs of one run on one host: where they are written, and what of them is kept.

They are written to a folder of the host, not to the shared storage: every rank writes hundreds of lines at once.
"""

from __future__ import annotations

import gzip
import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from seatrial.canon import exact
from seatrial.events import Redactor
from seatrial.events.wires import NcclLog
from seatrial.probe.nccl.reader import Reader
from seatrial.probe.nccl.serialize import pack

KEPT_BYTES = 16 << 20  # of each log, from its beginning: connections are made at the start
BLOCK = 1 << 20
PINNED, OFI_NETWORK = "NCCL_NET", "Libfabric"  # with it NCCL fails where the OFI plugin does, instead of using TCP


def folder(run: str, attempt: int) -> Path:
    """The folder that the processes of this host write to. All of them compute the same one."""
    return Path(tempfile.gettempdir()) / f"seatrial-nccl-{run}" / f"a{attempt}"


def variables(run: str, attempt: int, rank: int | None = None) -> dict[str, str]:
    """What makes NCCL write one file for each process. `%h` and `%p` are its own: host and pid repeat in pods."""
    name = "" if rank is None else str(rank)
    return {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": str(folder(run, attempt) / f"r{name}.%h.%p")}


def collect(run: str, attempt: int, kept: Path, relative: str, redactor: Redactor) -> Iterator[NcclLog]:
    """One event for each log of this host; copies go to `kept`, which is `relative` to the run directory. The logs
    themselves are removed. Raises OSError."""
    there = folder(run, attempt)
    for log in sorted(there.glob("r*")) if there.is_dir() else ():
        kept.mkdir(parents=True, exist_ok=True)
        reader = Reader()
        with log.open("rb") as file:
            reader.read(file, log.name)
        digest = _copy(log, kept / f"{log.name}.gz", redactor)
        yield NcclLog(
            name=log.name,
            bytes=exact(log.stat().st_size),
            digest=f"sha256:{digest}",
            kept=f"{relative}/{log.name}.gz",
            facts=pack(reader.log),
        )
    shutil.rmtree(there.parent, ignore_errors=True)


def _copy(log: Path, target: Path, redactor: Redactor) -> str:
    """A compressed copy of the beginning, redacted; returns the hex digest of the whole."""
    whole, left = hashlib.sha256(), KEPT_BYTES
    with log.open("rb") as source, gzip.GzipFile(target, "wb", mtime=0) as copy:
        while lines := source.readlines(BLOCK):  # whole ones: a secret must not lie across two blocks
            block = b"".join(lines)
            whole.update(block)
            if left > 0:
                copy.write(redactor.text(block[:left].decode("utf-8", "backslashreplace")).encode())
                left -= len(block)
    return whole.hexdigest()
