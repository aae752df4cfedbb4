"""Execution of a script: Ray Train's account of it, and its ranks where they observe."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations
from typing import Any

from seatrial.events import Stream
from seatrial.events.observed import Observing, TokensSeen, Unseen
from seatrial.events.schema import GradientRollCall, NonFinite, RollCall, Step
from seatrial.events.script import CheckpointFound, TrainAttempt
from seatrial.events.wires import HostSample
from seatrial.evidence.facts import execution, learning, outside, recovery
from seatrial.evidence.facts.execution import GradientProblem, GradientRollCalls, Replicas, RollCalls, Updates
from seatrial.evidence.facts.fact import Fact
from seatrial.evidence.facts.outside import (
    Batches,
    BeganAgain,
    Ranks,
    ScriptObservation,
    SharedBatches,
    TrainRun,
    UnseenSubject,
)
from seatrial.evidence.run import Run
from seatrial.evidence.training.execution import ended, executed, tolerances
from seatrial.evidence.training.participation import SHOWN, compared, wrong_calls
from seatrial.evidence.witness.connections import rank_of

RAY_TRAIN = "Ray Train's state export"
UNTOLD = "observe was not told of the model and the optimizer: `observe(model, optimizer)`"
NO_STATE = "Ray Train kept no state of this run"
# A rank whose coefficient is below this share of the others' is not in the sum; one that is off by more than the
# second counts for more or less than the others. The standard error of the fit comes on top, three times.
LOST, UNEQUAL, ERRORS = 0.1, 0.2, 3.0
RESIDUAL = 0.05
AGAIN = 3  # so many batches in the order of the beginning are no chance
RANDOM = 1.5  # equal pairs of tokens over those of a uniform stream; English letters have 1.7, its words far more
PAIRS = 100  # so many equal pairs must be expected of a uniform stream: 1.5 is five standard deviations from 1 then


def facts(run: Run) -> Iterator[Fact[Any]]:
    """All facts of this kind."""
    yield outside.SCRIPT_NAME.seen(run.plan.script, "trial")
    yield from ended(run)
    yield from _train_runs(run)
    yield tolerances(run)
    yield _ranks(run)
    yield _observing(run)
    yield executed(run)
    yield _updates(run)
    yield _unmoved(run)
    yield _batches(run)
    yield _roll_calls(run)
    yield _gradients(run)
    yield _replicas(run)


def attempts(run: Run) -> list[TrainAttempt]:
    """Every attempt as Ray Train told it last, in the order of their start."""
    told = {event.id: event for event in run.driver.all(TrainAttempt)}
    return sorted(told.values(), key=lambda event: event.attempt)


def _train_runs(run: Run) -> Iterator[Fact[Any]]:
    """What became of each attempt, and how many there were."""
    told = attempts(run)
    if not told:
        why = run.driver.why_incomplete() or NO_STATE
        yield outside.TRAIN_RUNS.unknown(why, RAY_TRAIN)
        yield execution.ATTEMPTS.unknown(why, RAY_TRAIN)
        return
    value = [
        TrainRun(
            attempt=event.attempt,
            name=event.name,
            run_status=event.run_status,
            status=event.status,
            detail=(event.detail.splitlines() or [""])[-1][:300],
            ranks=len(event.workers),
            hosts=len({worker.node for worker in event.workers}),
            workers=[worker.model_dump(mode="json") for worker in event.workers],
        )
        for event in told
    ]
    yield outside.TRAIN_RUNS.seen(value, RAY_TRAIN)
    yield execution.ATTEMPTS.seen(len(told), RAY_TRAIN)


def _ranks(run: Run) -> Fact[Ranks]:
    """How many ranks the trial asks for, Ray Train says it had, and the probes of their hosts watched."""
    told = attempts(run)
    if not told:
        return outside.RANKS.unknown(run.driver.why_incomplete() or NO_STATE, RAY_TRAIN)
    samples = (sample for probe in run.probes for sample in probe.all(HostSample))
    watched = {name for sample in samples for name in sample.peaks_bytes if rank_of(name) is not None}
    value = Ranks(asked=run.plan.ranks, told=len(told[-1].workers), watched=len(watched))
    return outside.RANKS.seen(value, f"{RAY_TRAIN}; processes by the host probes")


def _roll_calls(run: Run) -> Fact[RollCalls]:
    """The calls at the start and at the end of the observed loop."""
    if why := run.incomplete(run.ranks, "rank") or unseen(run, "roll_calls"):
        return execution.ROLL_CALLS.unknown(why, "ranks")
    ones = [1] * len(run.ranks)
    complete = [{e.at for e in s.all(RollCall) if e.counts == ones} for s in run.ranks]
    value = RollCalls(len(set.intersection(*complete)), 2, wrong_calls(run))
    return execution.ROLL_CALLS.seen(value, "all-reduced one-hot vectors, by each rank")


def _gradients(run: Run) -> Fact[GradientRollCalls]:
    """Each rank's own gradient of one small parameter against what was reduced, by least squares over the ranks."""
    if why := run.incomplete(run.ranks, "rank") or unseen(run, "gradients"):
        return execution.GRADIENT_ROLL_CALLS.unknown(why, "ranks")
    calls = [{e.step: e for e in s.all(GradientRollCall)} for s in run.ranks]
    planned = set().union(*calls)
    if not planned:
        return execution.GRADIENT_ROLL_CALLS.unknown(UNTOLD, "ranks")
    found: dict[str, list[GradientProblem]] = {"wrong": [], "unclear": []}
    good: list[set[int]] = []
    for rank, mine in enumerate(calls):
        good.append(set())
        for step, event in mine.items():
            kind, problem = _problem(event, rank, len(run.ranks))
            if kind:
                found[kind].append(GradientProblem(rank, step, problem))
            else:
                good[rank].add(step)
    value = GradientRollCalls(
        planned=len(planned),
        complete=len(set.intersection(*good)),
        wrong=found["wrong"][:SHOWN],
        unclear=found["unclear"][:SHOWN],
    )
    return execution.GRADIENT_ROLL_CALLS.seen(value, "unreduced gradients of all ranks, fitted to the reduced one")


