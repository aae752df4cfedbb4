"""Tasks: items before and after, by the training ranks and again by the processes that reload."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from seatrial.events import Stream
from seatrial.events.planned import PlannedTask
from seatrial.events.schema import NonFinite
from seatrial.events.tasks import TaskOverlap, TaskScored
from seatrial.evidence.facts import learning
from seatrial.evidence.facts.fact import Fact
from seatrial.evidence.facts.learning import PHASES, Agreement, Score, ShownItem, TaskChange, TaskDigests, TaskItems
from seatrial.evidence.run import Run
from seatrial.evidence.training.scores import Missing
from seatrial.evidence.witness.statistics import compare

SHOWN_CHANGED, SHOWN_SAME = 100, 50  # items in the record; the counts beside them are of all
UNPLANNED = "the tolerances that were set before step 0 are missing"
V = TypeVar("V")


@dataclass(frozen=True)
class Scored:
    """One item in one phase."""

    id: str
    score: float
    said: str


Scores = dict[int, Scored]


def facts(run: Run) -> Iterator[Fact[Any]]:
    """The facts of every task that was planned."""
    for planned in run.plan.tasks:
        yield from _task(run, planned)


def _task(run: Run, planned: PlannedTask) -> Iterator[Fact[Any]]:
    name = planned.name
    scores = {phase: _items(run, planned, phase) for phase in PHASES}
    yield learning.TASK_ASKED.of(task=name).seen(planned.asked(), "trial")
    yield _file(run, planned)
    yield _overlap(run, planned)
    for phase in PHASES:
        yield _score(name, phase, scores[phase])
    whole = {phase: items for phase, items in scores.items() if not isinstance(items, Missing)}
    lacking = next((items for items in scores.values() if isinstance(items, Missing)), None)
    if not lacking and len({len(items) for items in whole.values()}) > 1:
        counts = ", ".join(f"{len(items)} {phase}" for phase, items in whole.items())
        lacking = Missing("unknown", f"phases scored different numbers of items: {counts}", "ranks, reload")
    if lacking:
        for family in (learning.TASK_CHANGE, learning.TASK_AGREEMENT, learning.TASK_ITEMS):
            yield family.of(task=name).unknown(lacking.reason, lacking.witness)
        return
    yield _change(run, name, whole)
    yield _agreement(run, name, whole)
    yield _shown(name, whole)


def _items(run: Run, planned: PlannedTask, phase: str) -> Scores | Missing:
    """Every item exactly once, or why not."""
    again = phase in ("base", "reload")
    streams, role = (run.reloads, "reload") if again else (run.ranks, "rank")
    if not streams:
        return Missing("unknown", f"the driver's roster of {role} processes is missing", role)
    step = 0 if phase in ("before", "base") else run.plan.steps
    items: Scores = {}
    totals: set[int] = {planned.items} if planned.items else set()
    for stream in streams:
        events = [e for e in stream.all(TaskScored) if (e.task, e.phase) == (planned.name, phase)]
        if problem := _gap(stream, events, step):
            return Missing("unknown", problem, role)
        for event in events:
            totals.add(event.total)
            for number, label, score, said, _ in event.items:
                if isinstance(score, NonFinite):
                    return Missing("error", f"non-finite: item {label} is {score.text}", role)
                if number in items:
                    return Missing("unknown", f"item {label} was scored twice", role)
                items[number] = Scored(label, score, said)
    # Compared by number and by count: a total that no run has must not be spelled out item by item.
    if len(totals) != 1 or not items or len(items) != max(totals) or set(items) != set(range(len(items))):
        return Missing("unknown", f"{len(items)} of {' or '.join(map(str, sorted(totals)))} items were scored", role)
    return items


def _gap(stream: Stream, events: list[TaskScored], step: int | None) -> str:
    """Empty if a process wrote every part of a phase once, at the step that the phase is of."""
    if not events or [e.part for e in events] != list(range(1, len(events) + 1)) or events[0].parts != len(events):
        return stream.why_incomplete() or f"{stream.path} has {len(events)} parts of this task and phase"
    wrong = next((e.step for e in events if e.step != step), None)
    return "" if wrong is None else f"{stream.path} scored it at step {wrong}, it is of step {step}"


def _file(run: Run, planned: PlannedTask) -> Fact[TaskDigests]:
    """What the items were read from, by every process in every phase, and as frozen if the driver could read it."""
    type = learning.TASK_FILE.of(task=planned.name)
    seen: dict[str, list[str]] = {"frozen": [planned.digest]} if planned.digest else {}
    for stream in (*run.ranks, *run.reloads):
        for event in stream.all(TaskScored):
            if event.task == planned.name:
                seen[event.phase] = sorted({*seen.get(event.phase, []), event.digest})
        for compared in stream.all(TaskOverlap):
            if compared.task == planned.name:
                seen["overlap"] = sorted({*seen.get("overlap", []), compared.digest})
    if not {*PHASES} & {*seen}:
        return type.unknown("no process read the items", "ranks, reload")
    same = len({digest for digests in seen.values() for digest in digests}) == 1
    return type.seen(TaskDigests(same, seen), "every process, in every phase")


def _score(name: str, phase: str, items: Scores | Missing) -> Fact[Score]:
    type = learning.TASK_SCORE.of(task=name, phase=phase)
    if isinstance(items, Missing):
        return items.of(type)
    witness = "reload processes" if phase in ("base", "reload") else "training ranks"
    scores = [item.score for item in items.values()]
    right = int(sum(scores)) if set(scores) <= {0.0, 1.0} else None
    return type.seen(Score(math.fsum(scores) / len(scores), len(scores), right), witness)


def _overlap(run: Run, planned: PlannedTask) -> Fact[learning.TaskOverlap]:
    """Items in the training tokens, by rank 0 in the stream in use, by the reload in the source; the worse counts."""
    type, limit = learning.TASK_OVERLAP.of(task=planned.name), run.tolerances.task_overlap_share
    if planned.lm_eval:
        return type.not_applicable("items of lm_eval are not compared with the training text")
    seen = [
        next((e for s in streams for e in s.all(TaskOverlap) if e.task == planned.name), None)
        for streams in (run.ranks, run.reloads)
    ]
    both = [e for e in seen if e]
    if len(both) < len(seen) or limit is None:
        why = "the items were not compared with train by both a rank and the reload"
        return type.unknown(why, "rank 0, reload")
    worse = max(both, key=lambda e: e.found)
    compared = min(e.compared for e in both)
    value = learning.TaskOverlap(
        found=worse.found,
        compared=compared,
        too_short=worse.too_short,
        share=worse.found / max(1, compared),
        limit=limit,
        suspect=worse.suspect,
    )
    return type.seen(value, "token n-grams, by rank 0 in the stream in use, by the reload in the source")


def _change(run: Run, name: str, whole: dict[str, Scores]) -> Fact[TaskChange]:
    """Before against after, item by item, by each witness."""
    type, limits = learning.TASK_CHANGE.of(task=name), run.tolerances
    resamples, seed, chance = limits.task_bootstrap_resamples, limits.task_bootstrap_seed, limits.task_chance_p
    if resamples is None or seed is None or chance is None:
        return type.unknown(UNPLANNED, "driver")
    ranks, reload = (
        compare(_in_order(whole[first]), _in_order(whole[last]), resamples=resamples, seed=seed)
        for first, last in (("before", "after"), ("base", "reload"))
    )
    return type.seen(TaskChange(ranks, reload, chance), "training ranks and reload processes, item by item")


def _in_order(items: Scores) -> list[float]:
    return [items[number].score for number in sorted(items)]


def _agreement(run: Run, name: str, whole: dict[str, Scores]) -> Fact[Agreement]:
    """Items on whose score the two witnesses differ."""
    type, limit = learning.TASK_AGREEMENT.of(task=name), run.tolerances.task_disagreement_share
    if limit is None:
        return type.unknown(UNPLANNED, "driver")
    (before, before_said), (after, after_said) = (
        _differing(whole[mine], whole[other]) for mine, other in (("before", "base"), ("after", "reload"))
    )
    value = Agreement(len(whole["after"]), limit, before, before_said, after, after_said)
    return type.seen(value, "training ranks against reload processes")


def _differing(mine: Scores, other: Scores) -> tuple[int, int]:
    """Items that were scored differently, and those that were answered differently."""
    rows = [(item, other[number]) for number, item in mine.items()]
    return sum(a.score != b.score for a, b in rows), sum(a.said != b.said for a, b in rows)


def _shown(name: str, whole: dict[str, Scores]) -> Fact[TaskItems]:
    """Items with their scores in the four phases and their answers by the ranks: those that changed first."""
    rows = []
    for number in sorted(whole["before"]):
        scores = {phase: whole[phase][number].score for phase in PHASES}
        first, last = whole["before"][number], whole["after"][number]
        rows.append(ShownItem(first.id, **scores, answer_before=first.said, answer_after=last.said))
    changed = [row for row in rows if row.before != row.after]
    same = [row for row in rows if row.before == row.after]
    value = TaskItems(
        items=len(rows),
        changed=len(changed),
        shown=[*_spread(changed, SHOWN_CHANGED), *_spread(same, SHOWN_SAME)],
    )
    return learning.TASK_ITEMS.of(task=name).seen(value, "training ranks and reload processes")


def _spread(rows: list[V], most: int) -> list[V]:
    """At most so many rows, evenly spread."""
    return rows if len(rows) <= most else [rows[i * len(rows) // most] for i in range(most)]
