"""Small charts as inline SVG: lines, a histogram, bars. Colours come from the page's style sheet.

Every chart is `WIDTH` units wide and meant to be shown at about that many pixels. Points are `(x, y)`; a `y` that is
None is a gap. Numbers that no axis can hold are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 460, 270
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 30, 40
SECOND_AXIS = 42
LINE_HEIGHT, LETTER = 15, 6.5
_LARGEST = 1e290

Point = tuple[float, float | None]
Text = Callable[[float], str]


@dataclass(frozen=True)
class Line:
    """A series; `dots` marks its points instead of joining them, with `labels` beside them."""

    points: Sequence[Point]
    style: str = "seen"
    dots: bool = False
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Level:
    """A horizontal line through the whole chart."""

    at: float
    label: str


@dataclass(frozen=True)
class SecondAxis:
    """A right-hand axis whose numbers are the left-hand ones times `factor`."""

    label: str
    factor: float


@dataclass(frozen=True)
class Bar:
    """One row of a bar chart."""

    label: str
    value: float
    text: str
    style: str = "seen"


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About `count` round numbers (steps of 1, 2, 2.5 or 5) inside [low, high]; `[low]` where there is no room."""
    span = high - low
    if not 1e-290 < span / count < _LARGEST:
        return [low]
    magnitude = 10.0 ** math.floor(math.log10(span / count))
    step = next((m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude * count >= span * 0.999), 10 * magnitude)
    if low + step == low or high - step == high:
        return [low]
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, first + 4 * count) if i * step <= high + step * 1e-9]


def tick_texts(values: Sequence[float]) -> list[str]:
    """The shortest texts that tell neighbouring ticks apart."""
    if any(abs(v) >= 1e6 or 0 < abs(v) < 1e-4 for v in values):
        return [f"{v:.3g}" for v in values]
    for decimals in range(7):
        texts = [f"{v:,.{decimals}f}" for v in values]
        if all(
            math.isclose(float(t.replace(",", "")), v, rel_tol=1e-6, abs_tol=1e-9)
            for t, v in zip(texts, values, strict=True)
        ):
            return texts
    return [f"{v:.3g}" for v in values]


def line_chart(
    key: str,
    title: str,
    description: str,
    lines: Sequence[Line],
    *,
    x_label: str,
    y_label: str,
    levels: Sequence[Level] = (),
    second: SecondAxis | None = None,
    from_zero: bool = False,
) -> str:
    """Lines over numbers. `key` is unique on the page; `from_zero` starts the y axis at 0."""
    usable = [_usable(line.points) for line in lines]
    levels = [level for level in levels if abs(level.at) <= _LARGEST]
    drawn = [(x, y) for points in usable for x, y in points if y is not None]
    if not drawn:
        return _empty(key, title, description)
    heights = [y for _, y in drawn] + [level.at for level in levels]
    plot = _Plot(
        _domain([x for x, _ in drawn], widen=False),
        _domain([*heights, 0.0] if from_zero else heights),
        right=SECOND_AXIS if second else RIGHT,
    )
    parts = [plot.y_axis(y_label), plot.x_axis(x_label)]
    if second:
        parts.append(plot.second_axis(second))
    taken = [(plot.x(x), plot.y(y)) for x, y in drawn]
    taken += [place for line, points in zip(lines, usable, strict=True) if line.dots for place in plot.labelled(points)]
    parts += [plot.level(level.at) for level in levels]
    parts += [
        plot.dots(line, points) if line.dots else plot.path(line, points)
        for line, points in zip(lines, usable, strict=True)
    ]
    parts += [plot.level_label(level, taken) for level in levels]
    return _svg(key, title, description, HEIGHT, parts)


def histogram(
    key: str,
    title: str,
    description: str,
    values: Sequence[float],
    *,
    x_label: str,
    y_label: str,
    marks: Sequence[Level] = (),
) -> str:
    """How often values fall into equal bins; `marks` are vertical lines."""
    known = [v for v in values if abs(v) <= _LARGEST]
    marks = [mark for mark in marks if abs(mark.at) <= _LARGEST]
    if not known:
        return _empty(key, title, description)
    low, high = _domain([*known, *(m.at for m in marks)], widen=True)
    bins = min(24, max(8, math.ceil(2 * math.sqrt(len(known)))))
    counts = [0] * bins
    for value in known:
        counts[min(bins - 1, max(0, int((value - low) / (high - low) * bins)))] += 1
    plot = _Plot((low, high), (0.0, max(counts) * (1.3 if marks else 1.05)), whole=True)
    width = (plot.right_edge - LEFT) / bins
    bars = [
        _tag(
            "rect",
            class_="bar seen",
            x=LEFT + i * width + 0.75,
            y=plot.y(n),
            width=width - 1.5,
            height=max(0.0, plot.y(0) - plot.y(n)),
        )
        for i, n in enumerate(counts)
        if n
    ]
    parts = [plot.y_axis(y_label), plot.x_axis(x_label), *bars]
    parts += [plot.mark(mark, row) for row, mark in enumerate(marks)]
    return _svg(key, title, description, HEIGHT, parts)


