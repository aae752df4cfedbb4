"""The report of a sealed record: a page, a text for pull requests, and their digests.

A report is a function of the record and of this version of seatrial: written again, it has the same bytes.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

__all__ = ["write"]


def write(record: Path) -> list[Path]:
    """Writes `report.html`, `report.md` and `report.sha256` beside a sealed record; returns their paths.

    Each file is whole or not there under its name, `report.sha256` last: a report that was cut short does not pass
    `seatrial verify`. Raises EvidenceError if `record` is no record, OSError if the storage refuses the files.
    """
    from seatrial.record import read_record
    from seatrial.report.markdown import markdown
    from seatrial.report.page import html
    from seatrial.report.view import read_account

    content, digest = read_record(record)
    account = read_account(content, digest, record.name)
    reports = {"report.html": html(account).encode(), "report.md": markdown(account).encode()}
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in reports.items())
    return [_replace(record.parent / name, data) for name, data in {**reports, "report.sha256": sums.encode()}.items()]


def _replace(path: Path, data: bytes) -> Path:
    """Whole or not at all under this name; never through a link that lies there. Raises OSError."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        with open(temporary, "xb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path
