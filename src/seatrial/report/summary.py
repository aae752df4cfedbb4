"""What a manager reads, for page and pull request alike: the headline, what nothing was claimed about, key figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from seatrial.report.leads import change, count
from seatrial.report.reading import figure, mapping, number, seconds, size, string
from seatrial.report.view import Account, FactView

EXIT_CODES = {
    0: "every claim that this kind of run can establish is supported",
    1: "a claim is refuted",
    2: "the input is wrong",
    3: "no claim is refuted, at least one is not established",
    4: "the run ended early or could not be carried out",
    70: "a fault of seatrial's own",
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


def headline(account: Account) -> str:
    """`3 of 4 claims supported, 1 refuted`."""
    words = [v.word for v in account.verdicts]
    if account.record.get("void"):
        return "Void: no claim can be judged"
    if not words:
        return "Looked at; nothing was claimed" if account.record.get("observed") is True else "Nothing was claimed"
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


def transport(account: Account) -> str:
    """The transport verdict that stands beside every throughput."""
    found = [v for v in account.verdicts if v.kind == "transport"]
    if len(found) == 1:
        said = f"transport: {found[0].shown}"
    else:
        said = "; ".join(f"{v.claim}: {v.shown}" for v in found) or "transport: not claimed"
    return "; ".join([said, *_paths(account)])


def _paths(account: Account) -> list[str]:
    """The path that was seen, claimed or not; what does not exist in the run is left out."""
    names = (("transport.internode.path", "between hosts"), ("transport.intranode.path", "within a host"))
    facts = [(account.fact(name), words) for name, words in names]
    return [f"{words} {fact.lead.partition(';')[0]}" for fact, words in facts if fact and fact.known and fact.lead]


def not_claimed(account: Account) -> str:
    """One line on the kinds that nothing was claimed about; empty if there is none."""
    from seatrial.trial.claims import KINDS

    claimed = {v.kind for v in account.verdicts}
    silent = [kind for kind in KINDS if kind not in claimed]
    if not silent:
        return ""
    line = f"Not claimed: {', '.join(silent)}"
    about = [word for kind, word in (("transport", "path"), ("performance", "value")) if kind in silent]
    rate = _rate(account)
    if rate is None or not about:
        return f"{line}."
    beside = "" if "transport" in silent else f" ({transport(account)})"
    return f"{line} — {rate:,.0f} tokens/s was seen{beside}; nothing was claimed about its {' or '.join(about)}."


def _rate(account: Account) -> float | None:
    return number(mapping(account.value("performance.tokens_per_second")).get("tokens_per_second"))


def key_figures(account: Account) -> list[KeyFigure]:
    """The figures that were looked for; one that could not be seen says so."""
    found: list[KeyFigure] = []
    for name, label, show in (
        ("execution.executed_steps", "Steps on each rank", _steps),
        ("learning.heldout.bits_per_byte.after", "Held-out bits per byte", _heldout),
        *([("learning.heldout.loss.after", "Held-out loss", _loss)] if account.fact("execution.script") else []),
        ("performance.tokens_per_second", "Throughput, tokens/s", _throughput),
        ("transport.bytes", "Bytes on the wire", _wire),
        ("performance.step_time", "Step time, p50", _step_time),
        ("performance.peak_memory", "Peak memory", _memory),
        ("recovery.reload", "Checkpoint reload", _reload),
    ):
        fact = account.fact(name)
        if fact is None or fact.state == "not-applicable":
            continue
        value, note = _shown(show, fact, account)
        found.append(KeyFigure(label, value, note, fact.anchor))
    return found


def _shown(show: Any, fact: FactView, account: Account) -> tuple[str, str]:
    beside = transport(account) if fact.id == "performance.tokens_per_second" else ""
    if not fact.known:
        return fact.state, "; ".join(part for part in (beside, fact.reason) if part)
    try:
        value, note = show(fact.value, account)
    except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError):
        value, note = "error", "the fact has another shape than it is known to have"
    return value, "; ".join(part for part in (note, beside) if part)


def _steps(value: Any, account: Account) -> tuple[str, str]:
    planned = number(account.value("execution.planned_steps"))
    low, high = number(value["min"]), number(value["max"])
    if low is None or high is None:
        raise ValueError("not a number")
    shown = figure(low) if low == high else f"{figure(low)} to {figure(high)}"
    return shown, f"asked: {figure(planned)}" if planned is not None else ""


def _heldout(value: Any, account: Account) -> tuple[str, str]:
    after = number(value)
    if after is None:
        raise ValueError("not a number")
    shown = change(account.value("learning.heldout.bits_per_byte.before"), value) or f"{after:.2f}"
    if mapping(account.value("learning.data")).get("synthetic") is True:
        return shown, "random tokens: nothing can be learnt"
    bigram = number(account.value("learning.baseline.bigram"))
    return shown, f"a bigram model: {bigram:.2f}" if bigram is not None else ""


def _loss(value: Any, account: Account) -> tuple[str, str]:
    before = account.value("learning.heldout.loss.before")
    return change(before, value) or f"{float(value):.3f}", "nats/token, by the script's own evaluation"


def _throughput(value: Any, _: Account) -> tuple[str, str]:
    return f"{float(value['tokens_per_second']):,.0f}", ""


def _wire(value: Any, _: Account) -> tuple[str, str]:
    rows = value["by_interface"]
    within = sum(row["word"] == "within" for row in rows)
    links = "; ".join(dict.fromkeys(string(row["interface"], 40) for row in rows))
    return f"{within} of {len(rows)}", f"{'interface' if len(rows) == 1 else 'interfaces'} within the band: {links}"


def _step_time(value: Any, _: Account) -> tuple[str, str]:
    return seconds(float(value["p50"])), f"p95 {seconds(float(value['p95']))}"


def _memory(value: Any, _: Account) -> tuple[str, str]:
    sizes = [n for v in value["by_process"].values() if (n := number(v)) is not None]
    return size(max(sizes)), f"the largest of {count(len(sizes), 'process')}"


def _reload(value: Any, _: Account) -> tuple[str, str]:
    equal, expected = number(value["equal"]), number(value["expected"])
    if equal is None or expected is None:
        raise ValueError("not a number")
    return f"{figure(equal)} of {figure(expected)}", f"items equal, step {value['step']}"


def asked_line(account: Account) -> list[tuple[str, str]]:
    """World size, strategy, model, data and steps as the trial asks for them: `[(name, value)]`."""
    trial = mapping(account.record.get("trial"))
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


def banners(account: Account) -> list[tuple[str, str]]:
    """`[(label, text)]` of what must be said loudly before anything else."""
    record = account.record
    said = [
        ("Void", string(record.get("void"), 600)),
        ("Ended early", string(record.get("ended_early"), 600)),
        ("Observed", OBSERVED if record.get("observed") is True else ""),
    ]
    return [(label, text) for label, text in said if text]


def exit_line(account: Account) -> str:
    """`Exit code 1: a claim is refuted`; empty if the record has none, or is void."""
    code = account.record.get("exit_code")
    if account.record.get("observed") is True and not account.verdicts:
        return ""
    if account.record.get("void") or not isinstance(code, int) or isinstance(code, bool):
        return ""
    return f"Exit code {code}: {EXIT_CODES.get(code, 'no known meaning')}"
