"""A team's own script: what Ray Train and the probes say from outside, and its ranks where they observe."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations
from typing import Any

from seatrial.events import Stream
from seatrial.events.observed import Observing, TokensSeen, Unseen
from seatrial.events.schema import GradientRollCall, NonFinite, RollCall, Step
from seatrial.events.script import CheckpointFound, TrainAttempt
from seatrial.events.wires import HostSample
from seatrial.evidence.facts import Fact, unknown
from seatrial.evidence.gather import Run

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


def attempts(run: Run) -> list[TrainAttempt]:
    """Every attempt as Ray Train told it last, in the order of their start."""
    told = {event.id: event for event in run.driver.all(TrainAttempt)}
    return sorted(told.values(), key=lambda event: event.attempt)


def train_runs(run: Run) -> list[Fact]:
    """What became of each attempt, and how many there were."""
    told = attempts(run)
    if not told:
        why = run.driver.why_incomplete() or NO_STATE
        return [unknown(name, why, RAY_TRAIN) for name in ("execution.train_runs", "execution.attempts")]
    value = [
        {
            "attempt": event.attempt,
            "name": event.name,
            "run_status": event.run_status,
            "status": event.status,
            "detail": (event.detail.splitlines() or [""])[-1][:300],
            "ranks": len(event.workers),
            "hosts": len({worker["node"] for worker in event.workers}),
            "workers": event.workers,
        }
        for event in told
    ]
    return [
        Fact("execution.train_runs", value=value, witness=RAY_TRAIN),
        Fact("execution.attempts", value=len(told), witness=RAY_TRAIN),
    ]


def crew(run: Run) -> Fact:
    """How many ranks the trial asks for, Ray Train says it had, and the probes of their hosts watched."""
    name = "execution.ranks"
    told = attempts(run)
    if not told:
        return unknown(name, run.driver.why_incomplete() or NO_STATE, RAY_TRAIN)
    watched = {
        name for s in run.probes for e in s.all(HostSample) for name in e.peaks_bytes if name.startswith("rank-")
    }
    value = {"asked": run.plan.get("ranks"), "told": len(told[-1].workers), "watched": len(watched)}
    return Fact(name, value=value, witness=f"{RAY_TRAIN}; processes by the host probes")


def roll_calls(run: Run) -> Fact:
    """The calls at the start and at the end of the observed loop."""
    name = "execution.roll_calls"
    if why := run.incomplete(run.ranks, "rank") or _unseen(run, "roll_calls"):
        return unknown(name, why, "ranks")
    ones = [1] * len(run.ranks)
    by_rank = [{e.at for e in s.all(RollCall) if e.counts == ones} for s in run.ranks]
    wrong = [
        {"rank": rank, "at": e.at, "step": e.step, "counts": e.counts}
        for rank, s in enumerate(run.ranks)
        for e in s.all(RollCall)
        if e.counts != ones
    ]
    value = {"complete": len(set.intersection(*by_rank)), "planned": 2, "wrong": wrong[:20]}
    return Fact(name, value=value, witness="all-reduced one-hot vectors, by each rank")


def gradients(run: Run) -> Fact:
    """Each rank's own gradient of one small parameter against what was reduced, by least squares over the ranks."""
    name = "execution.gradient_roll_calls"
    if why := run.incomplete(run.ranks, "rank") or _unseen(run, "gradients"):
        return unknown(name, why, "ranks")
    calls = [{e.step: e for e in s.all(GradientRollCall)} for s in run.ranks]
    planned = set().union(*calls)
    if not planned:
        return unknown(name, UNTOLD, "ranks")
    value: dict[str, Any] = {"planned": len(planned), "wrong": [], "unclear": []}
    good: list[set[int]] = []
    for rank, mine in enumerate(calls):
        good.append(set())
        for step, event in mine.items():
            kind, problem = _problem(event, rank, len(run.ranks))
            if kind:
                value[kind].append({"rank": rank, "step": step, "problem": problem})
            else:
                good[rank].add(step)
    value |= {"complete": len(set.intersection(*good)), "wrong": value["wrong"][:20], "unclear": value["unclear"][:20]}
    return Fact(name, value=value, witness="unreduced gradients of all ranks, fitted to the reduced one")


def _problem(event: GradientRollCall, rank: int, ranks: int) -> tuple[str, str]:
    if isinstance(event.share, NonFinite) or isinstance(event.residual, NonFinite):
        return "unclear", "the gradient is not finite"
    if event.unclear or event.coefficients is None or event.residual is None:
        return "unclear", event.unclear or "there is no fit"
    if event.share == 0:
        return "wrong", "this rank's share is zero"
    if len(event.coefficients) != ranks:
        return "unclear", f"{len(event.coefficients)} ranks were compared, {ranks} took part"
    known = sorted(abs(c) for c in event.coefficients if c is not None)
    own, error = event.coefficients[rank], (event.errors or [None] * ranks)[rank]
    if own is None or error is None:
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


def replicas(run: Run) -> Fact:
    """Ranks that hold the same shard must hold the same bytes."""
    name = "execution.replicas"
    if why := run.incomplete(run.ranks, "rank") or _unseen(run, "replicas"):
        return unknown(name, why, "ranks")
    held: dict[tuple[int, int], list[str]] = defaultdict(list)
    for stream in run.ranks:
        for event in stream.all(GradientRollCall):
            if event.replica:
                held[event.step, event.shard].append(event.replica)
    if not held:
        return unknown(name, UNTOLD, "ranks")
    compared = {key: digests for key, digests in held.items() if len(digests) > 1}
    if not compared:
        return Fact(name, "not-applicable", reason="no shard has more than one replica")
    differing = sorted({step for (step, _), digests in compared.items() if len(set(digests)) > 1})
    return Fact(
        name, value={"compared": len(compared), "differing_steps": differing}, witness="shard digests of each rank"
    )


