"""A record as the report reads it: facts and verdicts with everything that a template needs, whatever their shape."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypeVar

from seatrial.evidence.facts import FactType, Family, meaning
from seatrial.report.leads import lead, says_all
from seatrial.report.reading import clipped, mapping, number, sequence, string, value_of
from seatrial.report.values import Items, Layout, Listing, Node, Pairs, Scalar, Table
from seatrial.report.words import ASKED, KINDS, VERDICTS, title_of

T = TypeVar("T")
STATES = ("value", "not-applicable", "unknown", "error")
VERDICT_CHARACTERS = 120_000  # of the page; a verdict takes some 500
LIST_CHARACTERS = 60_000  # of the page, for the trial and for the sealed files each
FACT_MARKUP = 900
HEADS = 250_000  # of the page, for facts whose values it has no room for any more
_ANCHOR = re.compile(r"[a-z][a-z0-9_-]{0,40}(\.[A-Za-z0-9_-]{1,80}){1,6}")


@dataclass(frozen=True)
class LayerView:
    """An environment layer: its digest and who saw it; the content is the fact's node."""

    digest: str
    same: bool
    seen_by: str
    entries: str


@dataclass(frozen=True)
class FactView:
    """One fact. `value` is as recorded, `node` is what is shown of it below `lead`."""

    id: str
    anchor: str
    kind: str
    title: str
    state: str
    value: Any
    unit: str
    witness: str
    reason: str
    asked: bool
    lead: str
    node: Node | None
    layer: LayerView | None = None

    @property
    def known(self) -> bool:
        return self.state == "value"

    @property
    def wide(self) -> bool:
        """Whether what is shown needs the whole width."""
        tables = [self.node, *(block for _, block in self.node.blocks)] if isinstance(self.node, Pairs) else [self.node]
        return self.layer is not None or any(
            isinstance(t, Table | Items) or (isinstance(t, Listing) and bool(t.names)) for t in tables
        )

    @property
    def exact(self) -> str:
        """A number as recorded, for a fact that is one."""
        plain = not isinstance(self.value, bool | str | dict | list)
        return string(self.value, 40) if plain and number(self.value) is not None else ""


@dataclass(frozen=True)
class Link:
    """A fact that a verdict was judged by; no anchor if the record does not have it."""

    name: str
    anchor: str


@dataclass(frozen=True)
class VerdictView:
    """What became of one claim. `word` is one of `VERDICTS`, or `unreadable`."""

    claim: str
    anchor: str
    kind: str
    title: str
    word: str
    shown: str
    reason: str
    meaning: str
    asked: str
    seen: str
    links: tuple[Link, ...]


@dataclass(frozen=True)
class RecordView:
    """The whole record, read."""

    record: dict[str, Any]
    digest: str
    file: str
    facts: dict[str, tuple[FactView, ...]]
    verdicts: tuple[VerdictView, ...]
    shown: tuple[VerdictView, ...]  # as many of them as the page has room for
    left_out: dict[str, int]
    trial: Node
    artifacts: Node

    def fact(self, type: FactType[Any]) -> FactView | None:
        """The fact of a type, if the record has it."""
        return next((f for f in self.facts.get(type.kind, ()) if f.id == type.id), None)

    def value(self, type: FactType[T]) -> T | None:
        """The value of a known fact; None where it is not known, or has another shape than its type."""
        return value_of(self.record, type)

    def members(self, family: Family[T], part: str) -> list[tuple[str, T]]:
        """`(the id's part of that name, value)` of each known fact of a family whose id ends with that part."""
        before = family.pattern.removesuffix(f"{{{part}}}")
        ids = (f.id for f in self.facts.get(before.partition(".")[0], ()) if f.id.startswith(before))
        named = [(name, self.value(family.of(**{part: name}))) for name in (i.removeprefix(before) for i in ids)]
        return [(name, value) for name, value in named if value is not None]


def view_of(record: dict[str, Any], digest: str, file: str) -> RecordView:
    """The view of a parsed record. Never raises for what a record may hold."""
    layout = Layout()
    facts: dict[str, tuple[FactView, ...]] = {}
    left_out: dict[str, int] = {}
    taken: set[str] = set()
    evidence = mapping(record.get("evidence"))
    for kind in [k for k in KINDS if k in evidence] + sorted(k for k in evidence if k not in KINDS)[:40]:
        found = list(mapping(evidence[kind]).items())
        name = clipped(kind, 60)
        facts[name] = tuple(
            _fact(name, clipped(i, 200), raw, layout, taken) for i, raw in found if layout.left > -HEADS
        )
        left_out[name] = len(found) - len(facts[name])
    anchors = {fact.id: fact.anchor for views in facts.values() for fact in views}
    verdicts = _verdicts(record, anchors)
    trial = {k: v for k, v in mapping(record.get("trial")).items() if k != "claims"}
    trial_node, artifacts = (Layout(LIST_CHARACTERS).node(v) for v in (trial, sequence(record.get("artifacts"))))
    return RecordView(record, digest, file, facts, verdicts, _fitting(verdicts), left_out, trial_node, artifacts)


