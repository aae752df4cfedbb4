"""Prints a record, of a run or of an inspected job."""

from __future__ import annotations

from typing import Any

import click

from seatrial.cli import inspect_text, output


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
