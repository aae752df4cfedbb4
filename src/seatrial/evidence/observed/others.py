"""Performance, learning and recovery of a job that was looked at: little, and why not more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seatrial.evidence.facts import learning, performance, recovery
from seatrial.evidence.facts.fact import Fact
from seatrial.evidence.facts.performance import GpuUse
from seatrial.evidence.observed.execution import NOBODY
from seatrial.evidence.observed.look import Seen

TOKENS = "tokens and step times are the script's: `seatrial.observe` in it counts them"
TIMES = "step times are the script's: `seatrial.observe` in it takes them"
LEARNT = "what is learnt is seen by an evaluation before and after, and looking evaluates nothing"
RELOADED = "no checkpoint is reloaded by looking at a job: a trial does it"


def of_performance(seen: Seen) -> Iterator[Fact[Any]]:
    """How busy the GPUs were, once; the rest is the script's to tell."""
    yield performance.TOKENS_PER_SECOND.unknown(TOKENS, NOBODY)
    yield performance.STEP_TIME.unknown(TIMES, NOBODY)
    yield performance.CLOCKS.unknown(TIMES, NOBODY)
    yield _gpus(seen)


def of_learning(_: Seen) -> Iterator[Fact[Any]]:
    """Nothing."""
    yield learning.DATA.unknown(LEARNT, NOBODY)


def of_recovery(seen: Seen) -> Iterator[Fact[Any]]:
    """Which checkpoint was reported last."""
    yield recovery.STATUS.unknown(RELOADED, NOBODY)
    yield _newest(seen)


def _newest(seen: Seen) -> Fact[dict[str, Any]]:
    """Where checkpoints go, and how old the newest was when it was looked at. That one loads is not shown by this."""
    logged = [told.checkpoint for told in seen.hosts.values() if told.checkpoint]
    storage = [run.storage_path for run in seen.train.runs or ()]
    aged = [each for each in logged if isinstance(each.get("age_s"), int | float)]
    if aged:
        newest = min(aged, key=lambda each: float(each["age_s"]))
        value = {**newest, "storage": storage or None}
        return recovery.NEWEST_CHECKPOINT.seen(value, "the log of Ray Train's workers")
    why = "no worker on the hosts watched has reported a checkpoint in the part of its log that was read"
    said = f"{why}; storage: {', '.join(map(str, storage))}" if storage else why
    return recovery.NEWEST_CHECKPOINT.unknown(said, "Ray Train's logs")


def _gpus(seen: Seen) -> Fact[GpuUse]:
    """One look at the end of the window: how busy they were then, not over the window."""
    witness = "nvidia-smi on each host, once"
    told = {host.name: host.gpus for host in seen.hosts.values()}
    if known := {host: list(said.gpus) for host, said in told.items() if said.gpus is not None}:
        silent = {host: said.unknown for host, said in told.items() if said.unknown}
        return performance.GPU_USE.seen(GpuUse(known, silent), witness)
    reasons = sorted({said.unknown for said in told.values()} - {""})
    return performance.GPU_USE.unknown("; ".join(reasons) or "no host was watched", witness)
