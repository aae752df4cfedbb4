"""`seatrial inspect`."""

from __future__ import annotations

from pathlib import Path

import click

from seatrial.cli import output, result
from seatrial.cli.options import options
from seatrial.errors import InputError
from seatrial.launch.inspect import InspectRequest, inspect
from seatrial.launch.jobs import NoClient
from seatrial.trial.cluster import Storage


@click.command("inspect", short_help="look at a training job that already runs")
@click.argument("resource", required=False, default="", metavar="[rayjob/NAME|raycluster/NAME]")
@click.option("--address", default="", metavar="URL", help="Ray's dashboard: http://HOST:8265")
@click.option("--job", default="", metavar="ID", help="the job, where several train: its submission id or Ray's")
@click.option("-n", "--namespace", default="", help="of the resource  [default: the context's]")
@click.option("--context", default="", help="of the kubeconfig  [default: the current one]")
@click.option(
    "--window",
    type=click.FloatRange(1, 600),
    default=20.0,
    show_default=True,
    metavar="SECONDS",
    help="how long to look",
)
@click.option("--claims", type=click.Path(path_type=Path), metavar="FILE", help="judge these: a file with `claims:`")
@click.option("--no-actors", is_flag=True, help="start nothing on the cluster; shows what can be seen without")
@click.option(
    "--to",
    "storage",
    type=click.Path(path_type=Path),
    default=Path(Storage.model_fields["path"].default),
    show_default=True,
    metavar="FOLDER",
    help="where the sealed record goes",
)
@click.option("--json", "as_json", is_flag=True, help="print what was seen, and the verdicts, as one JSON document")
@options(address="--address", job="--job", storage="--to", resource="RESOURCE", context="--context")
def command(
    resource: str,
    address: str,
    job: str,
    namespace: str,
    context: str,
    window: float,
    claims: Path | None,
    no_actors: bool,
    storage: Path,
    as_json: bool,
) -> int:
    """Look at a Ray Train job that runs: which ranks run where, what they have loaded, which path their bytes take.

    Read-only, without a restart: a short job without CPUs starts one observer on each host of the training, which ends
    after the window. What was seen is sealed like a run; what cannot be seen is unknown, with the reason.

    Exit codes: 0 shown; with --claims those of run; 2 the input is wrong; 4 the job ended, or the connection was lost.
    """
    if job and not address:
        raise InputError("given without --address", field="--job", expected="--address http://HOST:8265 beside it")
    if not address and not resource:
        expected = "rayjob/NAME, raycluster/NAME, or --address http://HOST:8265"
        raise InputError("nothing to look at", expected=expected)
    asked = InspectRequest(address, resource, namespace, context, job, window, claims, not no_actors, storage)
    try:
        outcome = inspect(asked, lambda line: click.echo(f"seatrial: {line}", err=True))
    except NoClient as error:
        fix = f"{error.fix}, or `--no-actors` for what can be seen without"
        raise InputError(error.seen, expected=error.expected, fix=fix) from None
    reports = result.write_report(outcome.record)
    if as_json:
        output.document(outcome.content, outcome.digest)
    else:
        result.show(outcome.content)
        output.paths(outcome.record, outcome.digest, reports.paths, False)
    return reports.exit_code(outcome.content)
