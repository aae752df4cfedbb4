"""The judge of `learning.task.accuracy`: what was measured must hold by both witnesses, and not by chance."""

from __future__ import annotations

from typing import Any

from seatrial.evidence.facts import NOT_ESTABLISHED, REFUTED, SUPPORTED
from seatrial.evidence.look import Answer, Judge, Look, of_random_tokens
from seatrial.evidence.paired import items_for


def _named(asked: dict[str, Any], look: Look) -> Answer:
    """The verdict, with the task in front of what was seen: claims on several tasks have one name."""
    verdict, reason, seen = _accuracy(asked, look)
    return verdict, reason, f"{asked['task']}: {seen}"


def _accuracy(asked: dict[str, Any], look: Look) -> Answer:
    if answer := of_random_tokens(look, "whatever it answers"):
        return answer
    name = f"learning.task.{asked['task']}"
    if (last := look.fact(f"{name}.after")).state == "error":
        return REFUTED, "non-finite", f"after training, {last.reason}"
    if doubt := _learnt_by_heart(name, look) or _doubt(name, asked, look):
        return doubt
    after, again = look.value(f"{name}.after"), look.value(f"{name}.reload")
    if "min" in asked:
        worse = min(after, again, key=lambda seen: float(seen["accuracy"]))
        shown = f"{_share(worse)} right (claimed: at least {asked['min']:.1%})"
        return (SUPPORTED, "", shown) if worse["accuracy"] >= asked["min"] else (REFUTED, "value", shown)
    shown = f"{_share(look.value(f'{name}.before'))} → {_share(after)} right"
    change = look.value(f"{name}.change")
    witnesses = [change["ranks"], change["reload"]]
    if "improves_by" in asked:
        return _improved(asked["improves_by"], min(witnesses, key=lambda w: float(w["change"])), change, shown)
    return _kept(asked["max_drop"], witnesses, shown)


def _learnt_by_heart(name: str, look: Look) -> Answer | None:
    """Items that stand in the training text, if that is the text that was trained on."""
    if look.fact(f"{name}.overlap").state == "not-applicable":
        return None
    overlap, data = look.value(f"{name}.overlap"), look.value("execution.data_order")
    if overlap["share"] >= overlap["limit"]:
        seen = f"{overlap['found']} of {overlap['compared']} items ({overlap['share']:.0%}) stand in the training data"
        return NOT_ESTABLISHED, "contaminated", seen
    if data["matching"] != data["steps"]:
        first = data["first_difference"]
        seen = f"the data that ranks trained on is not what the items were compared with, from step {first}"
        return NOT_ESTABLISHED, "contradiction", seen
    return None


def _doubt(name: str, asked: dict[str, Any], look: Look) -> Answer | None:
    """Witnesses that disagree: about the items themselves, or about how they were answered."""
    if not (file := look.value(f"{name}.file"))["same"]:
        digests = {phase: [digest[:19] for digest in found] for phase, found in file["digests"].items()}
        told = ", ".join(f"{phase} {' and '.join(found)}" for phase, found in digests.items())
        return NOT_ESTABLISHED, "contradiction", f"the items were not the same throughout: {told}"
    agreement = look.value(f"{name}.agreement")
    for phase in ("after", "before") if "over" in asked else ("after",):
        if agreement[phase] > agreement["limit"] * agreement["items"]:
            again = "reload" if phase == "after" else "base"
            scores = [look.value(f"{name}.{each}") for each in (phase, again)]
            return (
                NOT_ESTABLISHED,
                "contradiction",
                f"{phase} training, ranks scored {_share(scores[0])} right, the reload processes {_share(scores[1])};"
                f" they differ on {agreement[phase]} of {agreement['items']} items",
            )
    return None


def _improved(wanted: float, least: dict[str, Any], change: dict[str, Any], arrow: str) -> Answer:
    """Enough, and not by chance."""
    shown = f"{arrow} (claimed: {_points(wanted)} better than base); {_moved(least)}"
    if least["change"] < wanted - 1e-12:
        return REFUTED, "value", f"{shown}; it gained {_points(least['change'])}"
    tests = [change["ranks"], change["reload"]]
    chance = any(_by_chance(test, change["chance_p"]) for test in tests)
    if chance:
        return NOT_ESTABLISHED, "unstable", f"{shown}; chance alone can do that with {least['items']} items"
    return SUPPORTED, "", shown


def _by_chance(test: dict[str, Any], limit: float) -> bool:
    """Whether no change at all would explain what was seen."""
    return bool(test["low"] <= 0 <= test["high"]) if test["p"] is None else bool(test["p"] >= limit)


def _kept(margin: float, witnesses: list[dict[str, Any]], arrow: str) -> Answer:
    """The drop is within the margin, and so is the end of its 95 % interval."""
    worst = min(witnesses, key=lambda w: float(w["change"]))
    reach = max(-w["low"] for w in witnesses)
    shown = f"{arrow} (claimed: at most {_points(margin)} worse than base); {_moved(worst)}"
    if -worst["change"] > margin + 1e-12:
        return REFUTED, "value", f"{shown}; it lost {_points(-worst['change'])}"
    if reach > margin:
        least = items_for(margin)
        more = f"; even without a change it takes {least} items" if worst["items"] < least else ""
        return NOT_ESTABLISHED, "unstable", f"{shown}; a drop of {_points(reach)} is not ruled out{more}"
    return SUPPORTED, "", shown


def _share(seen: dict[str, Any]) -> str:
    if "right" in seen:
        return f"{seen['right']}/{seen['items']} ({seen['accuracy']:.1%})"
    return f"{seen['accuracy']:.1%} of {seen['items']}"


def _points(share: float) -> str:
    return f"{100 * share:.1f} points"


def _moved(test: dict[str, Any]) -> str:
    """`21 items gained, 2 lost, p = 6.6e-05`."""
    items = f"{test['gained']} item{'' if test['gained'] == 1 else 's'} gained, {test['lost']} lost"
    if test["p"] is None:
        return f"{items}, 95 % interval {100 * test['low']:.1f} to {100 * test['high']:.1f} points"
    return f"{items}, p = {test['p']:.2g}"


JUDGES: dict[str, Judge] = {"learning.task.accuracy": _named}
