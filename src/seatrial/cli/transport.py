"""`seatrial transport`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from seatrial.cli import transport_text
from seatrial.cli.options import options
from seatrial.errors import EXIT_NOT_ESTABLISHED, EXIT_OK, EXIT_REFUTED, InputError
from seatrial.probe.nccl import counter_snapshots, logs, nccl_tests
from seatrial.probe.nccl.findings import CORROBORATED, REFUTED, Finding, findings
from seatrial.probe.nccl.graph import communicators
from seatrial.probe.nccl.summary import summary

NETWORKS = ("efa", "socket", "ib")


@click.command("transport", short_help="read from NCCL's logs which path the bytes took")
@click.argument("paths", nargs=-1, metavar="PATH…", type=click.Path(path_type=Path))
@click.option("--expect", type=click.Choice(NETWORKS), help="the network that you expect between hosts")
@click.option("--ranks", type=click.IntRange(min=1), default=None, help="how many ranks the job has")
@click.option(
    "--counters",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="counters of the hosts' kernels before and after the job: JSON lines, or the file of a run's probe",
)
@click.option(
    "--nccl-tests",
    "tests",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="output of all_reduce_perf or the like, to be shown too; it is no evidence of the job's own traffic",
)
@click.option("--snapshot", is_flag=True, help="print this host's counters now, as --counters takes them, and end")
@click.option("--json", "as_json", is_flag=True, help="print one JSON document")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="also write the paths as a page")
@options(of_files=True, counters="--counters", nccl_tests="--nccl-tests")
def command(
    paths: tuple[Path, ...],
    expect: str | None,
    ranks: int | None,
    counters: tuple[Path, ...],
    tests: tuple[Path, ...],
    snapshot: bool,
    as_json: bool,
    html: Path | None,
) -> int:
    """Read logs of NCCL and of aws-ofi-nccl: which path each connection took, and whether that is proved.

    PATH is a file, a folder of files or - for standard input; .gz and .zst are read as they are. Logs of any launcher
    will do; best is a file for each process: NCCL_DEBUG=INFO NCCL_DEBUG_FILE=/logs/%h.%p.

    A log alone never proves a path: `log-only`. With counters of every host that agree: `corroborated`.

    With --expect, exit 0 corroborated, 1 refuted, 3 otherwise; without it, 0.
    """
    if snapshot:
        click.echo(json.dumps(counter_snapshots.snapshot()))
        return EXIT_OK
    if not paths:
        raise InputError("missing", field="PATH", expected="log files, a folder of them, or - for standard input")
    log = logs.read(logs.files(paths), jobs=logs.cores())
    found = communicators(log)
    moves = counter_snapshots.moved(counters) if counters else None
    answers = findings(log, found, expect=expect or "", ranks=ranks or 0, counters=moves)
    document = summary(log, found, answers) | {"connectivity": [nccl_tests.read(path).json() for path in tests]}
    if html:
        from seatrial.cli import transport_page

        transport_page.write(html, document)
    if as_json:
        click.echo(json.dumps(document, indent=2))
    else:
        for line in transport_text.lines(document, expect or "", ranks or 0):
            click.echo(line)
    return _exit_code(answers, expect or "")


def _exit_code(answers: list[Finding], expect: str) -> int:
    between = next(answer for answer in answers if answer.question == "internode")
    if not expect:
        return EXIT_OK
    if between.word == REFUTED:
        return EXIT_REFUTED
    return EXIT_OK if between.word == CORROBORATED and between.value == expect else EXIT_NOT_ESTABLISHED