def updates(run: Run) -> Fact:
    """How often each rank's optimizer stepped, by a hook of its own and not by what the loop said."""
    name = "execution.updates"
    if why := run.incomplete(run.ranks, "rank"):
        return unknown(name, why, "ranks")
    counts = [[e.updates for e in s.all(Step)] for s in run.ranks]
    if any(None in row or not row for row in counts):
        return unknown(name, UNTOLD, "ranks")
    sums = [sum(n for n in row if n is not None) for row in counts]
    return Fact(name, value={"min": min(sums), "max": max(sums)}, unit="updates", witness="the optimizers' own hooks")


def moved(run: Run) -> Fact:
    """Ranks whose shards are the same bytes at their last gradient roll call as at the first, before any update."""
    name = "execution.parameters_unmoved"
    if why := run.incomplete(run.ranks, "rank") or _unseen(run, "replicas"):
        return unknown(name, why, "ranks")
    held = [[e.replica for e in s.all(GradientRollCall) if e.replica] for s in run.ranks]
    if any(len(digests) < 2 for digests in held):
        return unknown(name, UNTOLD if not all(held) else "a single roll call shows no change", "ranks")
    still = [f"all of rank {rank}" for rank, digests in enumerate(held) if digests[0] == digests[-1]]
    return Fact(name, value=still, witness="shard digests of each rank at its first and last roll call")


def samples(run: Run) -> Fact:
    """Whether ranks were given the same batches, and whether a rank's began again within one pass over the data."""
    name, witness = "execution.batches", "digests of the batches of each rank"
    if why := run.incomplete(run.ranks, "rank") or _unseen(run, "data"):
        return unknown(name, why, "ranks")
    given = [[(n, digest) for e in s.all(Step) for n, digest in e.samples] for s in run.ranks]
    if not all(given):
        return unknown(name, "the batches do not come through `trial.batches(loader)`", "ranks")
    shared = [
        {"ranks": [a, b], "batches": len(same)}
        for a, b in combinations(range(len(given)), 2)
        if (same := {d for _, d in given[a]} & {d for _, d in given[b]})
    ]
    value = {
        "by_rank": [len(batches) for batches in given],
        "distinct": len({digest for batches in given for _, digest in batches}),
        "shared": shared[:20],
        "began_again": [found for rank, s in enumerate(run.ranks) if (found := _again(rank, s))][:20],
    }
    return Fact(name, value=value, unit="batches", witness=witness)


def _again(rank: int, stream: Stream) -> dict[str, int]:
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
                return {"rank": rank, "epoch": epoch, "step": batches[at][0], "batches": length}
    return {}


def tokens(run: Run) -> Fact:
    """Whether the tokens could be text, by how often two of them are equal; the fewest coincidences of a rank count."""
    name, witness = "learning.tokens", "the first tokens of each rank's batches"
    if why := run.incomplete(run.ranks, "rank"):
        return unknown(name, why, "ranks")
    seen = [e for s in run.ranks if (e := s.last(TokensSeen)) and e.coincidence is not None]
    if not seen:
        return unknown(name, _unseen(run, "tokens") or "no batch held tokens", "ranks")
    few = min(seen, key=lambda e: e.tokens * (e.tokens - 1) / (e.largest + 1))
    if few.tokens * (few.tokens - 1) < 2 * PAIRS * (few.largest + 1):
        return unknown(name, f"{few.tokens} tokens up to {few.largest} are too few to tell text from random", "ranks")
    least = min(e.coincidence for e in seen if e.coincidence is not None)
    value = {"coincidence": least, "random": least < RANDOM, "tokens": sum(e.tokens for e in seen)}
    return Fact(name, value=value, unit="equal pairs over those of uniform tokens", witness=witness)


def checkpoints(run: Run) -> Fact:
    """The checkpoints that Ray Train lists, as they lie on its storage."""
    name = "recovery.checkpoints"
    found = [
        {"path": e.path, "files": e.files, "bytes": e.bytes, "modified": e.modified}
        for e in run.driver.all(CheckpointFound)
    ]
    if found:
        return Fact(name, value=found, witness="Ray Train's list and the storage, by the driver")
    return unknown(name, "Ray Train lists no checkpoint that this host sees", "driver")


def told(run: Run) -> Fact:
    """What each rank's observation rests on."""
    name = "execution.observing"
    seen = [e for s in run.ranks if (e := s.last(Observing))]
    if not seen:
        return unknown(name, run.incomplete(run.ranks, "rank"), "ranks")
    unseen = Counter((e.subject, e.why) for s in run.ranks for e in s.all(Unseen))
    value = {
        "by": seen[0].by,
        "model": all(e.model for e in seen),
        "optimizer": all(e.optimizer for e in seen),
        "unseen": [{"subject": subject, "why": why, "ranks": count} for (subject, why), count in unseen.items()],
    }
    return Fact(name, value=value, witness="ranks")


def _unseen(run: Run, subject: str) -> str:
    """Why a rank could not see something, if one says so."""
    return next((e.why for s in run.ranks for e in s.all(Unseen) if e.subject == subject), "")
