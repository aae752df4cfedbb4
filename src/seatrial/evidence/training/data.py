"""The data that ranks trained on, sample by sample, against what the reload processes recomputed from the source."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import accumulate, zip_longest

from seatrial.events.planned import need
from seatrial.events.schema import DataAudited, DataOpened, Step
from seatrial.evidence.facts.execution import DATA_ORDER, DataOrder, RankStep
from seatrial.evidence.facts.fact import Fact
from seatrial.evidence.run import Run
from seatrial.plan.order import chain, indices, step_digest

SHOWN = 20


def data_order(run: Run) -> Fact[DataOrder]:
    """Samples given to forward against the planned ones, which the reload recomputed from the source."""
    witness = "sample digests of ranks against the reload's recomputation"
    if why := run.incomplete(run.ranks, "rank") or run.incomplete(run.reloads, "reload"):
        return DATA_ORDER.unknown(why, "ranks, reload")
    audits = [e for s in run.reloads for e in s.all(DataAudited)]
    planned = [digest for audit in audits for digest in audit.steps]
    if not planned or [a.first for a in audits] != list(accumulate([1, *(len(a.steps) for a in audits[:-1])])):
        return DATA_ORDER.unknown("no process recomputed the planned data", "reload")
    nothing = DataOrder(steps=len(planned), matching=0, first_difference=1, misplaced=_misplaced(run))
    manifests = {e.manifest for s in run.ranks if (e := s.last(DataOpened))} | {a.manifest for a in audits}
    if len(manifests) > 1:
        return DATA_ORDER.seen(nothing, witness, "the data manifests of ranks and reload differ")
    samples: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for stream in run.ranks:
        for event in stream.all(Step):
            samples[event.step] += event.samples
    executed = [step_digest(samples[n]) for n in sorted(samples)]
    divided = _wrongly_divided(run, [n for audit in audits for n in audit.counted])
    pairs = enumerate(zip_longest(executed, planned), start=1)
    different = [n for n, (a, b) in pairs if a != b or n in divided]
    value = replace(
        nothing,
        matching=len(planned) - len(different),
        first_difference=different[0] if different else None,
        wrongly_divided=sorted(divided)[:SHOWN],
        executed=chain(executed),
        planned=chain(planned),
    )
    return DATA_ORDER.seen(value, witness)


def _wrongly_divided(run: Run, planned: list[int]) -> set[int]:
    """Steps in which a rank's loss was not the mean over the targets of all ranks that count, as the reload counts."""
    expected = dict(enumerate(planned, start=1))
    seen: dict[int, int] = defaultdict(int)
    wrong: set[int] = set()
    for stream in run.ranks:
        for event in stream.all(Step):
            seen[event.step] += event.counted or 0
            if event.divisor != expected.get(event.step):
                wrong.add(event.step)
    return wrong | {n for n, count in expected.items() if seen[n] != count}


def _misplaced(run: Run) -> list[RankStep]:
    """The first steps in which a rank read other indices than its own part of the batch."""
    plan = run.plan
    batch = {
        "world_size": len(run.ranks),
        "micro_batch": need(plan.micro_batch, "micro_batch"),
        "global_batch": need(plan.global_batch, "global_batch"),
    }
    micro_batches = need(plan.micro_batches, "micro_batches")
    samples = micro_batches * batch["micro_batch"]
    wrong: list[RankStep] = []
    for rank, stream in enumerate(run.ranks):
        for event in stream.all(Step):
            # Counted first: a plan may ask for more than can be spelled out.
            right = len(event.samples) == samples and [index for index, _ in event.samples] == [
                i for micro in range(micro_batches) for i in indices(event.step, rank, micro, **batch)
            ]
            if not right:
                wrong.append(RankStep(rank, event.step))
                break
    return wrong
