"""Judges where the workload is a team's own script, and of `execution.finished`, which asks the same of any run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seatrial.evidence.facts import NOT_ESTABLISHED, REFUTED, SUPPORTED
from seatrial.evidence.look import Answer, Judge, Look, of_random_tokens


def either(built_in: Judge, own: Judge) -> Judge:
    """The judge of a claim that a script has other evidence for."""

    def decide(asked: dict[str, Any], look: Look) -> Answer:
        return (own if look.aside("execution.script").known else built_in)(asked, look)

    return decide


def finished(_: dict[str, Any], look: Look) -> Answer:
    """Whether the job came to its end on as many ranks as were asked for: by the driver, Ray Train and the probes."""
    status = look.value("execution.status")
    if not look.aside("execution.script").known:
        ranks = look.value("execution.executed_steps")["by_rank"]
        if status["status"] != "finished":
            return REFUTED, status["status"], _ended(status)
        return SUPPORTED, "", f"the driver saw the end, {len(ranks)} ranks closed their files"
    runs = look.fact("execution.train_runs")
    if status["status"] != "finished":
        if runs.known and all(run["run_status"] == "FINISHED" for run in runs.value):
            return NOT_ESTABLISHED, "contradiction", f"Ray Train says FINISHED, but {_ended(status)}"
        return REFUTED, status["status"], _ended(status)
    last = look.value("execution.train_runs")[-1]
    if off := [run for run in runs.value if run["run_status"] != "FINISHED"]:
        seen = f"the script ended with 0, but Ray Train says {off[0]['run_status']} of {off[0]['name']}"
        return NOT_ESTABLISHED, "contradiction", f"{seen}: {off[0]['detail']}" if off[0]["detail"] else seen
    ranks = look.value("execution.ranks")
    if ranks["told"] != ranks["asked"]:
        return REFUTED, "ranks", f"the trial asks for {ranks['asked']} ranks, the script trained with {ranks['told']}"
    if ranks["watched"] < ranks["told"]:
        seen = f"Ray Train names {ranks['told']} ranks, the probes watched {ranks['watched']} of them"
        return NOT_ESTABLISHED, "uncorroborated", f"{seen}: the training was too short to be looked at, or not there"
    tries = look.value("execution.attempts")
    again = f", {tries} attempts" if tries > 1 else ""
    hosts = f"{last['hosts']} host{'s' * (last['hosts'] != 1)}"
    return SUPPORTED, "", f"the script ended with 0, Ray Train says FINISHED: {ranks['told']} ranks on {hosts}{again}"


def _ended(status: dict[str, Any]) -> str:
    return f"the run {status['status']}: {status['cause']}" if status["cause"] else f"the run {status['status']}"


def completed(asked: dict[str, Any], look: Look) -> Answer:
    """Planned = executed = updates, by the ranks' own account, on top of a job that finished.

    What the planned data was only the script knows; a stream of batches that began again is asked about.
    """
    verdict, reason, seen = finished(asked, look)
    if verdict != SUPPORTED:
        return verdict, reason, seen
    planned = int(look.value("execution.planned_steps"))
    steps = look.value("execution.executed_steps")
    if not steps["min"] == steps["max"] == planned:
        return REFUTED, "steps", f"{planned} steps planned, ranks executed {steps['min']} to {steps['max']}"
    updates = look.value("execution.updates")
    if not updates["min"] == updates["max"] == planned:
        took = f"{updates['min']} to {updates['max']}"
        return REFUTED, "updates", f"{planned} steps planned and executed, the optimizer stepped {took} times"
    if still := list(look.value("execution.parameters_unmoved")):
        return REFUTED, "updates", f"the parameters never changed: {', '.join(still[:4])}"
    batches = look.value("execution.batches")
    if batches["began_again"]:
        first = batches["began_again"][0]
        seen = f"the batches of rank {first['rank']} began again at step {first['step']} within one pass over the data"
        return NOT_ESTABLISHED, "data", f"{seen}; if that is meant, call trial.batches(loader) once for each pass"
    return SUPPORTED, "", f"{planned} steps planned = executed = updates of the optimizer, on every rank"


def participated(_: dict[str, Any], look: Look) -> Answer:
    """Whether every rank's work is in the result: roll calls, gradients, replicas, and batches of its own."""
    calls, gradients = look.value("execution.roll_calls"), look.value("execution.gradient_roll_calls")
    if calls["wrong"]:
        first = calls["wrong"][0]
        return REFUTED, "roll-call", f"roll call at {first['at']} counted {first['counts']}"
    if gradients["wrong"]:
        first = gradients["wrong"][0]
        return REFUTED, "gradients", f"step {first['step']}, rank {first['rank']}: {first['problem']}"
    ranks = look.value("execution.executed_steps")["by_rank"]
    asked = look.value("execution.ranks")["asked"]
    if len(ranks) != asked:
        return REFUTED, "ranks", f"the trial asks for {asked} ranks, {len(ranks)} took part"
    replicas = look.fact("execution.replicas")
    if replicas.state != "not-applicable" and look.value("execution.replicas")["differing_steps"]:
        return REFUTED, "replicas", f"replicas differ at step {replicas.value['differing_steps'][0]}"
    batches = look.value("execution.batches")
    if batches["shared"]:
        first = batches["shared"][0]
        a, b = first["ranks"]
        seen = f"ranks {a} and {b} were given {first['batches']} batches that are the same"
        return REFUTED, "data", f"{seen}: the work of one is the work of the other (a DistributedSampler is missing?)"
    if gradients["unclear"]:
        first = gradients["unclear"][0]
        return NOT_ESTABLISHED, "unclear", f"step {first['step']}, rank {first['rank']}: {first['problem']}"
    if calls["complete"] != calls["planned"] or gradients["complete"] != gradients["planned"]:
        seen = f"roll calls {calls['complete']}/{calls['planned']}"
        return REFUTED, "roll-call", f"{seen}, gradients {gradients['complete']}/{gradients['planned']}"
    seen = f"roll calls {calls['complete']}/{calls['planned']}, gradients of all {len(ranks)} ranks"
    return SUPPORTED, "", f"{seen} in {gradients['complete']}/{gradients['planned']}, batches of their own"


Compare = Callable[[dict[str, Any], float, float, Look], tuple[str, bool]]


def learnt(name: str, asked: dict[str, Any], look: Look, compare: Compare) -> Answer:
    """A held-out claim by the script's own evaluation: one witness, which can speak against itself and not for."""
    if answer := of_random_tokens(look, "whatever the loss did"):
        return answer
    if (last := look.fact(f"{name}.after")).state == "error":
        return REFUTED, "non-finite", f"held-out after training: {last.reason}"
    before, after = look.value(f"{name}.before"), look.value(f"{name}.after")
    shown, ok = compare(asked, before, after, look)
    if not ok:
        return REFUTED, "value", f"{shown}, by the script's own evaluation"
    return NOT_ESTABLISHED, "uncorroborated", f"{shown}, by the script's own evaluation alone"
