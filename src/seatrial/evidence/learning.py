"""Learning: held-out windows before and after, against baselines, scored by two groups of processes."""

from __future__ import annotations

import math
from itertools import zip_longest

from seatrial.events.observed import Observing
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
from seatrial.evidence import script, tasks
from seatrial.evidence.facts import Fact, unknown
from seatrial.evidence.gather import Run
from seatrial.evidence.series import thin

Items = dict[int, tuple[float, int, int]]  # window -> nats, tokens, bytes


def facts(run: Run) -> dict[str, Fact]:
    """All facts of this kind."""
    expected = next((e.heldout_windows for s in run.ranks if (e := s.last(DataOpened))), 0)
    found = [_data(run)]
    scores: dict[str, Items | Fact] = {}
    for phase in ("before", "after", "base", "reload"):
        scores[phase] = _by_script(run, phase) if run.script else _items(run, phase, expected)
        if (why := _other_windows(run)) and not isinstance(scores[phase], Fact):
            scores[phase] = unknown(f"learning.heldout.{phase}", why, "ranks, reload")
    before, after = scores["before"], scores["after"]
    if not isinstance(before, Fact) and not isinstance(after, Fact) and set(before) != set(after):
        why = f"{len(before)} items before and {len(after)} after are not the same ones"
        scores["after"] = unknown("learning.heldout.after", why, "rank")
    for phase, items in scores.items():
        found += _scores(phase, items)
    found += [*_baselines(run), _overlap(run), _difference(scores), _curve(run)]
    found.append(script.tokens(run) if run.script else _isolation(run))
    return {fact.id: fact for fact in found} | tasks.facts(run)


def _data(run: Run) -> Fact:
    if run.script:
        tokens = script.tokens(run)
        random = tokens.value["random"] if tokens.known else None
        value = {"source": run.script, "synthetic": bool(run.plan.get("synthetic")) or random}
        return Fact("learning.data", value=value, witness=f"trial; {tokens.witness}")
    opened = next((e for s in run.ranks if (e := s.last(DataOpened))), None)
    if opened is None:
        return unknown("learning.data", "no rank opened the data", "ranks")
    synthetic = opened.source.startswith("synthetic:") or bool(run.plan.get("synthetic"))
    return Fact(
        "learning.data",
        value={
            "source": opened.source,
            "synthetic": synthetic,
            "manifest": opened.manifest,
            "tokenizer": opened.tokenizer,
            "train_tokens": opened.train_tokens,
            "rows": opened.rows,
            "heldout_windows": opened.heldout_windows,
            "heldout_windows_asked": run.plan.get("heldout_windows"),
            "dropped": opened.dropped,
            "documents": opened.documents,
            "counted_tokens": opened.counted,
            "truncated": opened.truncated,
            "bad_rows": opened.bad,
            "bad_rows_named": opened.bad_named,
        },
        witness="ranks",
    )


def _other_windows(run: Run) -> str:
    """Why scores say nothing: held-out windows that are not those that the reload cut from the source."""
    ours = {e.windows for s in run.ranks if (e := s.last(DataOpened))}
    theirs = {e.windows for s in run.reloads for e in s.all(DataAudited)}
    if not theirs or ours == theirs:
        return ""
    return "contradiction: the held-out windows in use are not those that the reload cut from the source"


def _isolation(run: Run) -> Fact:
    """What changing one document of a row did to another, at worst among the ranks."""
    name = "learning.isolation"
    shown = [e for s in run.ranks if (e := s.last(Isolation))]
    if run.plan.get("synthetic"):
        return Fact(name, "not-applicable", reason="random tokens have no documents")
    if not shown or len(shown) < len(run.ranks):
        return unknown(name, "not every rank changed a document and looked at another", "ranks")
    numbers = [(e.leak, e.effect) for e in shown]
    if any(isinstance(n, NonFinite) for pair in numbers for n in pair):
        return Fact(name, "error", reason="non-finite: the model's answer is no number", witness="ranks")
    leak, effect = max(n for n, _ in numbers), min(n for _, n in numbers)  # type: ignore[type-var]
    if not effect:
        return unknown(name, "the model's answer did not change with the document itself", "ranks")
    value = {"leak": leak, "effect": effect, "limit": shown[0].limit}
    return Fact(name, value=value, unit="nats", witness="two documents in a row, one of them changed, by every rank")


def _items(run: Run, phase: str, expected: int) -> Items | Fact:
    """Every window exactly once, or the fact that says why not."""
    name = f"learning.heldout.{phase}"
    streams, role = (run.reloads, "reload") if phase in ("base", "reload") else (run.ranks, "rank")
    if not expected or not streams:
        return unknown(name, "the data was never opened", role)
    items: Items = {}
    for stream in streams:
        events = [e for e in stream.all(Evaluated) if e.phase == phase]
        if len(events) != 1:
            return unknown(
                name, stream.why_incomplete() or f"{stream.path} has {len(events)} evaluations of this phase", role
            )
        for window, nats, tokens, size in events[0].items:
            if isinstance(nats, NonFinite):
                return Fact(name, "error", reason=f"non-finite: window {window} is {nats.text}", witness=role)
            if window in items:
                return unknown(name, f"window {window} was scored twice", role)
            items[window] = (nats, tokens, size)
    if len(items) != expected:
        return unknown(name, f"{len(items)} of {expected} windows were scored", role)
    return items


