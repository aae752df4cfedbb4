"""Whether every rank's work is in the result: roll calls, gradient roll calls, and replicas of a shard."""

from __future__ import annotations

from collections import defaultdict

from seatrial.events.planned import need
from seatrial.events.schema import GradientRollCall, NonFinite, RollCall
from seatrial.evidence.facts import execution
from seatrial.evidence.facts.execution import (
    GradientProblem,
    GradientRollCalls,
    Replicas,
    RollCalls,
    WrongRollCall,
)
from seatrial.evidence.facts.fact import Fact
from seatrial.evidence.run import Run

SHOWN = 20


def roll_calls(run: Run) -> Fact[RollCalls]:
    """Calls at the start, at each checkpoint and at the end; each must count every rank once."""
    if why := run.incomplete(run.ranks, "rank"):
        return execution.ROLL_CALLS.unknown(why, "ranks")
    ones = [1] * len(run.ranks)
    complete = [{(e.at, e.step) for e in s.all(RollCall) if e.counts == ones} for s in run.ranks]
    value = RollCalls(len(set.intersection(*complete)), run.plan.roll_calls, wrong_calls(run))
    return execution.ROLL_CALLS.seen(value, "all-reduced one-hot vectors, by each rank")


def wrong_calls(run: Run) -> list[WrongRollCall]:
    """The first roll calls that counted a rank twice, or not at all."""
    ones = [1] * len(run.ranks)
    return [
        WrongRollCall(rank, e.at, e.step, e.counts)
        for rank, s in enumerate(run.ranks)
        for e in s.all(RollCall)
        if e.counts != ones
    ][:SHOWN]


def gradients(run: Run) -> Fact[GradientRollCalls]:
    """Shares that are zero or do not add up are wrong; what is not finite, or too coarse to tell, is unclear."""
    if why := run.incomplete(run.ranks, "rank"):
        return execution.GRADIENT_ROLL_CALLS.unknown(why, "ranks")
    planned = set(run.plan.gradient_roll_calls)
    limit = run.tolerances.gradient_deviation(run.plan.reduce_dtype)
    if limit is None:
        return execution.GRADIENT_ROLL_CALLS.unknown("the plan has no tolerance for it", "driver")
    # One micro-batch of one rank among all of them must be more than what the tolerance forgives.
    resolved = min(limit, 0.5 / (len(run.ranks) * need(run.plan.micro_batches, "micro_batches")))
    found: dict[str, list[GradientProblem]] = {"wrong": [], "unclear": []}
    good: list[set[int]] = []
    worst = 0.0
    for rank, stream in enumerate(run.ranks):
        mine: set[int] = set()
        for event in stream.all(GradientRollCall):
            kind, problem = _problem(event, limit, resolved)
            if kind:
                found[kind].append(GradientProblem(rank, event.step, problem))
            else:
                mine.add(event.step)
                worst = max(worst, event.deviation if isinstance(event.deviation, float) else 0.0)
        good.append(mine & planned)
    value = GradientRollCalls(
        planned=len(planned),
        complete=len(set.intersection(*good)),
        wrong=found["wrong"][:SHOWN],
        unclear=found["unclear"][:SHOWN],
        tolerance=limit,
        resolved=resolved,
        worst_deviation=worst,
    )
    witness = "unreduced gradients, summed apart, against the sharded backward"
    return execution.GRADIENT_ROLL_CALLS.seen(value, witness)


def _problem(event: GradientRollCall, limit: float, resolved: float) -> tuple[str, str]:
    """`(wrong or unclear, what)`; both empty for a roll call that is right."""
    if isinstance(event.share, NonFinite) or isinstance(event.deviation, NonFinite):
        return "unclear", "the gradient is not finite"
    if event.deviation is None:
        return "unclear", event.unclear or "nothing was compared"
    if event.share == 0:
        return "wrong", "this rank's share is zero"
    said = f"the reduced gradient is off by {event.deviation:.1e} of its largest element"
    if event.deviation > limit:
        return "wrong", said
    return ("unclear", said) if event.deviation > resolved else ("", "")


def replicas(run: Run) -> Fact[Replicas]:
    """Ranks that hold the same shard must hold the same bytes."""
    if why := run.incomplete(run.ranks, "rank"):
        return execution.REPLICAS.unknown(why, "ranks")
    return compared([(event.step, event.shard, event.replica) for s in run.ranks for event in s.all(GradientRollCall)])


def compared(held: list[tuple[int, int, str]]) -> Fact[Replicas]:
    """`(step, shard, digest)` of every rank at every gradient roll call, against each other."""
    digests: dict[tuple[int, int], list[str]] = defaultdict(list)
    for step, shard, digest in held:
        digests[step, shard].append(digest)
    several = {key: each for key, each in digests.items() if len(each) > 1}
    if not several:
        return execution.REPLICAS.not_applicable("no shard has more than one replica")
    differing = sorted({step for (step, _), each in several.items() if len(set(each)) > 1})
    return execution.REPLICAS.seen(Replicas(len(several), differing), "shard digests of each rank")
