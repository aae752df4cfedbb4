"""The report's sections: one for each kind of evidence, its facts in groups, each fact in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seatrial.evidence.facts import learning, performance
from seatrial.report import tasks
from seatrial.report.figures import Figure, figures_of
from seatrial.report.summary import transport_line
from seatrial.report.view import FactView, RecordView, VerdictView
from seatrial.report.words import FACTS, KINDS, METRICS, PHASES, UNGROUPED

_HELDOUT = {family.of(phase=phase).id: (phase, name) for name, family in learning.HELDOUT.items() for phase in PHASES}
_BASELINE = learning.BASELINE.of(table="").id


@dataclass(frozen=True)
class Row:
    """A line of the held-out table: a cell for each metric, None where no such fact exists."""

    title: str
    cells: tuple[FactView | None, ...]

    @property
    def witness(self) -> str:
        return "; ".join(dict.fromkeys(c.witness for c in self.cells if c and c.witness))


@dataclass(frozen=True)
class Matrix:
    """Facts that are one table."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class FactGroup:
    """Facts under one heading; `layout` is rows, or sides for what was asked beside what was seen."""

    title: str
    facts: tuple[FactView, ...]
    layout: str = "rows"


@dataclass(frozen=True)
class Section:
    """One kind."""

    kind: str
    intro: str
    verdicts: tuple[VerdictView, ...]
    figures: tuple[Figure, ...]
    matrix: Matrix | None
    groups: tuple[FactGroup, ...]
    count: int
    left_out: int


def sections_of(view: RecordView) -> list[Section]:
    """The kinds that were claimed or seen, in the design's order, then any that this version does not know."""
    order = [*KINDS, *(kind for kind in view.facts if kind not in KINDS)]
    claimed = {v.kind for v in view.verdicts}
    return [_section(kind, view) for kind in order if view.facts.get(kind) or kind in claimed]


def _section(kind: str, view: RecordView) -> Section:
    facts = view.facts.get(kind, ())
    matrix, rest = _matrix(facts)
    return Section(
        kind=kind,
        intro=KINDS.get(kind, ""),
        verdicts=tuple(v for v in view.shown if v.kind == kind),
        figures=tuple(figures_of(kind, view)),
        matrix=matrix,
        groups=tuple(_groups(kind, rest)),
        count=len(facts),
        left_out=view.left_out.get(kind, 0),
    )


def _groups(kind: str, facts: Sequence[FactView]) -> list[FactGroup]:
    """Known facts in the table's order and under its headings; layers and facts without a place under their own."""
    order = list(FACTS)
    titles = list(dict.fromkeys([group for name, (_, group) in FACTS.items() if name.startswith(f"{kind}.")]))
    placed: dict[str, list[FactView]] = {title: [] for title in titles}
    for fact in facts:
        group = FACTS[fact.id][1] if fact.id in FACTS else "Layers" if fact.layer else tasks.group(fact.id) or UNGROUPED
        placed.setdefault(group, []).append(fact)
    return [
        FactGroup(
            title,
            tuple(sorted(found, key=lambda f: order.index(f.id) if f.id in FACTS else len(order) + tasks.place(f.id))),
            "sides" if title == "Image" else "rows",
        )
        for title, found in sorted(placed.items(), key=_rank)
        if found
    ]


def _rank(placed: tuple[str, list[FactView]]) -> int:
    return {"Image": -1, "Layers": 1, UNGROUPED: 2}.get(placed[0], 0)


def _matrix(facts: Sequence[FactView]) -> tuple[Matrix | None, list[FactView]]:
    """Held-out scores and baselines as one table, and the facts that are not in it."""
    cells: dict[str, dict[str, FactView]] = {}
    columns: list[str] = []
    rest: list[FactView] = []
    for fact in facts:
        place = _place(fact)
        if place is None or place[1] in cells.get(place[0], {}):
            rest.append(fact)
            continue
        row, column = place
        cells.setdefault(row, {})[column] = fact
        if column not in columns:
            columns.append(column)
    if not cells:
        return None, rest
    columns.sort(key=lambda c: list(METRICS).index(c))
    known = [*PHASES, *sorted(row for row in cells if row not in PHASES)]
    rows = tuple(
        Row(PHASES.get(row, f"Baseline: {row.removeprefix(_BASELINE)}"), tuple(cells[row].get(c) for c in columns))
        for row in known
        if row in cells
    )
    return Matrix("Held-out windows", tuple(_column(c, cells) for c in columns), rows), rest


def _place(fact: FactView) -> tuple[str, str] | None:
    """`(row, column)` of a fact in the held-out table; only facts that are one number, or none, have a place."""
    if fact.known and not fact.exact:
        return None
    if fact.id in _HELDOUT:
        return _HELDOUT[fact.id]
    if fact.id.startswith(_BASELINE):
        return fact.id, "loss" if fact.unit == "nats/token" else "bits_per_byte"
    return None


def _column(name: str, cells: dict[str, dict[str, FactView]]) -> str:
    units = {f.unit for row in cells.values() if (f := row.get(name)) and f.unit}
    return f"{METRICS[name]}, {units.pop()}" if len(units) == 1 else METRICS[name]


def beside(fact: FactView, view: RecordView) -> str:
    """What must stand beside a fact: the transport verdict beside every throughput."""
    return transport_line(view) if fact.unit == "tokens/s" or fact.id == performance.TOKENS_PER_SECOND.id else ""