def _problem(event: GradientRollCall, rank: int, ranks: int) -> tuple[str, str]:
    if isinstance(event.share, NonFinite) or isinstance(event.residual, NonFinite):
        return "unclear", "the gradient is not finite"
    if event.unclear or event.coefficients is None or event.residual is None:
        return "unclear", event.unclear or "there is no fit"
    if event.share == 0:
        return "wrong", "this rank's share is zero"
    errors = event.errors or [None] * ranks
    if not len(event.coefficients) == len(errors) == ranks:
        return "unclear", f"{len(event.coefficients)} ranks were compared, {ranks} took part"
    known = sorted(abs(c) for c in event.coefficients if c is not None)
    own, error = event.coefficients[rank], errors[rank]
    if own is None or error is None or error < 0:
        return "unclear", "there is no fit for this rank"
    usual, slack = known[len(known) // 2] or known[-1], ERRORS * error
    if abs(own) + slack < LOST * usual or (usual > 0 and abs(own) < LOST * usual and slack < usual / 2):
        return "wrong", f"this rank's gradient is not in the reduced one: it counts {own / usual:.2f} of the others'"
    if _alone(event, rank):
        return "wrong", "no other rank's gradient is in what this rank applies"
    if event.residual > RESIDUAL:
        said = f"the reduced gradient is no sum of the ranks': {event.residual:.0%} of it is left over"
        return "unclear", f"{said}; clipping element by element does that"
    if abs(own - usual) > UNEQUAL * usual + slack:
        return "wrong", f"this rank's gradient counts {own / usual:.2f} times as much as the others'"
    return "", ""


def _alone(event: GradientRollCall, rank: int) -> bool:
    """Whether a rank's own gradient is all that it applies: those of the others are known, and count for nothing."""
    told = list(zip(event.coefficients or (), event.errors or (), strict=False))
    known = [(abs(c), e) for at, (c, e) in enumerate(told) if at != rank and c is not None and e is not None]
    own = abs((event.coefficients or [])[rank] or 0.0)
    return bool(known) and len(known) == len(told) - 1 and all(c + ERRORS * e < LOST * own for c, e in known)


def _replicas(run: Run) -> Fact[Replicas]:
    """Ranks that hold the same shard must hold the same bytes."""
    if why := run.incomplete(run.ranks, "rank") or unseen(run, "replicas"):
        return execution.REPLICAS.unknown(why, "ranks")
    held = [
        (event.step, event.shard, event.replica)
        for stream in run.ranks
        for event in stream.all(GradientRollCall)
        if event.replica
    ]
    return compared(held) if held else execution.REPLICAS.unknown(UNTOLD, "ranks")


def _updates(run: Run) -> Fact[Updates]:
    """How often each rank's optimizer stepped, by a hook of its own and not by what the loop said."""
    if why := run.incomplete(run.ranks, "rank"):
        return execution.UPDATES.unknown(why, "ranks")
    counts = [[e.updates for e in s.all(Step)] for s in run.ranks]
    if any(None in row or not row for row in counts):
        return execution.UPDATES.unknown(UNTOLD, "ranks")
    sums = [sum(n for n in row if n is not None) for row in counts]
    return execution.UPDATES.seen(Updates(min(sums), max(sums)), "the optimizers' own hooks")


def _unmoved(run: Run) -> Fact[list[str]]:
    """Ranks whose shards are the same bytes at their last gradient roll call as at the first, before any update."""
    if why := run.incomplete(run.ranks, "rank") or unseen(run, "replicas"):
        return execution.PARAMETERS_UNMOVED.unknown(why, "ranks")
    held = [[e.replica for e in s.all(GradientRollCall) if e.replica] for s in run.ranks]
    if any(len(digests) < 2 for digests in held):
        why = UNTOLD if not all(held) else "a single roll call shows no change"
        return execution.PARAMETERS_UNMOVED.unknown(why, "ranks")
    still = [f"all of rank {rank}" for rank, digests in enumerate(held) if digests[0] == digests[-1]]
    witness = "shard digests of each rank at its first and last roll call"
    return execution.PARAMETERS_UNMOVED.seen(still, witness)


def _batches(run: Run) -> Fact[Batches]:
    """Whether ranks were given the same batches, and whether a rank's began again within one pass over the data."""
    if why := run.incomplete(run.ranks, "rank") or unseen(run, "data"):
        return outside.BATCHES.unknown(why, "ranks")
    given = [[digest for e in s.all(Step) for _, digest in e.samples] for s in run.ranks]
    if not all(given):
        return outside.BATCHES.unknown("the batches do not come through `trial.batches(loader)`", "ranks")
    shared = [
        SharedBatches((a, b), len(same))
        for a, b in combinations(range(len(given)), 2)
        if (same := {*given[a]} & {*given[b]})
    ]
    value = Batches(
        by_rank=[len(batches) for batches in given],
        distinct=len({digest for batches in given for digest in batches}),
        shared=shared[:SHOWN],
        began_again=[found for rank, s in enumerate(run.ranks) if (found := _began_again(rank, s))][:SHOWN],
    )
    return outside.BATCHES.seen(value, "digests of the batches of each rank")


def _began_again(rank: int, stream: Stream) -> BeganAgain | None:
    """Where within one pass a rank's batches are those of the pass's beginning once more, in the same order."""
    passes: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for event in stream.all(Step):
        epochs = event.epochs or [0] * len(event.samples)
        for epoch, (_, digest) in zip(epochs, event.samples, strict=False):
            passes[epoch].append((event.step, digest))
    for epoch, batches in passes.items():
        digests = [digest for _, digest in batches]
        for at in range(AGAIN, len(digests) - AGAIN + 1):
            length = min(at, len(digests) - at)
            if digests[at] == digests[0] and digests[at : at + length] == digests[:length]:
                return BeganAgain(rank, epoch, batches[at][0], length)
    return None


def tokens(run: Run) -> Fact[learning.Tokens]:
    """Whether the tokens could be text, by how often two of them are equal; the fewest coincidences of a rank count."""
    if why := run.incomplete(run.ranks, "rank"):
        return learning.TOKENS.unknown(why, "ranks")
    seen = [(e, e.coincidence) for s in run.ranks if (e := s.last(TokensSeen)) and e.coincidence is not None]
    if not seen:
        return learning.TOKENS.unknown(unseen(run, "tokens") or "no batch held tokens", "ranks")
    few = min((e for e, _ in seen), key=lambda e: e.tokens * (e.tokens - 1) / (e.largest + 1))
    if few.tokens * (few.tokens - 1) < 2 * PAIRS * (few.largest + 1):
        why = f"{few.tokens} tokens up to {few.largest} are too few to tell text from random"
        return learning.TOKENS.unknown(why, "ranks")
    least = min(coincidence for _, coincidence in seen)
    value = learning.Tokens(coincidence=least, random=least < RANDOM, tokens=sum(e.tokens for e, _ in seen))
    return learning.TOKENS.seen(value, "the first tokens of each rank's batches")


def checkpoints(run: Run) -> Fact[list[recovery.Checkpoint]]:
    """The checkpoints that Ray Train lists, as they lie on its storage."""
    found = [
        recovery.Checkpoint(path=e.path, files=e.files, bytes=e.bytes, modified=e.modified)
        for e in run.driver.all(CheckpointFound)
    ]
    if found:
        return recovery.CHECKPOINTS.seen(found, "Ray Train's list and the storage, by the driver")
    return recovery.CHECKPOINTS.unknown("Ray Train lists no checkpoint that this host sees", "driver")


def _observing(run: Run) -> Fact[ScriptObservation]:
    """What each rank's observation rests on."""
    seen = [e for s in run.ranks if (e := s.last(Observing))]
    if not seen:
        return outside.OBSERVING.unknown(run.incomplete(run.ranks, "rank") or "no rank said what it observes", "ranks")
    counted = Counter((e.subject, e.why) for s in run.ranks for e in s.all(Unseen))
    value = ScriptObservation(
        by=seen[0].by,
        model=all(e.model for e in seen),
        optimizer=all(e.optimizer for e in seen),
        unseen=[UnseenSubject(subject, why, ranks) for (subject, why), ranks in counted.items()],
    )
    return outside.OBSERVING.seen(value, "ranks")


def unseen(run: Run, subject: str) -> str:
    """Why a rank could not see something, if one says so."""
    return next((e.why for s in run.ranks for e in s.all(Unseen) if e.subject == subject), "")
