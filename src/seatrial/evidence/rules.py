"""One function a claim: (verdict, reason, seen) from facts. A fact that is not known never counts for a claim."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from seatrial.evidence import rules_script, rules_tasks, rules_transport
from seatrial.evidence.facts import NOT_ESTABLISHED, REFUTED, SUPPORTED
from seatrial.evidence.look import Answer, Judge, Look, of_random_tokens


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
    if gradients["unclear"]:
        first = gradients["unclear"][0]
        return NOT_ESTABLISHED, "unclear", f"step {first['step']}, rank {first['rank']}: {first['problem']}"
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
    if data["misplaced"]:
        first = data["misplaced"][0]
        return REFUTED, "data", f"rank {first['rank']} did not read its own part of the data at step {first['step']}"
    if data["matching"] != data["steps"]:
        return REFUTED, "data", f"ranks did not read their own part of the data from step {data['first_difference']} on"
    ranks = len(look.value("execution.executed_steps")["by_rank"])
    who = "both ranks" if ranks == 2 else f"all {ranks} ranks"
    return (
        SUPPORTED,
        "",
        f"roll calls {_of(calls)}, gradients of {who} in {_of(gradients)}",
    )


def _reloads(_: dict[str, Any], look: Look) -> Answer:
    status = look.fact("recovery.status")
    if not status.known:
        return NOT_ESTABLISHED, "not-run", status.reason
    planned = int(look.value("execution.planned_steps"))
    if failed := status.value["load_failed"]:
        return REFUTED, "reload", f"the checkpoint does not load: {failed}"
    if status.value["status"] != "finished":
        return NOT_ESTABLISHED, "not-run", f"the reload {status.value['status']}: {status.value['cause']}"
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
    if seen["untrained"]:
        return REFUTED, "different", f"the checkpoint does not hold what was trained, first {seen['untrained'][0]}"
    if seen["step"] != planned:
        return REFUTED, "step", f"step {seen['step']} was reloaded, the last step is {planned}"
    if not seen["manifest_equal"]:
        return REFUTED, "different", "the manifest that was reloaded is not the one that was written"
    if not seen["new_processes"] or seen["equal"] != seen["expected"] or not seen["tensors"]:
        return NOT_ESTABLISHED, "unknown", "the reload was not in new processes, or compared nothing"
    return SUPPORTED, "", f"step {seen['step']} reloaded in new processes, {seen['tensors']} items equal"


def _heldout(metric: str, form: Callable[[float], str]) -> Judge:
    def compare(asked: dict[str, Any], before: float, after: float, look: Look) -> tuple[str, bool]:
        shown, needed, ok = _compare(asked, before, after, look, form)
        return shown if ok else shown + needed, ok

    def decide(asked: dict[str, Any], look: Look) -> Answer:
        if look.aside("execution.script").known:
            return rules_script.learnt(f"learning.heldout.{metric}", asked, look, compare)
        if answer := of_random_tokens(look, "whatever the loss did"):
            return answer
        name = f"learning.heldout.{metric}"
        if (last := look.fact(f"{name}.after")).state == "error":
            return REFUTED, "non-finite", f"held-out {metric.replace('_', ' ')} after training: {last.reason}"
        before, after = look.value(f"{name}.before"), look.value(f"{name}.after")
        overlap = look.value("learning.overlap")
        if overlap["share"] >= overlap["limit"]:
            count = len(overlap["suspect_windows"])
            seen = f"{count} held-out windows ({overlap['share']:.0%}) stand in the training data"
            return NOT_ESTABLISHED, "contaminated", seen
        data = look.value("execution.data_order")
        if data["matching"] != data["steps"]:
            first = data["first_difference"]
            seen = f"the data that ranks trained on is not what was compared with held-out, from step {first}"
            return NOT_ESTABLISHED, "contradiction", seen
        # What the ranks scored must be what other processes score, whichever way it speaks.
        pairs = [("after", "reload"), *([("before", "base")] if "improves_by" in asked else [])]
        if doubt := _corroborated(name, pairs, look, form):
            return doubt
        shown, needed, ok = _compare(asked, before, after, look, form)
        opened = look.value("learning.data")
        windows, wanted = opened["heldout_windows"], opened["heldout_windows_asked"]
        fewer = f"; {windows} of {wanted} windows" if windows != wanted else ""
        if not ok:
            return REFUTED, "value", f"{shown}{needed}{fewer}"
        apart = look.value("learning.isolation")
        if apart["leak"] > apart["limit"] * apart["effect"]:
            seen = f"{shown}, with documents that saw each other: {apart['leak']:.2g} nats of {apart['effect']:.2g}"
            return NOT_ESTABLISHED, "contaminated", seen
        return SUPPORTED, "", shown + fewer

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
    asked: dict[str, Any], before: float, after: float, look: Look, form: Callable[[float], str]
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
    rate = float(seen["tokens_per_second"])
    over = _count(seen["steps"], "step")
    shown = f"{rate:,.0f} tokens/s over {over} (claimed: {asked['min']:,g}); {rules_transport.beside(look)}"
    return _timed(look) or ((SUPPORTED, "", shown) if rate >= asked["min"] else (REFUTED, "value", shown))


def _step_time(asked: dict[str, Any], look: Look) -> Answer:
    steps, seen = look.value("performance.step_time")["steps"], float(look.value("performance.step_time")["p95"])
    shown = f"p95 of step time {seen:.3f} s over {_count(steps, 'step')} (claimed: at most {asked['max']:g} s)"
    if steps < 20:
        return NOT_ESTABLISHED, "unstable", f"{shown}; a 95th percentile needs at least 20 steps"
    return _timed(look) or ((SUPPORTED, "", shown) if seen <= asked["max"] else (REFUTED, "value", shown))


def _timed(look: Look) -> Answer | None:
    """None if ranks agree among themselves and with the probes' clocks, else why their times are not evidence."""
    clocks, probe = look.value("performance.clocks"), look.fact("performance.window_by_probe")
    if clocks["relative_spread"] > clocks["tolerance"]:
        return NOT_ESTABLISHED, "contradiction", f"the ranks' clocks differ by {clocks['relative_spread']:.0%}"
    if not probe.known:
        return NOT_ESTABLISHED, "uncorroborated", f"the ranks timed themselves: {probe.reason}"
    own, low, high, slack = (float(probe.value[k]) for k in ("ranks_s", "at_least_s", "at_most_s", "slack_s"))
    if not low - slack <= own <= high + slack:
        return (
            NOT_ESTABLISHED,
            "contradiction",
            f"the window took {own:.1f} s by the ranks, {low:.1f} to {high:.1f} by the probes",
        )
    return None


