"""`seatrial stop`."""

from __future__ import annotations

import click

from seatrial.cli.attach import say
from seatrial.cli.options import find_run, options
from seatrial.errors import EXIT_OK
from seatrial.launch.jobs import stop


@click.command("stop", short_help="stop a run on a Ray cluster; it seals what it saw")
@click.argument("run")
@click.option("--on", "address", default="", metavar="ADDRESS", help="the cluster, for a run submitted elsewhere")
@options(address="--on")
def command(run: str, address: str) -> int:
    """Stop RUN and wait for its seal. Exit 0 when there is one, or when the run had not begun.

    RUN is a submission id, the beginning of one, or `last`. Ctrl-C stops waiting, not stopping.
    """
    dashboard, job = find_run(run, address)
    if job.ended:
        click.echo(f"{job.id} has ended already ({job.status})")
    sealed = stop(dashboard, job, say)
    if sealed:
        click.echo(f"sealed {sealed}\n  seatrial collect {job.id}   fetches it")
    else:
        click.echo(f"{job.id} had not begun: there is nothing to seal")
    return EXIT_OK
