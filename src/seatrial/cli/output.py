"""Prints verdicts, as a table and as JSON."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seatrial.trial.claims import KINDS

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_WIDTH = 100
STYLE = {"supported": "green", "refuted": "bold red", "not-established": "yellow"}


def console(stderr: bool = False) -> Console:
    """A console that wraps at the terminal's width, or at 100 columns elsewhere; NO_COLOR is respected."""
    from rich.console import Console

    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(
        stderr=stderr, width=None if terminal else PLAIN_WIDTH, highlight=False, emoji=False, soft_wrap=False
    )


def verdicts(record: dict[str, Any]) -> None:
    """Prints the table of claims, and the kinds of evidence without a claim."""
    from rich.table import Table
    from rich.text import Text

    out = console()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False, header_style="dim")
    for title, wraps in (("  claim", False), ("verdict", False), ("seen", True)):
        table.add_column(title, no_wrap=not wraps, overflow="fold")
    for verdict in record["verdicts"]:
        reason = f"{verdict['reason']}: " if verdict["verdict"] == "not-established" and verdict["reason"] else ""
        name = str(verdict["verdict"])
        table.add_row(
            Text(f"  {verdict['claim']}"), Text(name, style=STYLE.get(name, "")), Text(f"{reason}{verdict['seen']}")
        )
    with out.capture() as captured:
        out.print(table)
    click.echo("\n" + "\n".join(line.rstrip() for line in captured.get().splitlines()))
    if record.get("ended_early"):
        click.echo("\n" + _wrapped(f"ended early: {record['ended_early']}", out.width))
    if silent := unclaimed(record):
        click.echo("\n" + "\n".join(f"  {line}" for line in silent))


def _wrapped(text: str, width: int) -> str:
    return textwrap.fill(text, width, initial_indent="  ", subsequent_indent="  ", break_long_words=False)


def unclaimed(record: dict[str, Any]) -> list[str]:
    """The kinds without a claim. A throughput that was seen stands below them, never as a result."""
    claimed = {str(v["claim"]).partition(".")[0] for v in record["verdicts"]}
    kinds = [kind for kind in KINDS if kind not in claimed]
    lines = [f"not claimed   {', '.join(kinds)}"] if kinds else []
    seen = record["evidence"].get("performance", {}).get("performance.tokens_per_second", {})
    if "performance" in kinds and seen.get("state") == "value":
        lines.append(
            f"{'':<14}{rate(seen['value']['tokens_per_second'])} tokens/s was seen;"
            " nothing was claimed about its path or value"
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