def _by_script(run: Run, phase: str) -> Items | Fact:
    """What a script's own evaluation said, item by item; every item once over all ranks."""
    name = f"learning.heldout.{phase}"
    if phase in ("base", "reload"):
        return unknown(name, "no other process evaluates a script's model", "reload")
    if why := run.incomplete(run.ranks, "rank"):
        return unknown(name, why, "ranks")
    items: Items = {}
    for event in (e for s in run.ranks for e in s.all(Evaluated) if e.phase == phase):
        for item, nats, tokens, size in event.items:
            if isinstance(nats, NonFinite):
                return Fact(name, "error", reason=f"non-finite: item {item} is {nats.text}", witness="ranks")
            if item in items:
                return unknown(name, f"item {item} was scored twice", "ranks")
            items[item] = (nats, tokens, size)
    if not items:
        by = next((e.by for s in run.ranks if (e := s.last(Observing))), "observe")
        if by != "observe":
            return unknown(name, f"{by}'s callback is told no held-out scores item by item", "ranks")
        return unknown(
            name, f"the script tells no held-out scores: `trial.evaluated({phase!r}, nats=…, tokens=…)`", "ranks"
        )
    return items


def _scores(phase: str, items: Items | Fact) -> list[Fact]:
    names = {metric: f"learning.heldout.{metric}.{phase}" for metric in ("loss", "bits_per_byte")}
    if isinstance(items, Fact):
        return [Fact(name, items.state, reason=items.reason, witness=items.witness) for name in names.values()]
    nats = math.fsum(n for n, _, _ in items.values())
    tokens, size = sum(t for _, t, _ in items.values()), sum(b for _, _, b in items.values())
    witness = "reload processes" if phase in ("base", "reload") else "training ranks"
    found = [Fact(names["loss"], value=nats / tokens, unit="nats/token", witness=witness)]
    if size:
        return [
            *found,
            Fact(names["bits_per_byte"], value=nats / math.log(2) / size, unit="bits/byte", witness=witness),
        ]
    return [*found, Fact(names["bits_per_byte"], "not-applicable", reason="the tokens stand for no bytes")]


def _baselines(run: Run) -> list[Fact]:
    """Bits per byte of each table, if training and reload fitted the same."""
    first, again = (
        next((e for s in streams if (e := s.last(Baselines))), None) for streams in (run.ranks, run.reloads)
    )
    if first is None or not sum(first.bytes):
        return []
    found = []
    for table in sorted(first.nats):
        name, value = f"learning.baseline.{table}", _bits(first, table)
        if again is None:
            found.append(unknown(name, f"rank 0 says {value:.4f}, and no other process fitted it", "reload"))
        elif not math.isclose(value, other := _bits(again, table), rel_tol=1e-6):
            found.append(unknown(name, f"rank 0 says {value:.4f}, the reload {other:.4f}", "rank 0, reload"))
        else:
            witness = "fitted on train and scored on the same windows, by rank 0 and by the reload"
            found.append(Fact(name, value=value, unit="bits/byte", witness=witness))
    return found


def _bits(event: Baselines, table: str) -> float:
    return math.fsum(event.nats.get(table, [])) / math.log(2) / max(1, sum(event.bytes))


def _overlap(run: Run) -> Fact:
    """Share of suspect windows, by rank 0 on its own streams and by the reload on the source; the worse counts."""
    name = "learning.overlap"
    seen = [next((e for s in streams if (e := s.last(Overlap))), None) for streams in (run.ranks, run.reloads)]
    limits = run.plan.get("tolerances", {})
    if any(e is None for e in seen) or "overlap_window_share" not in limits:
        return unknown(name, "held-out was not compared with train by both a rank and the reload", "rank 0, reload")
    shares = [e.shares for e in seen if e]
    if not all(shares):
        return unknown(name, "held-out windows are too short to compare with train", "rank 0, reload")
    worst = [max(both) for both in zip_longest(*shares, fillvalue=1.0)]
    suspect = [n for n, share in enumerate(worst) if share > limits["overlap_window_share"]]
    value = {
        "suspect_windows": suspect,
        "share": len(suspect) / len(worst),
        "limit": limits["overlap_window_limit"],
        "ngram": next(e.ngram for e in seen if e),
    }
    return Fact(
        name, value=value, witness="token n-grams, by rank 0 in the streams in use, by the reload from the source"
    )


def _difference(scores: dict[str, Items | Fact]) -> Fact:
    """Mean per-window change, after − before, with a 95 % interval from the paired windows (normal approximation)."""
    name = "learning.heldout.paired_change"
    before, after = scores["before"], scores["after"]
    if isinstance(before, Fact) or isinstance(after, Fact) or len(before) < 2:
        return unknown(name, "before or after is incomplete", "ranks")
    changes = [(after[w][0] - before[w][0]) / before[w][1] for w in sorted(before)]
    mean = math.fsum(changes) / len(changes)
    spread = math.sqrt(math.fsum((c - mean) ** 2 for c in changes) / (len(changes) - 1) / len(changes))
    return Fact(
        name,
        value={"mean": mean, "low": mean - 1.96 * spread, "high": mean + 1.96 * spread, "windows": len(changes)},
        unit="nats/token",
        witness="training ranks, window by window",
    )


def _curve(run: Run) -> Fact:
    """Mean train loss per step, over the targets of all ranks that count; null where a rank's was not finite."""
    name = "learning.train_loss"
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
        return unknown(name, run.incomplete(run.ranks, "rank") or "no step told its loss", "ranks")
    points = [[n, None if n in strange else _mean(by_step[n])] for n in steps]
    reason = f"{strange[min(strange)]} in {len(strange)} steps, first step {min(strange)}" if strange else ""
    return Fact(name, value=thin(points), unit="nats/token", witness="training ranks", reason=reason)


def _mean(parts: list[tuple[float, int]]) -> float:
    """Means of ranks, each weighted by what it is over."""
    return math.fsum(value * weight for value, weight in parts) / sum(weight for _, weight in parts)
