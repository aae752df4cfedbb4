"""Judges claims by facts. Pure: no table, no file, no clock; what it needs to know is a fact.

Each judge returns (verdict, reason, seen). A fact that is not known gives `not-established`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from seatrial.errors import EXIT_ENDED_EARLY, EXIT_NOT_ESTABLISHED, EXIT_OK, EXIT_REFUTED
from seatrial.evidence.facts import NOT_ESTABLISHED, REFUTED, SUPPORTED, Evidence, Fact, Verdict
from seatrial.trial.claims import REGISTRY

Answer = tuple[str, str, str]
Judge = Callable[[dict[str, Any], "Look"], Answer]


class Missing(Exception):
    """A fact that the judge needs is not known."""

    def __init__(self, fact: Fact):
        self.fact = fact


class Look:
    """The evidence as one judge sees it; remembers what was looked at."""

    def __init__(self, evidence: Evidence):
        self._evidence = evidence
        self.used: list[str] = []

    def fact(self, name: str) -> Fact:
        """The fact, known or not."""
        self.used.append(name)
        return self._evidence.get(name)

    def value(self, name: str) -> Any:
        """The value of a known fact. Raises Missing otherwise."""
        fact = self.fact(name)
        if not fact.known:
            raise Missing(fact)
        return fact.value


def judge(claims: Iterable[dict[str, Any]], evidence: Evidence) -> list[Verdict]:
    """A verdict for each claim, in order. Never raises: evidence that makes no sense establishes nothing."""
    return [_one(claim, evidence) for claim in claims]


def _one(claim: dict[str, Any], evidence: Evidence) -> Verdict:
    name = str(claim.get("claim", ""))
    asked = {k: v for k, v in claim.items() if k != "claim"}
    look = Look(evidence)
    if evidence.void:
        return Verdict(name, NOT_ESTABLISHED, "void", asked, evidence.void)
    decide = JUDGES.get(name)
    if decide is None:
        return Verdict(name, NOT_ESTABLISHED, "not-run", asked, _not_run(name))
    try:
        verdict, reason, seen = decide(asked, look)
    except Missing as missing:
        fact = missing.fact
        verdict, reason, seen = NOT_ESTABLISHED, fact.state, fact.reason or f"{fact.id} is {fact.state}"
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError) as error:
        verdict, reason, seen = (
            NOT_ESTABLISHED,
            "error",
            f"the evidence makes no sense: {type(error).__name__}: {error}",
        )
    return Verdict(name, verdict, reason, asked, seen, tuple(dict.fromkeys(look.used)))


def _not_run(name: str) -> str:
    entry = REGISTRY.get(name)
    return (
        f"established by a {entry.established_by}; this run has no such evidence" if entry else "no such claim is known"
    )


def exit_code(verdicts: Iterable[Verdict], *, ended_early: bool, kind: str = "run") -> int:
    """The exit code of a judged run: over the claims that this kind of run can establish (DESIGN, section 6)."""
    if ended_early:
        return EXIT_ENDED_EARLY
    counted = [v for v in verdicts if v.claim not in REGISTRY or REGISTRY[v.claim].established_by == kind]
    if any(v.verdict == REFUTED for v in counted):
        return EXIT_REFUTED
    return EXIT_OK if all(v.verdict == SUPPORTED for v in counted) else EXIT_NOT_ESTABLISHED


def _completed(_: dict[str, Any], look: Look) -> Answer:
    status, planned = look.value("execution.status"), int(look.value("execution.planned_steps"))
    executed = look.fact("execution.executed_steps")
    whole = executed.known and executed.value["min"] == executed.value["max"] == planned
    if status["status"] != "finished":
        if whole:
            return (
                NOT_ESTABLISHED,
                "contradiction",
                f"every rank ended after {planned} steps, but the driver saw {status['cause'] or status['status']}",
            )
        return (
            REFUTED,
            status["status"],
            f"the run {status['status']}: {status['cause']}" if status["cause"] else f"the run {status['status']}",
        )
    steps = look.value("execution.executed_steps")
    if not whole:
        return REFUTED, "steps", f"{planned} steps planned, ranks executed {steps['min']} to {steps['max']}"
    schedule = look.value("execution.schedule")
    if off := schedule["off_schedule"]:
        return REFUTED, "schedule", f"{len(off)} steps were off the learning-rate schedule, first step {off[0]}"
    if schedule["peak"] > 0 and (still := list(look.value("execution.parameters_unmoved"))):
        return REFUTED, "updates", f"{_count(len(still), 'parameter')} never changed, first {still[0]}"
    updates = look.value("execution.updates")
    if not updates["min"] == updates["max"] == planned:
        return (
            REFUTED,
            "updates",
            f"{planned} steps planned and executed, the optimizer counts {_span(updates)} updates",
        )
    if dead := list(look.value("execution.parameters_without_gradient")):
        return (
            REFUTED,
            "updates",
            f"{len(dead)} of {updates['tensors']} parameters never received a gradient, first {dead[0]}",
        )
    data = look.value("execution.data_order")
    if data["matching"] != planned or data["steps"] != planned:
        return (
            REFUTED,
            "data",
            f"data as planned in {data['matching']} of {planned} steps,"
            f" first difference at step {data['first_difference']}",
        )
    return (
        SUPPORTED,
        "",
        f"{planned} steps planned = executed = updates, {_count(look.value('execution.attempts'), 'attempt')}",
    )


def _span(counts: dict[str, Any]) -> str:
    return str(counts["min"]) if counts["min"] == counts["max"] else f"{counts['min']} to {counts['max']}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _of(calls: dict[str, Any]) -> str:
    return f"{calls['complete']}/{calls['planned']}"


def _participated(_: dict[str, Any], look: Look) -> Answer:
    calls, gradients = look.value("execution.roll_calls"), look.value("execution.gradient_roll_calls")
    if calls["wrong"]:
        first = calls["wrong"][0]
        return REFUTED, "roll-call", f"roll call at {first['at']} (step {first['step']}) counted {first['counts']}"
    if gradients["wrong"]:
        first = gradients["wrong"][0]
        return REFUTED, "gradients", f"step {first['step']}, rank {first['rank']}: {first['problem']}"
    if calls["complete"] != calls["planned"] or gradients["complete"] != gradients["planned"]:
        return (
            REFUTED,
            "roll-call",
            f"roll calls {_of(calls)}, gradients {_of(gradients)}",
        )
    replicas = look.fact("execution.replicas")
    if replicas.state != "not-applicable" and look.value("execution.replicas")["differing_steps"]:
        return REFUTED, "replicas", f"replicas of a shard differ at step {replicas.value['differing_steps'][0]}"
    data = look.value("execution.data_order")
    if data["first_difference"] is not None or data["matching"] != data["steps"]:
        return REFUTED, "data", f"ranks did not read their own part of the data from step {data['first_difference']} on"
    ranks = len(look.value("execution.executed_steps")["by_rank"])
    who = "both ranks" if ranks == 2 else f"all {ranks} ranks"
    return (
        SUPPORTED,
        "",
        f"roll calls {_of(calls)}, gradients of {who} in {_of(gradients)}",
    )


def _reloads(_: dict[str, Any], look: Look) -> Answer:
    planned = int(look.value("execution.planned_steps"))
    status = look.fact("recovery.status")
    if not status.known:
        return NOT_ESTABLISHED, "not-run", status.reason
    if status.value["status"] == "interrupted":
        return NOT_ESTABLISHED, "not-run", "the reload was interrupted"
    if status.value["status"] != "finished":
        return REFUTED, "reload", f"the reload {status.value['status']}: {status.value['cause']}"
    seen = look.value("recovery.reload")
    if seen["missing"]:
        return (
            REFUTED,
            "missing",
            f"the checkpoint lacks {_count(len(seen['missing']), 'item')}, first {seen['missing'][0]}",
        )
    if seen["different"]:
        return (
            REFUTED,
            "different",
            f"{_count(len(seen['different']), 'item')} differ after the reload, first {seen['different'][0]}",
        )
    if seen["step"] != planned or not seen["manifest_equal"]:
        return REFUTED, "step", f"step {seen['step']} was reloaded, the last step is {planned}"
    if not seen["new_processes"] or seen["equal"] != seen["expected"] or not seen["tensors"]:
        return NOT_ESTABLISHED, "unknown", "the reload was not in new processes, or compared nothing"
    return SUPPORTED, "", f"step {seen['step']} reloaded in new processes, {seen['tensors']} tensors equal"


def _heldout(metric: str, form: Callable[[float], str]) -> Judge:
    def decide(asked: dict[str, Any], look: Look) -> Answer:
        if look.value("learning.data")["synthetic"]:
            return (
                NOT_ESTABLISHED,
                "synthetic-data",
                "random tokens: nothing can be learnt from them, whatever the loss did",
            )
        name = f"learning.heldout.{metric}"
        if (last := look.fact(f"{name}.after")).state == "error":
            return REFUTED, "non-finite", f"held-out {metric.replace('_', ' ')} after training: {last.reason}"
        before, after = look.value(f"{name}.before"), look.value(f"{name}.after")
        overlap = look.value("learning.overlap")
        if overlap["share"] >= overlap["limit"]:
            count = len(overlap["suspect_windows"])
            seen = f"{count} held-out windows ({overlap['share']:.0%}) stand in the training data"
            return NOT_ESTABLISHED, "contaminated", seen
        shown, needed, ok = _compare(asked, metric, before, after, look, form)
        if not ok:
            return REFUTED, "value", f"{shown}{needed}"
        # What the ranks scored in a claim's favour must be what other processes score.
        pairs = [("after", "reload"), *([("before", "base")] if "improves_by" in asked else [])]
        return _corroborated(name, pairs, look, form) or (SUPPORTED, "", shown)

    return decide


def _corroborated(name: str, pairs: list[tuple[str, str]], look: Look, form: Callable[[float], str]) -> Answer | None:
    """None if the reload processes scored the same, else why the claim is not established."""
    tolerance = look.value("execution.tolerances")["evaluation_relative"]
    for phase, witness in pairs:
        said, again = look.value(f"{name}.{phase}"), look.fact(f"{name}.{witness}")
        if not again.known:
            return (
                NOT_ESTABLISHED,
                "uncorroborated",
                f"{form(said)} {phase} training by the ranks alone: {again.reason}",
            )
        if not math.isclose(again.value, said, rel_tol=tolerance):
            return (
                NOT_ESTABLISHED,
                "contradiction",
                f"ranks scored {form(said)} {phase} training, the reload processes {form(again.value)}",
            )
    return None


def _compare(
    asked: dict[str, Any], metric: str, before: float, after: float, look: Look, form: Callable[[float], str]
) -> tuple[str, str, bool]:
    """What was seen, what would have been needed, and whether it is enough."""
    arrow = f"{form(before)} → {form(after)}"
    if "max" in asked:
        return f"{arrow} (claimed: at most {form(asked['max'])})", "", after <= asked["max"]
    if "improves_by" in asked:
        gained, wanted = before - after, asked["improves_by"]
        return f"{arrow} (claimed: {form(wanted)} better than base)", f"; it gained {form(gained)}", gained >= wanted
    mark, by = asked["below"], asked.get("by", 0.0)
    level = look.value(f"learning.baseline.{mark}") if isinstance(mark, str) else float(mark)
    name = f"{mark} {form(level)}" if isinstance(mark, str) else form(level)
    claimed = f"claimed: {by:g} below it" if by else "claimed: below it"
    return f"{arrow}; {name} ({claimed})", f"; needed {form(level - by)}", after <= level - by


def _throughput(asked: dict[str, Any], look: Look) -> Answer:
    seen = look.value("performance.tokens_per_second")
    clocks = look.value("performance.clocks")
    rate = float(seen["tokens_per_second"])
    shown = (
        f"{rate:,.0f} tokens/s over {seen['steps']} steps (claimed: {asked['min']:,g}); path of the bytes: not shown"
    )
    if clocks["relative_spread"] > clocks["tolerance"]:
        return NOT_ESTABLISHED, "contradiction", f"{shown}; the ranks' clocks differ by {clocks['relative_spread']:.0%}"
    return (SUPPORTED, "", shown) if rate >= asked["min"] else (REFUTED, "value", shown)


def _step_time(asked: dict[str, Any], look: Look) -> Answer:
    seen = float(look.value("performance.step_time")["p95"])
    shown = f"p95 of step time {seen:.3f} s (claimed: at most {asked['max']:g} s)"
    return (SUPPORTED, "", shown) if seen <= asked["max"] else (REFUTED, "value", shown)


def _image(_: dict[str, Any], look: Look) -> Answer:
    asked, ran = look.value("environment.image.asked"), look.value("environment.image.ran")
    same = str(asked).rpartition("@")[2] == str(ran).rpartition("@")[2]
    return (SUPPORTED, "", f"{ran} ran") if same else (REFUTED, "different", f"{asked} was asked for, {ran} ran")


def _hosts(_: dict[str, Any], look: Look) -> Answer:
    seen = look.value("environment.hosts")
    if not seen["agree"]:
        return NOT_ESTABLISHED, "contradiction", f"{seen['hosts']} hosts have different packages"
    return SUPPORTED, "", f"{_count(seen['hosts'], 'host')}, same packages"


JUDGES: dict[str, Judge] = {
    "execution.completed": _completed,
    "execution.all_ranks_participated": _participated,
    "recovery.checkpoint_reloads": _reloads,
    "learning.heldout.loss": _heldout("loss", lambda v: f"{v:.3f}"),
    "learning.heldout.bits_per_byte": _heldout("bits_per_byte", lambda v: f"{v:.2f}"),
    "performance.tokens_per_second": _throughput,
    "performance.step_time_p95": _step_time,
    "environment.image_ran": _image,
    "environment.hosts_agree": _hosts,
}