def _image(_: dict[str, Any], look: Look) -> Answer:
    asked, ran = str(look.value("environment.image.asked")), str(look.value("environment.image.ran"))
    if "@" not in asked:
        return NOT_ESTABLISHED, "unknown", f"{asked} was asked for by tag; only a digest can be compared with {ran}"
    same = asked.rpartition("@")[2] == ran.rpartition("@")[2]
    return (SUPPORTED, "", f"{ran} ran") if same else (REFUTED, "different", f"{asked} was asked for, {ran} ran")


def _hosts(_: dict[str, Any], look: Look) -> Answer:
    seen = look.value("environment.hosts")
    if not seen["agree"]:
        return NOT_ESTABLISHED, "contradiction", f"{seen['hosts']} hosts have different packages"
    return SUPPORTED, "", f"{_count(seen['hosts'], 'host')}, same packages"


JUDGES: dict[str, Judge] = {
    "execution.finished": rules_script.finished,
    "execution.completed": rules_script.either(_completed, rules_script.completed),
    "execution.all_ranks_participated": rules_script.either(_participated, rules_script.participated),
    **rules_transport.JUDGES,
    **rules_tasks.JUDGES,
    "recovery.checkpoint_reloads": _reloads,
    "learning.heldout.loss": _heldout("loss", lambda v: f"{v:.3f}"),
    "learning.heldout.bits_per_byte": _heldout("bits_per_byte", lambda v: f"{v:.2f}"),
    "performance.tokens_per_second": _throughput,
    "performance.step_time_p95": _step_time,
    "environment.image_ran": _image,
    "environment.hosts_agree": _hosts,
}
