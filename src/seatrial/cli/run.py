"""`seatrial run`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from seatrial.cli import output
from seatrial.cli.options import options
from seatrial.cli.progress import Progress
from seatrial.cli.result import write_report
from seatrial.errors import EXIT_OK, InputError
from seatrial.launch import run
from seatrial.trial.loader import Loaded, builtin, load

DEFAULT = Path("trial.yaml")


@click.command("run", short_help="run a trial and seal its record")
@click.argument("trial_file", type=click.Path(path_type=Path), required=False, metavar="[TRIAL]")
@click.option("--json", "as_json", is_flag=True, help="print the verdicts and the evidence as one JSON document")
@click.option(
    "--on", "address", default="", metavar="http://HOST:8265", help="run it on the Ray cluster that has this dashboard"
)
@click.option("--detach", is_flag=True, help="with --on: submit it, and leave it to itself")
def command(trial_file: Path | None, as_json: bool, address: str, detach: bool) -> int:
    """Run a trial: freeze its claims, train, reload, judge, seal, report.

    Without TRIAL this is ./trial.yaml, or the built-in local trial if there is none.

    With --on it is a job of a Ray cluster, which goes on whatever becomes of this terminal: Ctrl-C detaches from it.
    `seatrial attach` follows it again, `seatrial stop` ends it, `seatrial collect` fetches its record.
    """
    loaded, said = _choose(trial_file)
    if address:
        return _on(loaded, trial_file or (DEFAULT if DEFAULT.exists() else None), address, detach, as_json)
    if detach:
        raise InputError("--detach without --on", expected="--on http://HOST:8265: a run of this machine stays here")
    try:
        with Progress(loaded.trial, said, quiet=as_json) as progress:
            outcome = run(loaded.trial, progress.started, progress.event)
    except InputError as error:
        raise loaded.locate(error) from None
    reports = write_report(outcome.record)
    if as_json:
        output.document(outcome.content, outcome.digest)
    else:
        output.verdicts(outcome.content)
        output.paths(outcome.record, outcome.digest, reports.paths, bool(outcome.content["ended_early"]))
        if outcome.leftover:
            click.echo(
                f"seatrial: ended {len(outcome.leftover)} processes that were left: {'; '.join(outcome.leftover)}",
                err=True,
            )
    return reports.exit_code(outcome.content)


@options(address="--on")
def _on(loaded: Loaded, file: Path | None, address: str, detach: bool, as_json: bool) -> int:
    """Submits to an existing Ray cluster; follows and collects unless detached."""
    from seatrial.cli.attach import hints, watch
    from seatrial.launch.jobs import submit
    from seatrial.launch.jobs_dashboard import Dashboard

    def warn(line: str) -> None:
        click.echo(f"seatrial: {line}", err=True)

    try:
        submitted = submit(loaded.trial, file.resolve().parent if file else None, address, warn)
    except InputError as error:  # the address is an option, not a key of the trial's file
        raise error if error.field == "address" else loaded.locate(error) from None
    if detach:
        if as_json:
            click.echo(json.dumps({"run": submitted.id, "address": submitted.address}))
            return EXIT_OK
        return hints(submitted.id)
    click.echo(f"submitted {submitted.id} to {submitted.address}; Ctrl-C detaches\n", err=as_json)
    return watch(Dashboard.open(submitted.address)[0], submitted.id, None, as_json)


def _choose(path: Path | None) -> tuple[Loaded, str]:
    """The trial, and where it came from if the user did not say."""
    if path is not None:
        return load(path), ""
    if DEFAULT.exists():
        return load(DEFAULT), f"using {DEFAULT}"
    return builtin("local"), "no trial.yaml here: the built-in local trial"
