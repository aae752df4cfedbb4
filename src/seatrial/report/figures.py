"""Which charts a kind has, from the facts that it is drawn from. A fact of an unknown shape has no chart."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from seatrial.evidence.facts import learning, performance
from seatrial.evidence.witness.statistics import thin
from seatrial.report.charts import Bar, Level, Line, Point, SecondAxis, bar_chart, histogram, line_chart
from seatrial.report.leads import peaks, percentiles
from seatrial.report.reading import clipped, number, seconds, size
from seatrial.report.summary import transport_line
from seatrial.report.view import RecordView

MAX_BARS = 12


@dataclass(frozen=True)
class Figure:
    """A drawing with its caption and the facts that it shows."""

    svg: str
    caption: str
    sources: tuple[str, ...]


def figures_of(kind: str, view: RecordView) -> list[Figure]:
    """The charts of a kind, those that can be drawn."""
    return [figure for draw in DRAWN.get(kind, ()) if (figure := draw(view))]


def series(points: Sequence[tuple[float, float | None]]) -> list[tuple[float, float]]:
    """The points of two finite numbers, in order of x, thinned to what a chart can show."""
    pairs = [(number(x), number(y)) for x, y in points]
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


def _loss(view: RecordView) -> Figure | None:
    """Train loss, the held-out loss before and after, and baselines brought to the same scale."""
    losses = view.value(learning.TRAIN_LOSS)
    curve = series(losses) if losses else []
    if not curve:
        return None
    before, after = (number(view.value(learning.LOSS.of(phase=p))) for p in ("before", "after"))
    ends = [(x, y, name) for x, y, name in ((0.0, before, "before"), (curve[-1][0], after, "after")) if y is not None]
    second = _bits(view)
    levels = [Level(v / second.factor, name) for name, v in _baselines(view)] if second else []
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
        svg, caption + (", table models on the same windows (dashed)." if levels else "."), (learning.TRAIN_LOSS.id,)
    )


def _bits(view: RecordView) -> SecondAxis | None:
    """The bits/byte axis: on the same windows bits/byte is the loss times one factor, tokens over bytes over ln 2."""
    bits, loss = (number(view.value(family.of(phase="before"))) for family in (learning.BITS_PER_BYTE, learning.LOSS))
    factor = bits / loss if bits and loss else 0.0
    return SecondAxis("held-out bits/byte", factor) if 1e-3 < factor < 1e3 else None


def _baselines(view: RecordView) -> list[tuple[str, float]]:
    found = [(clipped(name, 24), number(value)) for name, value in view.members(learning.BASELINE, "table")[:6]]
    return [(name, value) for name, value in found if value is not None and value > 0]


def _heldout(view: RecordView) -> Figure | None:
    """Held-out bits per byte against the table models."""
    names = (("before", "before training"), ("after", "after training"), ("reload", "reloaded"))
    seen = [(label, number(view.value(learning.BITS_PER_BYTE.of(phase=phase)))) for phase, label in names]
    bars = [
        Bar(label, v, f"{v:.3f}", "second" if label != "before training" else "faint")
        for label, v in seen
        if v is not None and v > 0
    ]
    if not bars:
        return None
    bars += [Bar(f"{name} model", v, f"{v:.3f}", "faint") for name, v in _baselines(view)]
    svg = bar_chart("chart-heldout", "Held-out bits per byte", "; ".join(f"{b.label} {b.text}" for b in bars), bars)
    return Figure(
        svg,
        "Held-out bits per byte; less is better. Table models show what a model that learnt little would reach.",
        (),
    )


def _steps(view: RecordView) -> tuple[list[tuple[float, float]], float, str]:
    """The step times in a unit that reads well."""
    value = view.value(performance.STEP_TIME)
    points = series(value.series) if value else []
    scale, unit = (1000.0, "ms") if points and max(y for _, y in points) < 1 else (1.0, "s")
    return [(x, y * scale) for x, y in points], scale, unit


def _percentiles(view: RecordView, scale: float) -> list[Level]:
    value = view.value(performance.STEP_TIME)
    known = [(p, number(taken)) for p, taken in percentiles(value)] if value else []
    return [Level(v * scale, f"{p} {seconds(v)}") for p, v in known if v is not None]


def _step_times(view: RecordView) -> Figure | None:
    points, scale, unit = _steps(view)
    if not points:
        return None
    levels = [level for level in _percentiles(view, scale) if not level.label.startswith("p99")]
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
        f"Time of the slowest rank in each step of the steady window. {_beside(view)}",
        (performance.STEP_TIME.id,),
    )


def _distribution(view: RecordView) -> Figure | None:
    points, scale, unit = _steps(view)
    if not points:
        return None
    marks = _percentiles(view, scale)
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
        svg, "How often a step took how long, with percentiles of the whole window.", (performance.STEP_TIME.id,)
    )


def _beside(view: RecordView) -> str:
    words = transport_line(view)
    return f"{words[:1].upper()}{words[1:]}."


def _memory(view: RecordView) -> Figure | None:
    value = view.value(performance.PEAK_MEMORY)
    found = [(clipped(name, 120), peak) for name, peak in peaks(value) if peak >= 0] if value else []
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
        svg, f"Peak resident memory by process, as the host probes saw it.{rest}", (performance.PEAK_MEMORY.id,)
    )


DRAWN: dict[str, tuple[Callable[[RecordView], Figure | None], ...]] = {
    "learning": (_loss, _heldout),
    "performance": (_step_times, _distribution, _memory),
}
