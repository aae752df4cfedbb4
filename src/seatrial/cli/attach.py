"""`seatrial attach`, and what `seatrial run --on` shares with it."""

from __future__ import annotations

from pathlib import Path

import click

from seatrial.cli.collect import fetch
from seatrial.cli.options import find_run, options
from seatrial.errors import EXIT_OK
from seatrial.launch.jobs import follow
from seatrial.launch.jobs_dashboard import Dashboard

INTERRUPTED = 130  # as shells say it


@click.command("attach", short_help="follow a run on a Ray cluster")
@click.argument("run", default="last")
@click.option("--on", "address", default="", metavar="ADDRESS", help="the cluster, for a run submitted elsewhere")
@click.option("--to", type=click.Path(path_type=Path), help="collect into this folder; default: ./runs")
@click.option("--json", "as_json", is_flag=True, help="print the verdicts and the evidence as one JSON document")
@options(address="--on", to="--to")
def command(run: str, address: str, to: Path | None, as_json: bool) -> int:
    """Follow RUN to its end, then collect its record and show its verdicts.

    RUN is a submission id, the beginning of one, or `last`. Ctrl-C detaches; the run goes on.
    """
    dashboard, job = find_run(run, address)
    return watch(dashboard, job.id, to, as_json)


def watch(dashboard: Dashboard, name: str, to: Path | None, as_json: bool) -> int:
    """Follows a run and collects it; returns the verdicts' exit code. Ctrl-C leaves it to itself."""
    try:
        job = follow(dashboard, name, lambda line: say(line, err=as_json))
    except KeyboardInterrupt:
        click.echo("", err=True)
        hints(name, err=True)
        return INTERRUPTED
    return fetch(dashboard, job, to, as_json)


def say(line: str, err: bool = False) -> None:
    """Shows a line of the job's log: seatrial's own without its name, which every one of them has."""
    if line.strip():
        click.echo(f"  {line.removeprefix('seatrial: ')}" if line.startswith("seatrial: ") else line, err=err)


def hints(name: str, err: bool = False) -> int:
    """Says that the run goes on, and what can be done about it."""
    click.echo(f"{name} goes on without this terminal", err=err)
    for word, what in (("attach", "follows it"), ("stop", "ends and seals it"), ("collect", "fetches its record")):
        click.echo(f"  {f'seatrial {word} {name}':<{len(name) + 18}} {what}", err=err)
    return EXIT_OK
