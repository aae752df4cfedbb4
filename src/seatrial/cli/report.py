"""`seatrial report`."""

from __future__ import annotations

import click

from seatrial import report
from seatrial.cli import output
from seatrial.record import find


@click.command("report", short_help="write report.html and report.md again")
@click.argument("run", default="last")
def command(run: str) -> int:
    """Write report.html and report.md of RUN from its record."""
    for path in report.write(find(run)):
        click.echo(output.near(path))
    return 0
