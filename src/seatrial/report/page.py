"""report.html: one file that needs nothing else and runs nothing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from seatrial.report import summary
from seatrial.report.reading import mapping, sequence, string, visible
from seatrial.report.sections import beside, sections_of
from seatrial.report.view import RecordView
from seatrial.report.words import VERDICTS

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "June", "July", "Aug", "Sept", "Oct", "Nov", "Dec")


def html(view: RecordView) -> str:
    """The page."""
    record = view.record
    page: dict[str, Any] = {
        "view": view,
        "name": trial_name(view),
        "run": string(record.get("run"), 200),
        "sealed": string(record.get("sealed"), 60),
        "sealed_shown": moment(record.get("sealed")),
        "seatrial": string(record.get("seatrial"), 60),
        "python": string(record.get("python"), 60),
        "cites": string(record.get("cites"), 100),
        "headline": summary.headline(view),
        "banners": summary.banners(view),
        "not_claimed": summary.not_claimed(view),
        "key_figures": summary.key_figures(view),
        "asked": summary.asked_line(view),
        "exit_line": summary.exit_line(view),
        "transport": summary.transport_line(view),
        "sections": sections_of(view),
        "artifact_count": len(sequence(record.get("artifacts"))),
        "verify": verify_command(view),
        "meanings": VERDICTS,
        "beside": lambda fact: beside(fact, view),
    }
    return _environment().get_template("report.html").render(page)


def trial_name(view: RecordView) -> str:
    """The trial's name, else the run's."""
    metadata = mapping(mapping(view.record.get("trial")).get("metadata"))
    return string(metadata.get("name"), 160) or string(view.record.get("run"), 160) or "unnamed trial"


def verify_command(view: RecordView) -> str:
    """The command that compares the run with this record, safe to paste whatever the run is called."""
    run = view.record.get("run")
    name = run if isinstance(run, str) and run.isprintable() and 0 < len(run) <= 120 and visible(run) == run else "RUN"
    target = name if view.file == "record.json" else f"{name}/{view.file}"
    return f"seatrial verify {shlex.quote(visible(target))} --expect {view.digest}"


def moment(value: Any) -> str:
    """An RFC 3339 time as a person reads it; anything else as it is."""
    text = string(value, 60)
    try:
        year, month, day = text[:10].split("-")
        return f"{int(day)} {_MONTHS[int(month) - 1]} {int(year)}, {text[11:16]} UTC" if text.endswith("Z") else text
    except (ValueError, IndexError):
        return text


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    made = Environment(
        loader=FunctionLoader(_source()),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(breakable=_breakable, quoted=_quoted)
    return made


def _breakable(name: str) -> Markup:
    """A dotted name that may break after a dot, a slash or an underscore."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"([._/])(?=\w)", r"\1<wbr>", str(escape(name))))


def _quoted(text: str) -> Markup:
    """Text whose `quoted` words are set as code."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]{1,80})`", r"<code>\1</code>", str(escape(text))))


def _source() -> Callable[[str], str | None]:
    """Templates by name, also from a zipped package."""
    folder = files("seatrial.report") / "templates"
    return lambda name: (folder / name).read_text(encoding="utf-8") if (folder / name).is_file() else None
