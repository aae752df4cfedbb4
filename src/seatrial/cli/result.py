"""What a record says on a terminal, of a run as of a job that was looked at."""

from __future__ import annotations

from typing import Any

import click

from seatrial.cli import inspect_text, output


def show(record: dict[str, Any]) -> None:
    """The verdicts; of a job that was looked at, first what was seen, which needs no claims."""
    if record.get("observed"):
        click.echo()
        for line in inspect_text.lines(record):
            click.echo(line)
    if record["verdicts"] or not record.get("observed"):
        output.verdicts(record)
    elif record["ended_early"]:
        click.echo(f"\nended early: {record['ended_early']}")
