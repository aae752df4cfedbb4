"""Learning: held-out windows before and after, against baselines, scored by two groups of processes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from seatrial.events.schema import (
    Baselines,
    DataAudited,
    DataOpened,
    Evaluated,
    Isolation,
    NonFinite,
    Overlap,
    Step,
)
from seatrial.evidence.facts import learning
from seatrial.evidence.facts.fact import Fact
from seatrial.evidence.facts.learning import BASELINE, BITS_PER_BYTE, LOSS, PHASES, PairedChange, TrainingData
from seatrial.evidence.run import Run
from seatrial.evidence.training import tasks
from seatrial.evidence.training.scores import Items, Missing
from seatrial.evidence.witness.statistics import thin

Z95 = 1.96


def facts(run: Run) -> Iterator[Fact[Any]]:
    """All facts of this kind."""
    expected = next((e.heldout_windows for s in run.ranks if (e := s.last(DataOpened))), 0)
    yield _data(run)
    yield from heldout({phase: _items(run, phase, expected) for phase in PHASES}, _other_windows(run))
    yield from _baselines(run, expected)
    yield overlap(run)
    yield curve(run)
    yield _isolation(run)
    yield from tasks.facts(run)


def heldout(scores: dict[str, Items | Missing], doubt: str) -> Iterator[Fact[Any]]:
    """Scores of the four phases and the change from before to after. `doubt` says why they are worth nothing, if so."""
    if doubt:
        scores = {
            phase: items if isinstance(items, Missing) else Missing("unknown", doubt, "ranks, reload")
            for phase, items in scores.items()
        }
    before, after = scores["before"], scores["after"]
    if isinstance(before, dict) and isinstance(after, dict) and set(before) != set(after):
        why = f"{len(before)} items before and {len(after)} after are not the same ones"
        scores = {**scores, "after": Missing("unknown", why, "rank")}
    for phase, items in scores.items():
        yield from _scores(phase, items)
    yield _paired_change(scores["before"], scores["after"])


def _data(run: Run) -> Fact[TrainingData]:
    opened = next((e for s in run.ranks if (e := s.last(DataOpened))), None)
    if opened is None:
        return learning.DATA.unknown("no rank opened the data", "ranks")
    value = TrainingData(
        source=opened.source,
        synthetic=opened.source.startswith("synthetic:") or bool(run.plan.synthetic),
        manifest=opened.manifest,
        tokenizer=opened.tokenizer,
        train_tokens=opened.train_tokens,
        rows=opened.rows,
        heldout_windows=opened.heldout_windows,
        heldout_windows_asked=run.plan.heldout_windows,
        dropped=opened.dropped,
        documents=opened.documents,
        counted_tokens=opened.counted,
        truncated=opened.truncated,
        bad_rows=opened.bad,
        bad_rows_named=opened.bad_named,
    )
    return learning.DATA.seen(value, "ranks")


def _other_windows(run: Run) -> str:
    """Why scores say nothing: held-out windows that are not those that the reload cut from the source."""
    ours = {e.windows for s in run.ranks if (e := s.last(DataOpened))}
    theirs = {e.windows for s in run.reloads for e in s.all(DataAudited)}
    if not theirs or ours == theirs:
        return ""
    return "contradiction: the held-out windows in use are not those that the reload cut from the source"


def _isolation(run: Run) -> Fact[learning.Isolation]:
    """What changing one document of a row did to another, at worst among the ranks."""
    shown = [e for s in run.ranks if (e := s.last(Isolation))]
    if run.plan.synthetic:
        return learning.ISOLATION.not_applicable("random tokens have no documents")
    if not shown or len(shown) < len(run.ranks):
        return learning.ISOLATION.unknown("not every rank changed a document and looked at another", "ranks")
    leaks = [e.leak for e in shown if not isinstance(e.leak, NonFinite)]
    effects = [e.effect for e in shown if not isinstance(e.effect, NonFinite)]
    if len(leaks) < len(shown) or len(effects) < len(shown):
        return learning.ISOLATION.error("non-finite: the model's answer is no number", "ranks")
    leak, effect = max(leaks), min(effects)
    if not effect:
        return learning.ISOLATION.unknown("the model's answer did not change with the document itself", "ranks")
    value = learning.Isolation(leak, effect, shown[0].limit)
    return learning.ISOLATION.seen(value, "two documents in a row, one of them changed, by every rank")


def _items(run: Run, phase: str, expected: int) -> Items | Missing:
    """Every window exactly once, or why not."""
    streams, role = (run.reloads, "reload") if phase in ("base", "reload") else (run.ranks, "rank")
    if not expected or not streams:
        return Missing("unknown", "the data was never opened", role)
    items: Items = {}
    for stream in streams:
        events = [e for e in stream.all(Evaluated) if e.phase == phase]
        if len(events) != 1:
            why = stream.why_incomplete() or f"{stream.path} has {len(events)} evaluations of this phase"
            return Missing("unknown", why, role)
        for window, nats, tokens, size in events[0].items:
            if isinstance(nats, NonFinite):
                return Missing("error", f"non-finite: window {window} is {nats.text}", role)
            if window in items:
                return Missing("unknown", f"window {window} was scored twice", role)
            items[window] = (nats, tokens, size)
    if len(items) != expected:
        return Missing("unknown", f"{len(items)} of {expected} windows were scored", role)
    return items


def _scores(phase: str, items: Items | Missing) -> Iterator[Fact[float]]:
    loss, bits = LOSS.of(phase=phase), BITS_PER_BYTE.of(phase=phase)
    if isinstance(items, Missing):
        yield from (items.of(type) for type in (loss, bits))
        return
    nats = math.fsum(n for n, _, _ in items.values())
    tokens, size = sum(t for _, t, _ in items.values()), sum(b for _, _, b in items.values())
    witness = "reload processes" if phase in ("base", "reload") else "training ranks"
    if not tokens:
        yield from (type.unknown("the scored items have no tokens", witness) for type in (loss, bits))
        return
    yield loss.seen(nats / tokens, witness)
    if size:
        yield bits.seen(nats / math.log(2) / size, witness)
    else:
        yield bits.not_applicable("the tokens stand for no bytes")


def _baselines(run: Run, windows: int) -> Iterator[Fact[float]]:
    """Bits per byte of each table over all held-out windows, if training and reload fitted the same."""
    first, again = (
        next((e for s in streams if (e := s.last(Baselines))), None) for streams in (run.ranks, run.reloads)
    )
    if first is None or not sum(first.bytes):
        return
    for table in sorted(first.nats):
        type, value = BASELINE.of(table=table), _bits(first, table)
        if not len(first.nats[table]) == len(first.bytes) == windows:
            yield type.unknown(f"rank 0 did not score all {windows} windows with it", "rank 0")
        elif again is None:
            yield type.unknown(f"rank 0 says {value:.4f}, and no other process fitted it", "reload")
        elif not math.isclose(value, other := _bits(again, table), rel_tol=1e-6):
            yield type.unknown(f"rank 0 says {value:.4f}, the reload {other:.4f}", "rank 0, reload")
        else:
            yield type.seen(value, "fitted on train and scored on the same windows, by rank 0 and by the reload")


def _bits(event: Baselines, table: str) -> float:
    return math.fsum(event.nats.get(table, [])) / math.log(2) / max(1, sum(event.bytes))


def overlap(run: Run) -> Fact[learning.Overlap]:
    """Share of suspect windows, by rank 0 on its own streams and by the reload on the source; the worse counts."""
    witness = "rank 0, reload"
    seen = [next((e for s in streams if (e := s.last(Overlap))), None) for streams in (run.ranks, run.reloads)]
    both = [e for e in seen if e]
    share, limit = run.tolerances.overlap_window_share, run.tolerances.overlap_window_limit
    if len(both) < len(seen) or share is None or limit is None:
        why = "held-out was not compared with train by both a rank and the reload"
        return learning.OVERLAP.unknown(why, witness)
    if not all(e.shares for e in both):
        return learning.OVERLAP.unknown("held-out windows are too short to compare with train", witness)
    worst = [max(pair) for pair in zip_longest(*(e.shares for e in both), fillvalue=1.0)]
    suspect = [n for n, found in enumerate(worst) if found > share]
    value = learning.Overlap(suspect, len(suspect) / len(worst), limit, both[0].ngram)
    return learning.OVERLAP.seen(value, "token n-grams, by rank 0 in the streams in use, by the reload from the source")


def _paired_change(before: Items | Missing, after: Items | Missing) -> Fact[PairedChange]:
    """Mean per-window change, after − before, with a 95 % interval from the paired windows (normal approximation)."""
    if isinstance(before, Missing) or isinstance(after, Missing) or len(before) < 2:
        return learning.PAIRED_CHANGE.unknown("before or after is incomplete", "ranks")
    if not all(tokens for _, tokens, _ in before.values()):
        return learning.PAIRED_CHANGE.unknown("a scored item has no tokens", "ranks")
    changes = [(after[w][0] - before[w][0]) / before[w][1] for w in sorted(before)]
    mean = math.fsum(changes) / len(changes)
    spread = math.sqrt(math.fsum((c - mean) ** 2 for c in changes) / (len(changes) - 1) / len(changes))
    value = PairedChange(mean, mean - Z95 * spread, mean + Z95 * spread, len(changes))
    return learning.PAIRED_CHANGE.seen(value, "training ranks, window by window")


def curve(run: Run) -> Fact[list[tuple[int, float | None]]]:
    """Mean train loss per step, over the targets of all ranks that count; null where a rank's was not finite."""
    by_step: dict[int, list[tuple[float, int]]] = {}
    strange: dict[int, str] = {}
    for stream in run.ranks:
        for event in stream.all(Step):
            if event.loss is None:
                continue
            if isinstance(event.loss, NonFinite):
                strange.setdefault(event.step, event.loss.text)
            else:
                by_step.setdefault(event.step, []).append((event.loss, event.counted or 1))
    steps = sorted({*by_step, *strange})
    if not steps:
        return learning.TRAIN_LOSS.unknown(run.incomplete(run.ranks, "rank") or "no step told its loss", "ranks")
    points = [(n, None if n in strange else _mean(by_step[n])) for n in steps]
    reason = f"{strange[min(strange)]} in {len(strange)} steps, first step {min(strange)}" if strange else ""
    return learning.TRAIN_LOSS.seen(thin(points), "training ranks", reason)


def _mean(parts: list[tuple[float, int]]) -> float:
    """Means of ranks, each weighted by what it is over."""
    return math.fsum(value * weight for value, weight in parts) / sum(weight for _, weight in parts)
