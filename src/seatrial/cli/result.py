"""Prints a record, of a run or of an inspected job, and writes its report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from seatrial import report
from seatrial.cli import inspect_text, output
from seatrial.errors import EXIT_INTERNAL


@dataclass(frozen=True)
class Reports:
    """The report's files beside a record, none where they could not be written. `faulty`: by an error of our own."""

    paths: list[Path]
    faulty: bool = False

    def exit_code(self, record: dict[str, Any]) -> int:
        """The record's exit code, or 70: a report that is missing by our own fault must not pass unseen."""
        return EXIT_INTERNAL if self.faulty else int(record["exit_code"])


def write_report(record: Path) -> Reports:
    """Writes the report of a record that has just been sealed. What keeps it from being written is a line on stderr."""
    try:
        return Reports(report.write(record))
    except report.ReportFault as error:
        click.echo(f"seatrial: {error}; please report this line", err=True)
        return Reports([], faulty=True)
    except OSError as error:  # the storage may be full, or mounted for reading only
        said = f"no report, the record is sealed: {error}; `seatrial report` writes it later"
        click.echo(f"seatrial: {said}", err=True)
        return Reports([])


def show(record: dict[str, Any]) -> None:
    """Prints the verdicts. Of an inspected job it first prints what was seen, with or without claims."""
    if record.get("observed"):
        click.echo()
        for line in inspect_text.lines(record):
            click.echo(line)
    if record["verdicts"] or not record.get("observed"):
        output.verdicts(record)
    else:
        output.remarks(record)