def bar_chart(key: str, title: str, description: str, bars: Sequence[Bar], *, label_width: int = 130) -> str:
    """Bars from zero, one row each, its text at the end."""
    shown = [bar for bar in bars if 0 <= bar.value <= _LARGEST]
    if not shown:
        return _empty(key, title, description)
    longest = max(bar.value for bar in shown) or 1.0
    room, row = WIDTH - label_width - 78, min(42, max(26, (HEIGHT - TOP - BOTTOM) // len(shown)))
    parts: list[str] = []
    for number, bar in enumerate(shown):
        middle = TOP + (number + 0.5) * row
        length = max(1.5, bar.value / longest * room)
        parts.append(_text(label_width - 10, middle + 4, bar.label, "label", "end"))
        parts.append(
            _tag(
                "rect",
                class_=f"bar {bar.style}",
                x=label_width,
                y=middle - row * 0.31,
                width=length,
                height=row * 0.62,
                rx=2,
            )
        )
        parts.append(_text(label_width + length + 7, middle + 4, bar.text, "value", "start"))
    return _svg(key, title, description, TOP + len(shown) * row + 10, parts)


class _Plot:
    """The plotting area: data coordinates to the drawing's, axes with round ticks."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float], *, right: int = RIGHT, whole: bool = False):
        self.x_low, self.x_high = x
        self.y_low, self.y_high = y
        self.right_edge, self.whole = WIDTH - right, whole

    def x(self, value: float) -> float:
        return LEFT + (value - self.x_low) / (self.x_high - self.x_low) * (self.right_edge - LEFT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (value - self.y_low) / (self.y_high - self.y_low) * (HEIGHT - BOTTOM - TOP)

    def y_axis(self, label: str) -> str:
        values = [v for v in ticks(self.y_low, self.y_high) if not self.whole or v == int(v)]
        parts = [_text(LEFT - 8, TOP - 14, label, "axis", "start", dx=-(LEFT - 14))]
        for value, text in zip(values, tick_texts(values), strict=True):
            y = self.y(value)
            parts += [
                _tag("line", class_="grid", x1=LEFT, x2=self.right_edge, y1=y, y2=y),
                _text(LEFT - 8, y + 4, text, "tick", "end"),
            ]
        return "".join(parts)

    def x_axis(self, label: str) -> str:
        values = ticks(self.x_low, self.x_high)
        base = HEIGHT - BOTTOM
        parts = [_tag("line", class_="base", x1=LEFT, x2=self.right_edge, y1=base, y2=base)]
        for value, text in zip(values, tick_texts(values), strict=True):
            parts += [
                _tag("line", class_="base", x1=self.x(value), x2=self.x(value), y1=base, y2=base + 4),
                _text(self.x(value), base + 17, text, "tick", "middle"),
            ]
        return "".join([*parts, _text(self.right_edge, HEIGHT - 5, label, "axis", "end")])

    def second_axis(self, axis: SecondAxis) -> str:
        values = ticks(self.y_low * axis.factor, self.y_high * axis.factor)
        parts = [_text(WIDTH - 6, TOP - 14, axis.label, "axis", "end")]
        for value, text in zip(values, tick_texts(values), strict=True):
            y = self.y(value / axis.factor)
            parts.append(_tag("line", class_="base", x1=self.right_edge, x2=self.right_edge + 4, y1=y, y2=y))
            parts.append(_text(self.right_edge + 8, y + 4, text, "tick", "start"))
        return "".join(parts)

    def level(self, at: float) -> str:
        """A dashed line across."""
        return _tag("line", class_="level", x1=LEFT, x2=self.right_edge, y1=self.y(at), y2=self.y(at))

    def level_label(self, level: Level, taken: list[tuple[float, float]]) -> str:
        """The label of a line where least is drawn, just above its right end if there is room; its place is taken."""
        y, width = self.y(level.at), LETTER * len(level.label)
        across = self.right_edge - LEFT - width - 12
        places = [
            (LEFT + 6 + across * share, y + down) for down in (-5, 14, -22, 31) for share in (1.0, 0.0, 0.7, 0.45, 0.2)
        ]
        x, base = max(
            places, key=lambda place: _clearance(place, width, taken) if TOP < place[1] < HEIGHT - BOTTOM else -1.0
        )
        taken += [(x + width * share, base - 4) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
        return _text(x, base, level.label, "note", "start")

    def mark(self, mark: Level, row: int) -> str:
        """A dashed line from the top; the first label on its left, others on the right, where there is room."""
        x, width = self.x(mark.at), LETTER * len(mark.label) + 5
        left = x - LEFT > width if row == 0 else self.right_edge - x < width
        line = _tag("line", class_="level", x1=x, x2=x, y1=TOP, y2=HEIGHT - BOTTOM)
        label_y = TOP + 10 + row * LINE_HEIGHT
        return line + _text(x + (-5 if left else 5), label_y, mark.label, "note", "end" if left else "start")

    def path(self, line: Line, points: Sequence[Point]) -> str:
        """The line, broken at gaps; a point with a gap on both sides is a dot."""
        runs: list[list[tuple[float, float]]] = [[]]
        for x, y in points:
            if y is None:
                runs.append([])
            else:
                runs[-1].append((self.x(x), self.y(y)))
        drawn = [
            _tag("circle", class_=f"dot {line.style}", cx=run[0][0], cy=run[0][1], r=3)
            if len(run) == 1
            else _tag("path", class_=f"line {line.style}", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in run))
            for run in runs
            if run
        ]
        return "".join(drawn)

    def dots(self, line: Line, points: Sequence[Point]) -> str:
        """Diamonds, so that they differ from a line's dots without colour."""
        parts: list[str] = []
        for index, (x, y) in enumerate(points):
            if y is None:
                continue
            cx, cy = self.x(x), self.y(y)
            parts.append(
                _tag("path", class_=f"diamond {line.style}", d=f"M{cx:.1f} {cy - 5.5:.1f}l5.5 5.5-5.5 5.5-5.5-5.5z")
            )
            if index < len(line.labels):
                left, baseline = self._beside(cx, cy)
                parts.append(
                    _text(cx + (9 if left else -2), baseline, line.labels[index], "value", "start" if left else "end")
                )
        return "".join(parts)

    def _beside(self, cx: float, cy: float) -> tuple[bool, float]:
        """Whether a dot is in the left half, where its label follows it, and the label's base line."""
        left = cx < (LEFT + self.right_edge) / 2
        return left, cy + (4 if left else -11 if cy - 10 > TOP + 6 else 20)

    def labelled(self, points: Sequence[Point]) -> list[tuple[float, float]]:
        """Where the labels of dots lie."""
        places = [(self.x(x), *self._beside(self.x(x), self.y(y))) for x, y in points if y is not None]
        return [(cx + (part if left else -part), baseline - 4) for cx, left, baseline in places for part in (0, 35, 70)]


def _usable(points: Sequence[Point]) -> list[Point]:
    return [(x, y if y is not None and abs(y) <= _LARGEST else None) for x, y in points if abs(x) <= _LARGEST]


def _domain(values: Sequence[float], *, widen: bool = True) -> tuple[float, float]:
    """An interval of some width around the values, out to round numbers if `widen`."""
    low, high = min(values), max(values)
    room = abs(high) * 0.1 or 1.0
    if high - low <= abs(high) * 1e-9:
        low, high = low - room, high + room
    if widen and len(found := ticks(low, high)) > 1:
        step = found[1] - found[0]
        low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    return low, high


def _clearance(place: tuple[float, float], width: float, taken: Sequence[tuple[float, float]]) -> float:
    """How far from a label at `place` the nearest thing above or below it is; more than 12 is as good as 12."""
    x, base = place
    return min([12.0, *(abs(b - base + 4) for a, b in taken if x - 6 <= a <= x + width + 6)])


def _empty(key: str, title: str, description: str) -> str:
    return _svg(key, title, description, 70, [_text(WIDTH / 2, 40, "nothing to draw", "note", "middle")])


def _svg(key: str, title: str, description: str, height: int, parts: Sequence[str]) -> str:
    said = f'aria-labelledby="{escape(key)}-t" aria-describedby="{escape(key)}-d"'
    return (
        f'<svg class="chart" role="img" viewBox="0 0 {WIDTH} {height}" {said}>'
        f'<title id="{escape(key)}-t">{escape(title)}</title><desc id="{escape(key)}-d">{escape(description)}</desc>'
        f"{''.join(parts)}</svg>"
    )


def _text(x: float, y: float, text: str, style: str, anchor: str, dx: float = 0.0) -> str:
    return f'<text class="{style}" x="{x + dx:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _tag(name: str, **attributes: str | float) -> str:
    """An empty element; `class_` is the attribute `class`."""
    shown = (f'{k.rstrip("_")}="{escape(v) if isinstance(v, str) else f"{v:.1f}"}"' for k, v in attributes.items())
    return f"<{name} {' '.join(shown)}/>"
