"""`seatrial judge`."""

from __future__ import annotations

import click

from seatrial.cli import output, result
from seatrial.errors import EvidenceError
from seatrial.probe.processes import of_run
from seatrial.record import find_run, latest, read_record, seal


@click.command("judge", short_help="judge a run again, offline")
@click.argument("run", default="last")
@click.option(
    "--json", "as_json", is_flag=True, help="print the new record's verdicts and evidence as one JSON document"
)
def command(run: str, as_json: bool) -> int:
    """Judge RUN again from its events, and seal a new record that cites the older one.

    Trains nothing, and reads only the run directory. Also seals a run that has no record yet.
    """
    root = find_run(run)
    if going := list(of_run(root)):
        raise EvidenceError(f"{root.name} is still running (process {going[0].pid}); it seals its record when it ends")
    try:
        cites = read_record(latest(root))[1]
    except EvidenceError:
        cites = ""
    path, _ = seal(root, cites)
    record, digest = read_record(path)
    reports = result.write_report(path)
    if as_json:
        output.document(record, digest)
    else:
        result.show(record)
        output.paths(path, digest, reports.paths, bool(record["ended_early"]))
    return reports.exit_code(record)
