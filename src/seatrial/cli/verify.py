"""`seatrial verify`."""

from __future__ import annotations

import json

import click

from seatrial.cli import output
from seatrial.errors import EXIT_OK, EXIT_REFUTED
from seatrial.record import find, verify


@click.command("verify", short_help="check that a sealed run is unchanged")
@click.argument("run", default="last")
@click.option("--deep", is_flag=True, help="hash checkpoint shards too")
@click.option("--expect", default="", metavar="sha256:…", help="the record's digest as you kept it elsewhere")
@click.option("--json", "as_json", is_flag=True, help="print the result as one JSON document")
def command(run: str, deep: bool, expect: str, as_json: bool) -> int:
    """Compare RUN with its record: files missing, changed and unlisted. Exit 0 intact, 1 differs.

    Without --expect only accidents are detected: whoever can change a file can change the record too.
    """
    path = find(run)
    result = verify(path, deep=deep, expect=expect)
    if as_json:
        click.echo(
            json.dumps(
                {
                    "record": result.record,
                    "intact": not result.problems,
                    "files": result.files,
                    "shards": result.shards,
                    "deep": deep,
                    "problems": result.problems,
                    "notes": result.notes,
                },
                indent=2,
            )
        )
    else:
        for problem in result.problems:
            click.echo(problem)
        for note in result.notes:
            click.echo(f"note: {note}")
        how = "digests" if deep else "sizes; --deep hashes them"
        compared = f"{result.files} files and {result.shards} checkpoint shards ({how})"
        said = "intact" if not result.problems else f"{len(result.problems)} differences"
        click.echo(f"{said}: {output.near(path)} {result.record[:17]}…, {compared}")
    return EXIT_REFUTED if result.problems else EXIT_OK
