"""Tasks: items before and after, by the training ranks and again by the processes that reload."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from seatrial.events import Stream
from seatrial.events.tasks import NonFiniteScore, TaskOverlap, TaskScored
from seatrial.evidence.facts import Fact, unknown
from seatrial.evidence.gather import Run
from seatrial.evidence.paired import compare

PHASES = ("before", "after", "base", "reload")
SHOWN_CHANGED, SHOWN_SAME = 100, 50  # items in the record; the counts beside them are of all


@dataclass(frozen=True)
class Scored:
    """One item in one phase."""

    id: str
    score: float
    said: str


Scores = dict[int, Scored]


def facts(run: Run) -> dict[str, Fact]:
    """The facts of every task that was planned."""
    limits = run.plan.get("tolerances", {})
    found: list[Fact] = []
    for planned in run.plan.get("tasks", []):
        found += _task(run, planned, limits)
    return {fact.id: fact for fact in found}


def _task(run: Run, planned: dict[str, Any], limits: dict[str, Any]) -> list[Fact]:
    name = f"learning.task.{planned['name']}"
    scores = {phase: _items(run, planned, phase, f"{name}.{phase}") for phase in PHASES}
    asked = {key: value for key, value in planned.items() if key not in ("digest", "items")}
    found = [Fact(f"{name}.asked", value=asked, witness="trial"), _file(run, planned, name)]
    found.append(_overlap(run, planned, f"{name}.overlap", limits))
    found += [_accuracy(f"{name}.{phase}", phase, scores[phase]) for phase in PHASES]
    whole = {phase: items for phase, items in scores.items() if not isinstance(items, Fact)}
    if len(whole) < len(PHASES):
        first = next(items for items in scores.values() if isinstance(items, Fact))
        parts = ("change", "agreement", "items")
        return found + [unknown(f"{name}.{part}", first.reason, first.witness) for part in parts]
    return [*found, _change(name, whole, limits), _agreement(name, whole, limits), _shown(name, whole)]


def _items(run: Run, planned: dict[str, Any], phase: str, name: str) -> Scores | Fact:
    """Every item exactly once, or the fact that says why not."""
    again = phase in ("base", "reload")
    streams, role = (run.reloads, "reload") if again else (run.ranks, "rank")
    if not streams:
        return unknown(name, f"the driver's roster of {role} processes is missing", role)
    step = 0 if phase in ("before", "base") else run.plan.get("steps")
    items: Scores = {}
    totals: set[int] = {planned["items"]} if planned.get("items") else set()
    for stream in streams:
        events = [e for e in stream.all(TaskScored) if (e.task, e.phase) == (planned["name"], phase)]
        if problem := _gap(stream, events, step):
            return unknown(name, problem, role)
        for event in events:
            totals.add(event.total)
            for number, label, score, said, _ in event.items:
                if isinstance(score, NonFiniteScore):
                    return Fact(name, "error", reason=f"non-finite: item {label} is {score.text}", witness=role)
                if number in items:
                    return unknown(name, f"item {label} was scored twice", role)
                items[number] = Scored(label, score, said)
    if len(totals) != 1 or set(items) != set(range(next(iter(totals)))):
        return unknown(name, f"{len(items)} of {' or '.join(map(str, sorted(totals)))} items were scored", role)
    return items


def _gap(stream: Stream, events: list[TaskScored], step: Any) -> str:
    """Empty if a process wrote every part of a phase once, at the step that the phase is of."""
    if not events or [e.part for e in events] != list(range(1, events[0].parts + 1)):
        return stream.why_incomplete() or f"{stream.path} has {len(events)} parts of this task and phase"
    wrong = next((e.step for e in events if e.step != step), None)
    return "" if wrong is None else f"{stream.path} scored it at step {wrong}, it is of step {step}"


def _file(run: Run, planned: dict[str, Any], name: str) -> Fact:
    """What the items were read from, by every process in every phase, and as frozen if the driver could read it."""
    seen: dict[str, list[str]] = {"frozen": [planned["digest"]]} if planned.get("digest") else {}
    for stream in (*run.ranks, *run.reloads):
        for event in stream.all(TaskScored):
            if event.task == planned["name"]:
                seen[event.phase] = sorted({*seen.get(event.phase, []), event.digest})
        for compared in stream.all(TaskOverlap):
            if compared.task == planned["name"]:
                seen["overlap"] = sorted({*seen.get("overlap", []), compared.digest})
    if not {*PHASES} & {*seen}:
        return unknown(f"{name}.file", "no process read the items", "ranks, reload")
    value = {"same": len({d for digests in seen.values() for d in digests}) == 1, "digests": seen}
    return Fact(f"{name}.file", value=value, witness="every process, in every phase")


def _accuracy(name: str, phase: str, items: Scores | Fact) -> Fact:
    if isinstance(items, Fact):
        return items
    witness = "reload processes" if phase in ("base", "reload") else "training ranks"
    scores = [item.score for item in items.values()]
    value: dict[str, Any] = {"accuracy": math.fsum(scores) / len(scores), "items": len(scores)}
    if set(scores) <= {0.0, 1.0}:
        value["right"] = int(sum(scores))
    return Fact(name, value=value, witness=witness)


def _overlap(run: Run, planned: dict[str, Any], name: str, limits: dict[str, Any]) -> Fact:
    """Items in the training tokens, by rank 0 in the stream in use, by the reload in the source; the worse counts."""
    if planned.get("lm_eval"):
        return Fact(name, "not-applicable", reason="items of lm_eval are not compared with the training text")
    seen = [
        next((e for s in streams for e in s.all(TaskOverlap) if e.task == planned["name"]), None)
        for streams in (run.ranks, run.reloads)
    ]
    both = [e for e in seen if e]
    if len(both) < len(seen) or "task_overlap_share" not in limits:
        return unknown(name, "the items were not compared with train by both a rank and the reload", "rank 0, reload")
    worse = max(both, key=lambda e: e.found)
    value = {
        "found": worse.found,
        "compared": min(e.compared for e in both),
        "too_short": worse.too_short,
        "share": worse.found / max(1, min(e.compared for e in both)),
        "limit": limits["task_overlap_share"],
        "suspect": worse.suspect,
    }
    return Fact(name, value=value, witness="token n-grams, by rank 0 in the stream in use, by the reload in the source")


def _change(name: str, whole: dict[str, Scores], limits: dict[str, Any]) -> Fact:
    """Before against after, item by item, by each witness."""
    if not {"task_bootstrap_resamples", "task_bootstrap_seed", "task_chance_p"} <= {*limits}:
        return unknown(f"{name}.change", "the tolerances that were set before step 0 are missing", "driver")
    value: dict[str, Any] = {}
    for witness, (first, last) in {"ranks": ("before", "after"), "reload": ("base", "reload")}.items():
        old, new = ([whole[phase][n].score for n in sorted(whole[phase])] for phase in (first, last))
        value[witness] = compare(
            old, new, resamples=limits["task_bootstrap_resamples"], seed=limits["task_bootstrap_seed"]
        ).json
    value["chance_p"] = limits["task_chance_p"]
    return Fact(f"{name}.change", value=value, witness="training ranks and reload processes, item by item")


def _agreement(name: str, whole: dict[str, Scores], limits: dict[str, Any]) -> Fact:
    """Items on whose score the two witnesses differ."""
    if "task_disagreement_share" not in limits:
        return unknown(f"{name}.agreement", "the tolerances that were set before step 0 are missing", "driver")
    value: dict[str, Any] = {"items": len(whole["after"]), "limit": limits["task_disagreement_share"]}
    for mine, other in (("before", "base"), ("after", "reload")):
        rows = [(item, whole[other].get(n)) for n, item in whole[mine].items()]
        value[mine] = sum(again is None or again.score != item.score for item, again in rows)
        value[f"{mine}_answers"] = sum(again is None or again.said != item.said for item, again in rows)
    return Fact(f"{name}.agreement", value=value, witness="training ranks against reload processes")


def _shown(name: str, whole: dict[str, Scores]) -> Fact:
    """Items with their scores in the four phases and their answers by the ranks: those that changed first."""
    rows = []
    for number in sorted(whole["before"]):
        first, last = whole["before"][number], whole["after"][number]
        scores = [whole[phase][number].score if number in whole[phase] else None for phase in PHASES]
        answers = {"answer_before": first.said, "answer_after": last.said}
        rows.append({"id": first.id, **dict(zip(PHASES, scores, strict=True)), **answers})
    changed = [row for row in rows if row["before"] != row["after"]]
    same = [row for row in rows if row["before"] == row["after"]]
    value = {
        "items": len(rows),
        "changed": len(changed),
        "shown": [*_spread(changed, SHOWN_CHANGED), *_spread(same, SHOWN_SAME)],
    }
    return Fact(f"{name}.items", value=value, witness="training ranks and reload processes")


def _spread(rows: list[Any], most: int) -> list[Any]:
    """At most so many rows, evenly spread."""
    return rows if len(rows) <= most else [rows[i * len(rows) // most] for i in range(most)]
