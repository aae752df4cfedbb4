"""`seatrial collect`."""

from __future__ import annotations

from pathlib import Path

import click

from seatrial.cli import output
from seatrial.cli.options import find_run, options
from seatrial.cli.result import Reports, write_report
from seatrial.launch.jobs_collect import Collected, collect
from seatrial.launch.jobs_dashboard import Dashboard, SubmittedJob

RUNS = Path("runs")  # where `seatrial show` looks for runs


@click.command("collect", short_help="fetch the sealed record of a run on a Ray cluster")
@click.argument("run", default="last")
@click.option("--on", "address", default="", metavar="ADDRESS", help="the cluster, for a run submitted elsewhere")
@click.option("--to", type=click.Path(path_type=Path), help="the folder to collect into; default: ./runs")
@click.option("--json", "as_json", is_flag=True, help="print the verdicts and the evidence as one JSON document")
@options(address="--on", to="--to")
def command(run: str, address: str, to: Path | None, as_json: bool) -> int:
    """Fetch the record of RUN, which has ended, verify it, and show its verdicts. Exit codes as of `seatrial run`.

    From the run's storage where that folder is mounted here, else from the job's log: record, claims, events, logs,
    without checkpoint shards. RUN is a submission id, the beginning of one, or `last`.
    """
    dashboard, job = find_run(run, address)
    return fetch(dashboard, job, to, as_json)


def fetch(dashboard: Dashboard, job: SubmittedJob, to: Path | None, as_json: bool) -> int:
    """Collects a run that has ended and shows it; returns the verdicts' exit code."""
    found = collect(dashboard, job, to, RUNS)
    reports = _reports(found)
    if as_json:
        output.document(found.content, found.digest)
    else:
        output.verdicts(found.content)
        output.paths(found.record, found.digest, reports.paths, bool(found.content["ended_early"]))
    if found.left_out:
        click.echo(f"seatrial: {len(found.left_out)} files stayed on the cluster, {found.left_out[0]} first", err=True)
    return reports.exit_code(found.content)


def _reports(found: Collected) -> Reports:
    """Reports beside the record, unless they are there."""
    there = [path for path in (found.record.parent / "report.html",) if path.is_file()]
    return Reports(there) if there else write_report(found.record)
