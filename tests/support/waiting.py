"""Waiting for other processes. The limit only ends a hang: no machine is so slow that it comes near."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

LIMIT_S = 600.0
POLL_S = 0.05


def wait_for(
    there: Callable[[], Any], what: str, told: Callable[[], str] = str, by: subprocess.Popen[Any] | None = None
) -> Any:
    """What `there` returns, once it is true. `by` is the process that brings it about, where it is one alone.

    Raises AssertionError at the limit, or at the end of `by`, with `what` was waited for and what is `told` of it then.
    """
    deadline = time.monotonic() + LIMIT_S
    while True:
        ended = by is not None and by.poll() is not None
        if found := there():
            return found
        if ended or time.monotonic() >= deadline:
            why = f"{by.args} ended with {by.returncode}" if by and ended else f"{LIMIT_S:g} s have passed"
            raise AssertionError(f"{why}, and there is still not: {what}\n{told()}".rstrip())
        time.sleep(POLL_S)


def output_of(process: subprocess.Popen[str], what: str, told: Callable[[], str] = str) -> tuple[str, str]:
    """What a process wrote on stdout and stderr until its end; "" for one that is not a pipe.

    Raises AssertionError at the limit with what it has written so far.
    """
    try:
        out, err = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired as error:
        written = b"".join(part for part in (error.output, error.stderr) if part).decode(errors="replace")
        raise AssertionError(f"after {LIMIT_S:g} s {what} has not ended; it wrote:\n{written}\n{told()}") from error
    return out or "", err or ""


def last_lines(paths: Iterator[Path] | list[Path], count: int = 5) -> str:
    """The last lines of each file that has any, each file under its path."""
    found = []
    for path in sorted(paths):
        lines = path.read_text(errors="replace").splitlines()[-count:] if path.is_file() else []
        found += [f"{path}:", *(f"  {line}" for line in lines)] if lines else []
    return "\n".join(found)
