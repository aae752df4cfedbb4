"""report.md: the verdicts, the key figures and the record's digest, in GitHub's Markdown."""

from __future__ import annotations

import re

from seatrial.report import summary
from seatrial.report.page import moment, trial_name, verify_command
from seatrial.report.reading import string, visible
from seatrial.report.view import RecordView, VerdictView

MAX_CELL = 320
MAX_ROWS = 60
MARKS = {"supported": "✅", "refuted": "❌", "not-established": "❔", "unreadable": "❔"}
_SYNTAX = re.compile(r"[\\`*_\[\]<>#|~&$]")
_LINKED = re.compile(r"(?<=[@#])(?=\w)|(?<=:)(?=//)|(?<=[wW]{3})(?=\.)")


def markdown(view: RecordView) -> str:
    """The text."""
    record = view.record
    parts = [f"### {escape(trial_name(view))}: {escape(summary.headline(view))}"]
    parts += [f"> **{banner.label}:** {escape(banner.text)}" for banner in summary.banners(view)]
    parts.append(_verdicts(view))
    if line := summary.not_claimed(view):
        parts.append(escape(line))
    parts.append(_figures(view))
    about = [
        f"run {code(string(record.get('run'), 200))}",
        f"sealed {escape(moment(record.get('sealed')))}",
        f"seatrial {escape(string(record.get('seatrial'), 60))}",
    ]
    parts += [" · ".join(about), f"record {code(view.digest)}", f"verify with {code(verify_command(view))}"]
    return "\n\n".join(part for part in parts if part) + "\n"


def escape(text: str) -> str:
    """Text that stays text: one line, no markup, no table cell of its own, and nobody is mentioned by it."""
    flat = " ".join(visible(text).split())
    cut = flat if len(flat) <= MAX_CELL else flat[:MAX_CELL] + "…"
    parts = _LINKED.split(cut)
    return "<!-- -->".join(_SYNTAX.sub(_escaped, part) for part in parts)


def _escaped(found: re.Match[str]) -> str:
    return {"<": "&lt;", ">": "&gt;", "&": "&amp;"}.get(found[0], "\\" + found[0])


def code(text: str) -> str:
    """A code span, fenced by more backticks than it holds; fit for a table cell."""
    flat = " ".join(visible(text).split()) or "-"
    flat = flat if len(flat) <= MAX_CELL else flat[:MAX_CELL] + "…"
    fence = "`" * (max((len(run) for run in re.findall("`+", flat)), default=0) + 1)
    space = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{space}{flat.replace('|', chr(92) + '|')}{space}{fence}"


def _verdicts(view: RecordView) -> str:
    if not view.verdicts:
        return ""
    rows = [_row(verdict, view) for verdict in view.shown[:MAX_ROWS]]
    more = len(view.verdicts) - len(rows)
    table = ["| Claim | Verdict | Asked | Seen |", "| --- | --- | --- | --- |", *rows]
    return "\n".join(table) + (f"\n\n{more} more in the record." if more > 0 else "")


def _row(verdict: VerdictView, view: RecordView) -> str:
    reason = f" ({escape(verdict.reason)})" if verdict.reason else ""
    beside = f"; {escape(summary.transport_line(view))}" if verdict.kind == "performance" else ""
    word = f"{MARKS[verdict.word]} {escape(verdict.shown)}{reason}"
    return f"| {code(verdict.claim)} | {word} | {escape(verdict.asked) or '—'} | {escape(verdict.seen)}{beside} |"


def _figures(view: RecordView) -> str:
    lines = [
        f"- {figure.label}: **{escape(figure.value)}**" + (f" ({escape(figure.note)})" if figure.note else "")
        for figure in summary.key_figures(view)
    ]
    return "\n".join(lines)