def _fact(kind: str, name: str, raw: Any, layout: Layout, taken: set[str]) -> FactView:
    anchor = _anchor(name, taken)
    fact = mapping(raw)
    state, reason = string(fact.get("state"), 60), string(fact.get("reason"), 600)
    value = fact.get("value")
    if state not in STATES or (state == "value" and "value" not in fact):
        reason = reason or (
            "no value was recorded" if state == "value" else f"state {state or 'absent'} is none of {', '.join(STATES)}"
        )
        state, value = "error", raw if state != "value" else None
    unit, witness = string(fact.get("unit"), 80), string(fact.get("witness"), 400)
    line = lead(name, value, unit) if state == "value" else ""
    layer = _layer(value) if state == "value" and kind == "environment" else None
    node = layout.node(mapping(value).get("content")) if layer else _node(name, value, unit, state, line, layout)
    asked = name in ASKED or witness == "trial"
    layout.take(name, anchor, witness, reason, line, markup=FACT_MARKUP)
    return FactView(name, anchor, kind, title_of(name), state, value, unit, witness, reason, asked, line, node, layer)


def _node(name: str, value: Any, unit: str, state: str, line: str, layout: Layout) -> Node | None:
    """What is shown of a value below its line: nothing where the line says all."""
    if value is None and state != "value":
        return None
    if line and (not isinstance(value, dict | list) or not value or says_all(name, value)):
        return None
    return layout.node(value, unit)


def _anchor(name: str, taken: set[str]) -> str:
    """The fact's id where it is fit for one and free, else a number."""
    anchor = name if _ANCHOR.fullmatch(name) and name not in taken else f"fact-{len(taken) + 1}"
    taken.add(anchor)
    return anchor


def _layer(value: Any) -> LayerView | None:
    """A layer by its shape, so that a new one needs no word here."""
    if not (isinstance(value, dict) and isinstance(value.get("digest"), str) and "content" in value):
        return None
    content = value["content"]
    counted = (
        max((len(v) for v in content.values() if isinstance(v, dict | list)), default=0)
        if isinstance(content, dict)
        else 0
    )
    counted = max(counted, len(content) if isinstance(content, dict | list) else 0)
    observers = len(sequence(value.get("seen_by")))
    seen_by = f"seen by {observers:,} observer{'' if observers == 1 else 's'}" if observers else ""
    return LayerView(
        string(value["digest"], 100),
        value.get("same_everywhere") is True,
        seen_by,
        f"{counted:,} entr{'y' if counted == 1 else 'ies'}",
    )


def _fitting(verdicts: tuple[VerdictView, ...]) -> tuple[VerdictView, ...]:
    """The first verdicts, up to the page's room."""
    room = Layout(VERDICT_CHARACTERS)
    shown = []
    for verdict in verdicts:
        if room.left > 0:
            shown.append(verdict)
        links = "".join(link.name + link.anchor for link in verdict.links)
        room.take(
            verdict.claim, verdict.reason, verdict.asked, verdict.seen, links, markup=600 + 30 * len(verdict.links)
        )
    return tuple(shown)


def _verdicts(record: dict[str, Any], anchors: dict[str, str]) -> tuple[VerdictView, ...]:
    """The verdicts in order, then each claim that has none: silence is shown."""
    found = [mapping(v) for v in sequence(record.get("verdicts"))]
    judged = [string(v.get("claim"), 160) for v in found]
    for claim in sequence(record.get("claims")):
        name = string(mapping(claim).get("claim"), 160)
        if name in judged:
            judged.remove(name)
        else:
            asked = {k: v for k, v in mapping(claim).items() if k != "claim"}
            found.append(
                {
                    "claim": name,
                    "verdict": "no verdict",
                    "asked": asked,
                    "seen": "the record has no verdict on this claim",
                }
            )
    return tuple(_verdict(number, raw, anchors) for number, raw in enumerate(found, 1))


def _verdict(number: int, raw: dict[str, Any], anchors: dict[str, str]) -> VerdictView:
    from seatrial.trial.claims import REGISTRY

    claim, word, reason = (string(raw.get(k), 160) for k in ("claim", "verdict", "reason"))
    entry = REGISTRY.get(claim)
    names = [string(name, 200) for name in sequence(raw.get("evidence"))[:60]]
    links = tuple(Link(name, anchors.get(name, "")) for name in dict.fromkeys(names))
    return VerdictView(
        claim=claim or "unnamed claim",
        anchor=f"verdict-{number}",
        kind=claim.partition(".")[0],
        title=entry.title if entry else "",
        word=word if word in VERDICTS else "unreadable",
        shown=word or "no verdict",
        reason=reason,
        meaning=meaning(reason),
        asked=_asked(raw.get("asked")),
        seen=string(raw.get("seen"), 1000),
        links=links,
    )


def _asked(asked: Any) -> str:
    """The parameters of a claim in the words of the trial file."""
    if not isinstance(asked, dict):
        return string(asked, 300)
    return ", ".join(f"{clipped(k, 60)}: {_parameter(v)}" for k, v in list(asked.items())[:20])


def _parameter(value: Any) -> str:
    made = Layout().node(value)
    return made.text if isinstance(made, Scalar) else string(value, 200)
