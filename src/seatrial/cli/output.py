"""Prints verdicts, as a table and as JSON."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seatrial.errors import EXIT_INTERNAL
from seatrial.evidence.facts import meaning, performance
from seatrial.report.reading import faults, value_of
from seatrial.trial.claims import KINDS

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

PLAIN_WIDTH = 100
OF_OURS = "what is missing because of it says nothing about the run"
STYLE = {"supported": "green", "refuted": "bold red", "not-established": "yellow"}


def console(stderr: bool = False) -> Console:
    """A console that wraps at the terminal's width, or at 100 columns elsewhere; NO_COLOR is respected."""
    from rich.console import Console

    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(
        stderr=stderr, width=None if terminal else PLAIN_WIDTH, highlight=False, emoji=False, soft_wrap=False
    )


def verdicts(record: dict[str, Any]) -> None:
    """Prints the table of claims, what its reasons mean, the kinds of evidence without a claim, and what went wrong."""
    from rich.table import Table
    from rich.text import Text

    plain: dict[str, Any] = {"box": None, "pad_edge": False, "show_edge": False}
    table = Table(**plain, padding=(0, 2, 0, 0), header_style="dim")
    for title, wraps in (("  claim", False), ("verdict", False), ("seen", True)):
        table.add_column(title, no_wrap=not wraps, overflow="fold")
    for verdict in record["verdicts"]:
        reason = f"{verdict['reason']}: " if verdict["verdict"] != "supported" and verdict["reason"] else ""
        name = str(verdict["verdict"])
        table.add_row(
            Text(f"  {verdict['claim']}"), Text(name, style=STYLE.get(name, "")), Text(f"{reason}{verdict['seen']}")
        )
    _print(table)
    if said := legend(record):
        meanings = Table(
            box=None, pad_edge=False, padding=(0, 3, 0, 0), show_edge=False, show_header=False, style="dim"
        )
        for reason, sentence in said.items():
            meanings.add_row(Text(f"  {reason}"), Text(sentence))
        _print(meanings)
    remarks(record)
    if silent := unclaimed(record):
        click.echo("\n" + "\n".join(f"  {line}" for line in silent))


def remarks(record: dict[str, Any]) -> None:
    """Prints what a reader must know of the whole record: that the run ended early, and faults of seatrial's own."""
    from rich.text import Text

    width = console().width
    if record.get("ended_early"):
        click.echo("\n" + _wrapped(f"ended early: {record['ended_early']}", width))
    if found := faults(record):
        said = [*(f"Fault of seatrial's own: {fault}" for fault in found), f"exit code {EXIT_INTERNAL}: {OF_OURS}"]
        _print(Text("\n".join(_wrapped(line, width) for line in said), style="bold red"))


def legend(record: dict[str, Any]) -> dict[str, str]:
    """What each reason in the table means, in the table's order."""
    found = dict.fromkeys(str(v["reason"]) for v in record["verdicts"] if v["verdict"] != "supported")
    return {reason: sentence for reason in found if (sentence := meaning(reason))}


def _print(shown: RenderableType) -> None:
    """Below an empty line, without spaces at the ends of lines."""
    out = console()
    with out.capture() as captured:
        out.print(shown)
    click.echo("\n" + "\n".join(line.rstrip() for line in captured.get().splitlines()))


def _wrapped(text: str, width: int) -> str:
    return textwrap.fill(text, width, initial_indent="  ", subsequent_indent="  ", break_long_words=False)


def unclaimed(record: dict[str, Any]) -> list[str]:
    """The kinds without a claim. A throughput that was seen stands below them, never as a result."""
    claimed = {str(v["claim"]).partition(".")[0] for v in record["verdicts"]}
    kinds = [kind for kind in KINDS if kind not in claimed]
    lines = [f"not claimed   {', '.join(kinds)}"] if kinds else []
    seen = value_of(record, performance.TOKENS_PER_SECOND)
    if "performance" in kinds and seen:
        lines.append(
            f"{'':<14}{rate(seen.tokens_per_second)} tokens/s was seen; nothing was claimed about its path or value"
        )
    return lines


def rate(value: float) -> str:
    """`9.1k`, `843`."""
    return f"{value / 1000:.1f}k" if value >= 1000 else f"{value:.0f}"


def paths(record: Path, digest: str, reports: list[Path], ended_early: bool) -> None:
    """Prints the paths of record, report and logs."""
    out = console()
    out.print()
    out.print(f"  record   {digest[:17]}…  {near(record)}", markup=False, soft_wrap=True)
    for path in reports:
        if path.suffix == ".html":
            out.print(f"  report   {near(path)}", markup=False, soft_wrap=True)
    if ended_early:
        out.print(f"  logs     {near(record.parent / 'logs')}", markup=False, soft_wrap=True)
    out.print()


def near(path: Path) -> str:
    """`path` relative to the working directory if it is below that, else unchanged."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def document(record: dict[str, Any], digest: str) -> None:
    """Prints the record's verdicts and evidence as one JSON document."""
    shown = {
        "record": digest,
        **{k: record[k] for k in ("run", "trial", "verdicts", "evidence", "ended_early", "exit_code")},
    }
    json.dump(shown, sys.stdout, ensure_ascii=False, indent=2)
    sys.stdout.write(os.linesep)
