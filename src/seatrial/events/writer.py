"""Appends events to one process's own file: whole lines, numbered and chained by hash."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import seatrial
from seatrial.canon import canonical, exact, plain, sha256, utc
from seatrial.events.base import Event
from seatrial.events.redact import Redactor
from seatrial.events.schema import Closed, Opened

NODE_VARIABLE = "SEATRIAL_RAY_NODE"  # set by whoever knows the Ray node id of this process
GENESIS = sha256(b"")  # the hash before the first line


class Writer:
    """One event file. Lines are written with a single `os.write`, so that a reader sees whole lines or a torn tail.

    Raises OSError when the storage refuses a line: evidence that cannot be written ends the run, it is never dropped.
    """

    def __init__(
        self,
        path: Path,
        *,
        run: str,
        attempt: int,
        role: str,
        claims: str,
        trial: str,
        rank: int | None = None,
        redactor: Redactor | None = None,
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._redactor = redactor or Redactor()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        self._size, self._sequence, self._previous = 0, 0, GENESIS
        self._lock = threading.Lock()
        self.write(
            Opened(
                seatrial=seatrial.__version__,
                run=run,
                attempt=attempt,
                role=role,
                rank=rank,
                host=host_identity(),
                machine=machine_identity(),
                pid=os.getpid(),
                claims=claims,
                trial=trial,
            )
        )

    def write(self, event: Event) -> None:
        """Appends one event."""
        body: dict[str, Any] = event.model_dump(by_alias=True)
        for name in event.TEXT:  # digests, names and numbers stay as they are: masking them would forge evidence
            body[name] = self._redactor.value(plain(body[name]))
        with self._lock:
            at = {"seq": self._sequence, "prev": self._previous, "utc": utc(), "mono": exact(time.monotonic_ns())}
            whole = {**body, **at}
            try:
                line = canonical(whole) + b"\n"
            except ValueError:  # rare: a number that is not finite, a lone surrogate
                line = canonical(plain(whole)) + b"\n"
            self._append(line)
            self._sequence, self._previous = self._sequence + 1, sha256(line)

    def _append(self, line: bytes) -> None:
        """One whole line or nothing: what a full storage took of it is cut off again."""
        try:
            if os.write(self._file, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        except OSError:
            os.ftruncate(self._file, self._size)
            raise
        self._size += len(line)

    def close(self) -> None:
        """Writes `closed`: this process says that it has nothing more to say."""
        self.write(Closed())
        self.abandon()

    def abandon(self) -> None:
        """Closes the file without `closed`; evidence of this process ends here."""
        os.close(self._file)

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close() if kind is None else self.abandon()


def host_identity() -> str:
    """Ray node id (else the host's name) and network-namespace inode: two pods of one machine are two hosts."""
    try:
        namespace = str(os.stat("/proc/self/ns/net").st_ino)
    except OSError:
        namespace = "unknown"
    return f"{os.environ.get(NODE_VARIABLE) or socket.gethostname()}/net:{namespace}"


def machine_identity() -> str:
    """The Kubernetes node name where the pod was told it, else the boot id."""
    if node := os.environ.get("NODE_NAME"):
        return f"node:{node}"
    try:
        return "boot:" + Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"host:{socket.gethostname()}"
