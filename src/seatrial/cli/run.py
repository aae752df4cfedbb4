"""`seatrial run`."""

from __future__ import annotations

from pathlib import Path

import click

from seatrial import report
from seatrial.cli import output
from seatrial.cli.progress import Progress
from seatrial.errors import InputError
from seatrial.launch import run
from seatrial.trial.loader import Loaded, builtin, load

DEFAULT = Path("trial.yaml")


@click.command("run", short_help="run a trial and seal its record")
@click.argument("trial_file", type=click.Path(path_type=Path), required=False, metavar="[TRIAL]")
@click.option("--json", "as_json", is_flag=True, help="print the verdicts and the evidence as one JSON document")
def command(trial_file: Path | None, as_json: bool) -> int:
    """Run a trial: freeze its claims, train, reload, judge, seal, report.

    Without TRIAL this is ./trial.yaml, or the built-in local trial if there is none.
    """
    loaded, said = _choose(trial_file)
    try:
        with Progress(loaded.trial, said, quiet=as_json) as progress:
            outcome = run(loaded.trial, progress.started, progress.event)
    except InputError as error:
        raise loaded.locate(error) from None
    reports: list[Path] = []
    try:
        reports = report.write(outcome.record)
    except OSError as error:
        click.echo(f"seatrial: no report, the record is sealed: {error}; `seatrial report` writes it later", err=True)
    if as_json:
        output.document(outcome.content, outcome.digest)
    else:
        output.verdicts(outcome.content)
        output.paths(outcome.record, outcome.digest, reports, bool(outcome.content["ended_early"]))
        if outcome.leftover:
            click.echo(
                f"seatrial: ended {len(outcome.leftover)} processes that were left: {'; '.join(outcome.leftover)}",
                err=True,
            )
    return int(outcome.content["exit_code"])


def _choose(path: Path | None) -> tuple[Loaded, str]:
    """The trial, and where it came from if the user did not say."""
    if path is not None:
        return load(path), ""
    if DEFAULT.exists():
        return load(DEFAULT), f"using {DEFAULT}"
    return builtin("local"), "no trial.yaml here: the built-in local trial"
