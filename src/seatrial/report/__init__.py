"""The report of a sealed record: a page, a text for pull requests, and their digests.

A report is a function of the record and of this version of seatrial: written again, it has the same bytes.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from seatrial.errors import SeatrialError

__all__ = ["ReportFault", "write"]


class ReportFault(SeatrialError):
    """The report could not be made because of an error of seatrial's own. The record is sealed all the same."""


def write(record: Path) -> list[Path]:
    """Writes `report.html`, `report.md` and `report.sha256` beside a sealed record; returns their paths.

    Each file is whole or not there under its name, `report.sha256` last: a report that was cut short does not pass
    `seatrial verify`. Raises EvidenceError if `record` is no record, OSError if the storage refuses the files, and
    ReportFault, with no file touched, for an error of seatrial's own on the way to their texts.
    """
    from seatrial.record import read_record

    content, digest = read_record(record)
    reports = {name: text.encode() for name, text in _rendered(record, content, digest)}
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in reports.items())
    return [_replace(record.parent / name, data) for name, data in {**reports, "report.sha256": sums.encode()}.items()]


def _rendered(record: Path, content: dict[str, Any], digest: str) -> list[tuple[str, str]]:
    """`[(file name, text)]`, all of them or none. Raises ReportFault."""
    from seatrial.evidence.fault import fault
    from seatrial.report.markdown import markdown
    from seatrial.report.page import html
    from seatrial.report.view import view_of

    try:
        view = view_of(content, digest, record.name)
        return [("report.html", html(view)), ("report.md", markdown(view))]
    except Exception as error:  # a record can hold anything and be shown, so what is raised here is a bug of ours
        raise ReportFault(f"no report: {fault('the report', error)}; the record is sealed: {record}") from error


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
