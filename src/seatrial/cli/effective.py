"""The layout of `seatrial check --effective`. Names and line numbers are never wrapped; values and reasons are."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

import click

from seatrial.check.effective import Effective, EffectiveLine

_SHORT = 32  # a longer value gets lines of its own
_NARROW = 24  # the least width of a column of reasons
_GAP = 2


@dataclass(frozen=True)
class _Widths:
    name: int
    value: int
    why: int  # 0: no room beside the value; the reason goes below it
    line: int

    @property
    def rest(self) -> int:
        """The width between name and line number."""
        return self.value + (_GAP + self.why if self.why else 0)


def echo(found: list[Effective]) -> None:
    """Prints the derived values of each resource."""
    from seatrial.cli.output import console

    out = console()
    for each in found:
        name = each.manifest.metadata["name"].raw or "without a name"
        click.echo(f"{each.manifest.root.file}: {each.manifest.kind} {name}, under KubeRay {each.kuberay}")
        if each.note:
            click.echo(f"note: {each.note}")
        for text, style in rows(each.lines, out.width):
            out.print(text, style=style or None, markup=False, soft_wrap=True)


def rows(lines: list[EffectiveLine], width: int) -> Iterator[tuple[str, str]]:
    """Lines of text, each with its style. They have at most `width` columns, unless a single word is longer."""
    widths = _widths(lines, width)
    part = ""
    for line in lines:
        if line.part != part:
            part = line.part
            yield f"  {part}", "bold"
        yield from _row(line, widths)


def _widths(lines: list[EffectiveLine], width: int) -> _Widths:
    name = max((len(line.name) for line in lines), default=0) + 4
    number = max((len(str(line.line)) for line in lines), default=0)
    value = max((len(line.value) for line in lines if len(line.value) <= _SHORT), default=0)
    rest = max(width - name - number - 2 * _GAP, _NARROW)
    why = rest - value - _GAP
    return _Widths(name, value, why, number) if why >= _NARROW else _Widths(name, rest, 0, number)


def _row(line: EffectiveLine, widths: _Widths) -> Iterator[tuple[str, str]]:
    if widths.why and len(line.value) <= widths.value:
        first, *others = _wrapped(line.reason, widths.why)
        middle = [(f"{line.value:<{widths.value}}{'':{_GAP}}{first}", "")]
        middle += [(f"{'':{widths.value + _GAP}}{text}", "") for text in others]
    else:
        middle = [(text, "") for text in _wrapped(line.value, widths.rest)]
        middle += [(f"  {text}", "dim") for text in _wrapped(line.reason, widths.rest - 2)]
    for position, (text, style) in enumerate(middle):
        name, number = (f"    {line.name}", str(line.line or "")) if position == 0 else ("", "")
        row = f"{name:<{widths.name}}{'':{_GAP}}{text:<{widths.rest}}{'':{_GAP}}{number:>{widths.line}}"
        yield row.rstrip(), style


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
