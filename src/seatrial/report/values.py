"""A JSON value as a small tree that a template lays out, cut where a reader or a page could not take it."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Any, ClassVar

from seatrial.report.reading import clipped, compact, figure, is_digest, number, size, string

MAX_ITEMS = 600
MAX_COLUMNS = 10
MAX_DEPTH = 5
MAX_CELL = 240
PAGE_CHARACTERS = 400_000  # of values; with all the rest a page stays under a megabyte
# Numbers that name something: never grouped.
NAMES = frozenset({"pid", "rank", "port", "seed", "step", "attempt", "from_step", "inode", "shard", "window"})
FIRST_COLUMNS = ("role", "rank", "step", "path", "name", "host", "machine", "pid", "attempt", "ended")


@dataclass(frozen=True)
class Scalar:
    """One text. `kind` is text, number, digest, flag or nothing; `exact` is a number as recorded."""

    text: str
    kind: str = "text"
    exact: str = ""
    shape: ClassVar[str] = "scalar"


@dataclass(frozen=True)
class Pairs:
    """An object: its scalars in one flow, what is larger below."""

    scalars: tuple[tuple[str, Scalar], ...]
    blocks: tuple[tuple[str, Node], ...]
    cut: int = 0
    shape: ClassVar[str] = "pairs"


@dataclass(frozen=True)
class Listing:
    """An array of scalars, or a long object of them with `names`."""

    items: tuple[Scalar, ...]
    names: tuple[str, ...] = ()
    cut: int = 0
    shape: ClassVar[str] = "listing"


@dataclass(frozen=True)
class Table:
    """An array of objects."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Scalar, ...], ...]
    cut: int = 0
    shape: ClassVar[str] = "table"


@dataclass(frozen=True)
class Points:
    """An array of pairs of numbers."""

    pairs: tuple[tuple[str, str], ...]
    count: int
    span: str
    cut: int = 0
    shape: ClassVar[str] = "points"


@dataclass(frozen=True)
class Items:
    """An array of anything else."""

    items: tuple[Node, ...]
    cut: int = 0
    shape: ClassVar[str] = "items"


@dataclass(frozen=True)
class LeftOut:
    """What the page has no room for."""

    note: str
    shape: ClassVar[str] = "left-out"


Node = Scalar | Pairs | Listing | Table | Points | Items | LeftOut


@dataclass
class Layout:
    """Turns values into trees and keeps account of the page's characters."""

    left: int = field(default=PAGE_CHARACTERS)

    def node(self, value: Any, unit: str = "", depth: int = 0) -> Node:
        """The tree of a value; `unit` says how numbers in it read."""
        if not isinstance(value, dict | list):
            return self.scalar(value, unit=unit)
        if self.left <= 0:
            return LeftOut(f"{_count(value)} left out: the page is full, the record has them")
        if depth >= MAX_DEPTH:
            return self.scalar(clipped(compact(value, 1), MAX_CELL))
        if not value:
            return Scalar("none", "nothing")
        return self._object(value, unit, depth) if isinstance(value, dict) else self._array(value, unit, depth)

    def scalar(self, value: Any, name: str = "", unit: str = "", limit: int | None = None) -> Scalar:
        """One value as one text, `name` being its key or column."""
        made = _scalar(value, name, unit, limit)
        self.take(made.text, made.exact)
        return made

    def take(self, *texts: str, markup: int = 48) -> None:
        """Takes texts and the markup around them off the page's account."""
        self.left -= markup + sum(len(escape(text)) for text in texts)

    def _key(self, name: str) -> str:
        shown = clipped(name, 120) or "(empty)"
        self.take(shown)
        return shown

    def _object(self, value: dict[str, Any], unit: str, depth: int) -> Node:
        small = {k: v for k, v in value.items() if _is_small(v)}
        if len(small) == len(value) > 24:
            kept = list(small.items())[: self._room(len(small))]
            items = tuple(self.scalar(v, k, unit, MAX_CELL) for k, v in kept)
            return Listing(items, tuple(self._key(k) for k, _ in kept), len(value) - len(kept))
        kept = list(value.items())[: self._room(len(value))]
        scalars = sorted(
            ((self._key(k), self.scalar(v, k, unit)) for k, v in kept if k in small),
            key=lambda p: p[1].kind == "digest",
        )
        blocks = tuple((self._key(k), self.node(v, unit, depth + 1)) for k, v in kept if k not in small)
        return Pairs(tuple(scalars), blocks, len(value) - len(kept))

    def _array(self, value: list[Any], unit: str, depth: int) -> Node:
        if all(_is_point(v) for v in value):
            return self._points(value, self._room(len(value), 1000))
        kept = value[: self._room(len(value))]
        cut = len(value) - len(kept)
        if all(_is_small(v) for v in value):
            return Listing(tuple(self.scalar(v, unit=unit, limit=MAX_CELL) for v in kept), cut=cut)
        columns = _columns(value) if all(isinstance(v, dict) for v in value) else ()
        if columns:
            rows = tuple(tuple(self.scalar(row.get(c), c, unit, MAX_CELL) for c in columns) for row in kept)
            return Table(tuple(self._key(c) for c in columns), rows, cut)
        return Items(tuple(self.node(v, unit, depth + 1) for v in kept[:50]), len(value) - len(kept[:50]))

    def _points(self, value: list[Any], room: int) -> Points:
        kept = [(figure(float(x), grouped=False), "—" if y is None else figure(float(y))) for x, y in value[:room]]
        self.left -= 40 * len(kept)
        span = f"{figure(float(value[0][0]), grouped=False)} to {figure(float(value[-1][0]), grouped=False)}"
        return Points(tuple(kept), len(value), span, len(value) - len(kept))

    def _room(self, length: int, most: int = MAX_ITEMS) -> int:
        """How many of `length` items are shown: all of a readable number, fewer on a page that is nearly full."""
        return min(length, most, max(1, self.left // 60))


def _scalar(value: Any, name: str, unit: str, limit: int | None) -> Scalar:
    if value is None:
        return Scalar("—", "nothing")
    if isinstance(value, dict | list) and not value:
        return Scalar("none", "nothing")
    if isinstance(value, bool):
        return Scalar("yes" if value else "no", "flag")
    found = number(value)
    if found is not None and (unit == "bytes" or name.endswith("_bytes") or name == "size"):
        return Scalar(size(found), "number", f"{string(value, 40)} bytes")
    if found is not None and not isinstance(value, str):
        return Scalar(figure(found, grouped=name not in NAMES), "number", string(value, 40))
    text = string(value, limit) if limit else string(value)
    return Scalar(text or "empty", "digest" if is_digest(text) else "text" if text else "nothing")


def _is_small(value: Any) -> bool:
    return not isinstance(value, dict | list) or not value


def _is_point(value: Any) -> bool:
    """`[x, y]` of two numbers; y may be null."""
    if not (isinstance(value, list) and len(value) == 2):
        return False
    x, y = value
    return _is_number(x) and (y is None or _is_number(y))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and number(value) is not None


def _columns(rows: list[dict[str, Any]]) -> tuple[str, ...]:
    """The keys of the first rows, best known first; none if the rows are no table."""
    seen = list(dict.fromkeys(key for row in rows[:50] for key in row))
    if not seen or len(seen) > MAX_COLUMNS:
        return ()
    return tuple(sorted(seen, key=lambda k: FIRST_COLUMNS.index(k) if k in FIRST_COLUMNS else len(FIRST_COLUMNS)))


def _count(value: Any) -> str:
    return f"{len(value):,} {'entry' if len(value) == 1 else 'entries'}"
