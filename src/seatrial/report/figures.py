"""Which charts a kind has, from the facts that it is drawn from. A fact of an unknown shape has no chart."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from seatrial.evidence.witness.statistics import thin
from seatrial.report.charts import Bar, Level, Line, Point, SecondAxis, bar_chart, histogram, line_chart
from seatrial.report.reading import clipped, mapping, number, seconds, sequence, size
from seatrial.report.summary import transport
from seatrial.report.view import Account

MAX_BARS = 12


@dataclass(frozen=True)
class Figure:
    """A drawing with its caption and the facts that it shows."""

    svg: str
    caption: str
    sources: tuple[str, ...]


def figures_of(kind: str, account: Account) -> list[Figure]:
    """The charts of a kind, those that can be drawn."""
    return [figure for draw in DRAWN.get(kind, ()) if (figure := draw(account))]


def series(value: Any) -> list[tuple[float, float]]:
    """The `[x, y]` of an array that are two numbers, in order of x, thinned to what a chart can show."""
    pairs = [(number(p[0]), number(p[1])) for p in sequence(value) if isinstance(p, list) and len(p) == 2]
    return thin(sorted((x, y) for x, y in pairs if x is not None and y is not None))


def with_gaps(points: Sequence[tuple[float, float]]) -> list[Point]:
    """The points with a gap wherever steps are missing: a value that was not finite is not in the series."""
    apart = [b[0] - a[0] for a, b in pairwise(points)]
    usual = statistics.median(apart) if apart else 0.0
    found: list[Point] = []
    for index, point in enumerate(points):
        if index and apart[index - 1] > 1.5 * usual + 1:
            found.append((point[0], None))
        found.append(point)
    return found


def _loss(account: Account) -> Figure | None:
    """Train loss, the held-out loss before and after, and baselines brought to the same scale."""
    curve = series(account.value("learning.train_loss"))
    if not curve:
        return None
    before, after = (number(account.value(f"learning.heldout.loss.{p}")) for p in ("before", "after"))
    ends = [(x, y, name) for x, y, name in ((0.0, before, "before"), (curve[-1][0], after, "after")) if y is not None]
    second = _bits(account)
    levels = [Level(v / second.factor, name) for name, v in _baselines(account)] if second else []
    said = ", ".join(f"held-out {name} training {y:.3f}" for _, y, name in ends)
    lines = [
        Line(with_gaps(curve)),
        Line([(x, y) for x, y, _ in ends], "second", True, tuple(f"{name} {y:.2f}" for _, y, name in ends)),
    ]
    svg = line_chart(
        "chart-loss",
        "Train loss by step",
        f"{len(curve)} points from {curve[0][1]:.3f} to {curve[-1][1]:.3f} nats per token. {said}",
        lines,
        x_label="step",
        y_label="nats/token",
        levels=levels,
        second=second,
    )
    caption = "Mean train loss of all ranks by step (line)" + (
        ", held-out loss before and after training (diamonds)" if ends else ""
    )
    return Figure(
        svg, caption + (", table models on the same windows (dashed)." if levels else "."), ("learning.train_loss",)
    )


def _bits(account: Account) -> SecondAxis | None:
    """The bits/byte axis: on the same windows bits/byte is the loss times one factor, tokens over bytes over ln 2."""
    bits, loss = (number(account.value(f"learning.heldout.{m}.before")) for m in ("bits_per_byte", "loss"))
    factor = bits / loss if bits and loss else 0.0
    return SecondAxis("held-out bits/byte", factor) if 1e-3 < factor < 1e3 else None


def _baselines(account: Account) -> list[tuple[str, float]]:
    prefix = "learning.baseline."
    found = [
        (f.id.removeprefix(prefix), number(f.value))
        for f in account.facts.get("learning", ())
        if f.known and f.id.startswith(prefix)
    ]
    return [(clipped(name, 24), value) for name, value in found[:6] if value is not None and value > 0]


def _heldout(account: Account) -> Figure | None:
    """Held-out bits per byte against the table models."""
    names = (("before", "before training"), ("after", "after training"), ("reload", "reloaded"))
    seen = [(label, number(account.value(f"learning.heldout.bits_per_byte.{phase}"))) for phase, label in names]
    bars = [
        Bar(label, v, f"{v:.3f}", "second" if label != "before training" else "faint")
        for label, v in seen
        if v is not None and v > 0
    ]
    if not bars:
        return None
    bars += [Bar(f"{name} model", v, f"{v:.3f}", "faint") for name, v in _baselines(account)]
    svg = bar_chart("chart-heldout", "Held-out bits per byte", "; ".join(f"{b.label} {b.text}" for b in bars), bars)
    return Figure(
        svg,
        "Held-out bits per byte; less is better. Table models show what a model that learnt little would reach.",
        (),
    )


def _steps(account: Account) -> tuple[list[tuple[float, float]], float, str]:
    """The step times in a unit that reads well."""
    points = series(mapping(account.value("performance.step_time")).get("series"))
    scale, unit = (1000.0, "ms") if points and max(y for _, y in points) < 1 else (1.0, "s")
    return [(x, y * scale) for x, y in points], scale, unit


def _percentiles(account: Account, scale: float) -> list[Level]:
    value = mapping(account.value("performance.step_time"))
    known = [(p, number(value.get(p))) for p in ("p50", "p95", "p99")]
    return [Level(v * scale, f"{p} {seconds(v)}") for p, v in known if v is not None]


def _step_times(account: Account) -> Figure | None:
    points, scale, unit = _steps(account)
    if not points:
        return None
    levels = [level for level in _percentiles(account, scale) if not level.label.startswith("p99")]
    svg = line_chart(
        "chart-steps",
        "Step time over the steady window",
        f"{len(points)} steps; {', '.join(level.label for level in levels)}",
        [Line(with_gaps(points))],
        x_label="step",
        y_label=f"step time, {unit}",
        levels=levels,
        from_zero=True,
    )
    return Figure(
        svg,
        f"Time of the slowest rank in each step of the steady window. {_beside(account)}",
        ("performance.step_time",),
    )


def _distribution(account: Account) -> Figure | None:
    points, scale, unit = _steps(account)
    if not points:
        return None
    marks = _percentiles(account, scale)
    svg = histogram(
        "chart-distribution",
        "Distribution of step times",
        f"{len(points)} steps; {', '.join(mark.label for mark in marks)}",
        [y for _, y in points],
        x_label=f"step time, {unit}",
        y_label="steps",
        marks=marks,
    )
    return Figure(
        svg, "How often a step took how long, with percentiles of the whole window.", ("performance.step_time",)
    )


def _beside(account: Account) -> str:
    words = transport(account)
    return f"{words[:1].upper()}{words[1:]}."


def _memory(account: Account) -> Figure | None:
    peaks = mapping(mapping(account.value("performance.peak_memory")).get("by_process"))
    found = [(clipped(name, 120), n) for name, v in peaks.items() if (n := number(v)) is not None and n >= 0]
    if not found:
        return None
    largest = sorted(found, key=lambda pair: -pair[1])[:MAX_BARS]
    bars = [Bar(name if len(name) <= 24 else f"…{name[-23:]}", v, size(v)) for name, v in largest]
    svg = bar_chart(
        "chart-memory",
        "Peak resident memory by process",
        "; ".join(f"{n} {size(v)}" for n, v in largest),
        bars,
        label_width=180,
    )
    rest = f" The {MAX_BARS} largest of {len(found)}." if len(found) > MAX_BARS else ""
    return Figure(
        svg, f"Peak resident memory by process, as the host probes saw it.{rest}", ("performance.peak_memory",)
    )


DRAWN: dict[str, tuple[Callable[[Account], Figure | None], ...]] = {
    "learning": (_loss, _heldout),
    "performance": (_step_times, _distribution, _memory),
}
