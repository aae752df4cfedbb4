"""`seatrial show`."""

from __future__ import annotations

import click

from seatrial.cli import output, result
from seatrial.record import find, read_record


@click.command("show", short_help="show the verdicts of a run")
@click.argument("run", default="last")
@click.option("--json", "as_json", is_flag=True, help="print record, trial, verdicts and evidence as one JSON document")
@click.option("--exit-code", is_flag=True, help="end with the verdicts' exit code")
def command(run: str, as_json: bool, exit_code: bool) -> int:
    """Show the verdicts of RUN: a run directory, a record, the beginning of a run id, or `last`."""
    path = find(run)
    record, digest = read_record(path)
    if as_json:
        output.document(record, digest)
    else:
        click.echo(
            f"{record['run']} · sealed {record['sealed'][:19].replace('T', ' ')} UTC · seatrial {record['seatrial']}"
        )
        result.show(record)
        output.paths(
            path, digest, [p for p in [path.parent / "report.html"] if p.is_file()], bool(record["ended_early"])
        )
    return int(record["exit_code"]) if exit_code else 0
