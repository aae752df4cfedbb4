"""What a manager reads, for page and pull request alike: the headline, what nothing was claimed about, key figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from seatrial.errors import EXIT_ENDED_EARLY, EXIT_INPUT, EXIT_INTERNAL, EXIT_NOT_ESTABLISHED, EXIT_OK, EXIT_REFUTED
from seatrial.evidence.facts import (
    FactType,
    execution,
    learning,
    outside,
    performance,
    recovery,
    transport,
)
from seatrial.evidence.facts.execution import ExecutedSteps
from seatrial.evidence.facts.performance import Memory, StepTime, Throughput
from seatrial.evidence.facts.recovery import Reload
from seatrial.evidence.facts.transport import Bytes
from seatrial.report.leads import change, count, peaks
from seatrial.report.reading import clipped, faults, figure, mapping, number, seconds, size, string
from seatrial.report.view import FactView, RecordView

T = TypeVar("T")
MAX_FAULTS = 5
EXIT_CODES = {
    EXIT_OK: "every claim that this kind of run can establish is supported",
    EXIT_REFUTED: "a claim is refuted",
    EXIT_INPUT: "the input is wrong",
    EXIT_NOT_ESTABLISHED: "no claim is refuted, at least one is not established",
    EXIT_ENDED_EARLY: "the run ended early or could not be carried out",
    EXIT_INTERNAL: "a fault of seatrial's own",
}


OBSERVED = (
    "seatrial did not start this job: it was looked at while it ran. What can only be known by those who start it, or"
    " by its own loop, is unknown here."
)


@dataclass(frozen=True)
class KeyFigure:
    """One figure with what must be read beside it, and the fact it comes from."""

    label: str
    value: str
    note: str
    anchor: str


def headline(view: RecordView) -> str:
    """`3 of 4 claims supported, 1 refuted`."""
    if view.record.get("void"):
        return "Void: no claim can be judged"
    counted = _counted(view)
    return f"seatrial itself failed: {counted[:1].lower()}{counted[1:]}" if faults(view.record) else counted


def _counted(view: RecordView) -> str:
    words = [v.word for v in view.verdicts]
    if not words:
        return "Looked at; nothing was claimed" if view.record.get("observed") is True else "Nothing was claimed"
    claims = f"{len(words)} claim{'' if len(words) == 1 else 's'}"
    counted = [
        (words.count(w), name)
        for w, name in (
            ("refuted", "refuted"),
            ("not-established", "not established"),
            ("unreadable", "without a verdict"),
        )
    ]
    rest = "".join(f", {n} {name}" for n, name in counted if n)
    whole = "All " if not rest and len(words) > 1 else ""
    return f"{whole}{claims} supported" if not rest else f"{words.count('supported')} of {claims} supported{rest}"


def transport_line(view: RecordView) -> str:
    """The transport verdict that stands beside every throughput."""
    found = [v for v in view.verdicts if v.kind == "transport"]
    if len(found) == 1:
        said = f"transport: {found[0].shown}"
    else:
        said = "; ".join(f"{v.claim}: {v.shown}" for v in found) or "transport: not claimed"
    return "; ".join([said, *_paths(view)])


def _paths(view: RecordView) -> list[str]:
    """The path that was seen, claimed or not; what does not exist in the run is left out."""
    facts = ((view.fact(transport.INTERNODE), "between hosts"), (view.fact(transport.INTRANODE), "within a host"))
    return [f"{words} {fact.lead.partition(';')[0]}" for fact, words in facts if fact and fact.known and fact.lead]


def not_claimed(view: RecordView) -> str:
    """One line on the kinds that nothing was claimed about; empty if there is none."""
    from seatrial.trial.claims import KINDS

    claimed = {v.kind for v in view.verdicts}
    silent = [kind for kind in KINDS if kind not in claimed]
    if not silent:
        return ""
    line = f"Not claimed: {', '.join(silent)}"
    about = [word for kind, word in (("transport", "path"), ("performance", "value")) if kind in silent]
    rate = _rate(view)
    if rate is None or not about:
        return f"{line}."
    beside = "" if "transport" in silent else f" ({transport_line(view)})"
    return f"{line} — {rate:,.0f} tokens/s was seen{beside}; nothing was claimed about its {' or '.join(about)}."


def _rate(view: RecordView) -> float | None:
    value = view.value(performance.TOKENS_PER_SECOND)
    return number(value.tokens_per_second) if value else None


Shown = tuple[str, str] | None  # value and note; None where the value makes no figure


@dataclass(frozen=True)
class _Figure:
    """Made by `_figure`, so that `show` takes the values of `type`. Looked for only in records that have `among`."""

    type: FactType[Any]
    label: str
    show: Callable[[Any, RecordView], Shown]
    among: FactType[Any]


def _figure(
    type: FactType[T], label: str, show: Callable[[T, RecordView], Shown], among: FactType[Any] | None = None
) -> _Figure:
    return _Figure(type, label, show, among or type)


def key_figures(view: RecordView) -> list[KeyFigure]:
    """The figures that were looked for; one that could not be seen says so."""
    found: list[KeyFigure] = []
    for wanted in _FIGURES:
        fact = view.fact(wanted.type)
        if fact is None or fact.state == "not-applicable" or view.fact(wanted.among) is None:
            continue
        beside = transport_line(view) if wanted.type == performance.TOKENS_PER_SECOND else ""
        value, note = _shown(wanted, fact, view)
        notes = (note, beside) if fact.known else (beside, note)
        found.append(KeyFigure(wanted.label, value, "; ".join(filter(None, notes)), fact.anchor))
    return found


def _shown(wanted: _Figure, fact: FactView, view: RecordView) -> tuple[str, str]:
    if not fact.known:
        return fact.state, fact.reason
    value = view.value(wanted.type)
    made = None if value is None else wanted.show(value, view)
    return made or ("error", "the fact has another shape than it is known to have")


def _steps(value: ExecutedSteps, view: RecordView) -> Shown:
    planned = view.value(execution.PLANNED_STEPS)
    shown = figure(value.min) if value.min == value.max else f"{figure(value.min)} to {figure(value.max)}"
    return shown, "" if planned is None else f"asked: {figure(planned)}"


def _heldout(after: float, view: RecordView) -> Shown:
    before = view.value(learning.BITS_PER_BYTE.of(phase="before"))
    shown = change(before, after) or f"{after:.2f}"
    data = view.value(learning.DATA)
    if data and data.synthetic:
        return shown, "random tokens: nothing can be learnt"
    bigram = view.value(learning.BASELINE.of(table="bigram"))
    return shown, "" if bigram is None else f"a bigram model: {bigram:.2f}"


def _loss(after: float, view: RecordView) -> Shown:
    before = view.value(learning.LOSS.of(phase="before"))
    return change(before, after) or f"{after:.3f}", "nats/token, by the script's own evaluation"


def _throughput(value: Throughput, _: RecordView) -> Shown:
    return f"{value.tokens_per_second:,.0f}", ""


def _wire(value: Bytes, _: RecordView) -> Shown:
    rows = value.by_interface
    within = sum(row.word == "within" for row in rows)
    links = "; ".join(dict.fromkeys(string(row.interface, 40) for row in rows))
    return f"{within} of {len(rows)}", f"{'interface' if len(rows) == 1 else 'interfaces'} within the band: {links}"


def _step_time(value: StepTime, _: RecordView) -> Shown:
    return seconds(value.p50), f"p95 {seconds(value.p95)}"


def _memory(value: Memory, _: RecordView) -> Shown:
    sizes = [peak for _, peak in peaks(value)]
    return (size(max(sizes)), f"the largest of {count(len(sizes), 'process')}") if sizes else None


def _reload(value: Reload, _: RecordView) -> Shown:
    return f"{figure(value.equal)} of {figure(value.expected)}", f"items equal, step {value.step}"


_FIGURES = (
    _figure(execution.EXECUTED_STEPS, "Steps on each rank", _steps),
    _figure(learning.BITS_PER_BYTE.of(phase="after"), "Held-out bits per byte", _heldout),
    _figure(learning.LOSS.of(phase="after"), "Held-out loss", _loss, among=outside.SCRIPT_NAME),
    _figure(performance.TOKENS_PER_SECOND, "Throughput, tokens/s", _throughput),
    _figure(transport.BYTES, "Bytes on the wire", _wire),
    _figure(performance.STEP_TIME, "Step time, p50", _step_time),
    _figure(performance.PEAK_MEMORY, "Peak memory", _memory),
    _figure(recovery.RELOAD, "Checkpoint reload", _reload),
)


def asked_line(view: RecordView) -> list[tuple[str, str]]:
    """World size, strategy, model, data and steps as the trial asks for them: `[(name, value)]`."""
    trial = mapping(view.record.get("trial"))
    workload = mapping(trial.get("workload"))
    ranks, each = mapping(trial.get("scaling")).get("num_workers"), number(workload.get("global_batch"))
    length = number(workload.get("sequence_length"))
    steps = string(workload.get("steps"), 40)
    if steps and each and length:
        steps += f" × {figure(each * length)} tokens"
    found = [
        ("World size", string(ranks, 40)),
        ("Strategy", " ".join(string(workload.get(k), 40) for k in ("strategy", "precision")).strip()),
        ("Model", _model(mapping(workload.get("model")))),
        ("Data", _source(mapping(workload.get("data")))),
        ("Script", _script(workload)),
        ("Steps", steps),
        ("Cluster", string(mapping(trial.get("cluster")).get("provider"), 40)),
    ]
    return [(name, value) for name, value in found if value]


def _script(workload: dict[str, Any]) -> str:
    given = workload.get("args")
    arguments = given if isinstance(given, list) else []
    name = string(workload.get("script"), 200).rpartition("/")[2]
    return " ".join([name, *(string(word, 60) for word in arguments)])[:160] if name else ""


def _model(model: dict[str, Any]) -> str:
    if model.get("name"):
        revision = string(model.get("revision"), 60)
        return string(model["name"], 120) + (f" @ {revision}" if revision else "")
    if model.get("path"):
        return string(model["path"], 160)
    config = mapping(model.get("config"))
    sizes = " × ".join(string(config[k], 20) for k in ("num_hidden_layers", "hidden_size") if k in config)
    return (
        f"{string(config.get('model_type'), 60)} from a config{f', {sizes}' if sizes else ''}".strip() if config else ""
    )


def _source(data: dict[str, Any]) -> str:
    for key in ("synthetic", "corpus", "train"):
        if data.get(key):
            return ("synthetic: " if key == "synthetic" else "") + string(data[key], 160)
    return ""


@dataclass(frozen=True)
class Banner:
    """What must be said before anything else; a loud one where nothing below can be taken as it stands."""

    label: str
    text: str
    loud: bool = False


def banners(view: RecordView) -> list[Banner]:
    """The banners that the record needs."""
    record = view.record
    said = [
        Banner("Void", string(record.get("void"), 600), loud=True),
        Banner("Fault of seatrial's own", _faults(record), loud=True),
        Banner("Ended early", string(record.get("ended_early"), 600)),
        Banner("Observed", OBSERVED if record.get("observed") is True else ""),
    ]
    return [banner for banner in said if banner.text]


def _faults(record: dict[str, Any]) -> str:
    """Errors of seatrial's own that the record holds; empty if there is none."""
    found = faults(record)
    if not found:
        return ""
    more = f"; and {len(found) - MAX_FAULTS:,} more" if len(found) > MAX_FAULTS else ""
    said = "; ".join(clipped(str(fault), 400) for fault in found[:MAX_FAULTS])
    return f"{said}{more}. What is missing because of it says nothing about the run."


def exit_line(view: RecordView) -> str:
    """`Exit code 1: a claim is refuted`; empty if the record has none, or is void."""
    code = view.record.get("exit_code")
    unclaimed = view.record.get("observed") is True and not view.verdicts
    silent = (view.record.get("void") or unclaimed) and not faults(view.record)
    if silent or not isinstance(code, int) or isinstance(code, bool):
        return ""
    return f"Exit code {code}: {EXIT_CODES.get(code, 'no known meaning')}"
