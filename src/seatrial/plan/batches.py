"""What follows from a trial by arithmetic: mesh, accumulation, tokens, learning rate, saves and roll calls."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from seatrial.errors import InputError
from seatrial.events.planned import PlanFacts, Tolerances
from seatrial.trial import Trial

# Tolerances of the judgement. They travel as facts, written before step 0 (DESIGN, section 2).
TOLERANCES = Tolerances(
    # |Σ unreduced − reduced| / max|reduced| by the type of the reduction (FSDP2 converts before it adds up):
    gradient_deviation_fp32=1e-3,  # summation order alone gives 1e-6
    gradient_deviation_bf16=5e-2,  # 8 bits of mantissa, rounded once for each rank
    evaluation_relative=1e-4,  # the same weights scored by the ranks and by the reload
    overlap_window_share=0.2,  # n-grams of a held-out window found in train that make the window suspect
    overlap_window_limit=0.1,  # share of suspect windows from which on learning is contaminated
    clock_relative=0.05,  # steady window: ranks among themselves
    clock_slack_s=2.0,  # steady window: ranks against the probe, which looks once a second
    # Bytes of a host's counters against what the plan says its ranks send, as shares of it:
    wire_gloo_below=0.02,  # nothing less can be right; it is what reading a moving counter costs
    wire_gloo_above=0.05,  # heads of packets of 1,500 bytes are 4.6 %
    wire_nccl_below=0.15,  # trees and multicast send less than rings
    wire_nccl_above=1.0,  # LL sends a flag of 8 bytes with every 8
    wire_message_bytes=1024,  # heads and acknowledgements of one message; 800 by benchmarks/gloo_wire.py
    wire_background_bytes_per_s=500_000,  # gradient norms, roll calls, the store, Ray's own talk, logs
    # Bytes of a script's own connections against the counter of the interface that they use:
    carried_below=0.05,  # the two are read one after the other
    carried_least_bytes=100_000,  # a rendezvous and roll calls alone are less
    sample_slack_s=0.1,  # a probe reads steps and counters one after the other
)
RATE_FLOOR = 0.1  # of the peak, at the last step


@dataclass(frozen=True)
class Plan:
    """The arithmetic of one trial. `mesh` is (replicate, shard)."""

    steps: int
    world_size: int
    mesh: tuple[int, int]
    micro_batches: int
    tokens_per_step: int
    checkpoints: tuple[int, ...]
    gradient_roll_calls: tuple[int, ...]
    roll_calls: int
    steady_from: int
    reshard_after_forward: bool

    def facts(self) -> PlanFacts:
        """The plan and the tolerances as the driver writes them."""
        return PlanFacts(**asdict(self), tolerances=TOLERANCES)


def plan(trial: Trial) -> Plan:
    """The plan of a trial. Raises InputError where its numbers do not go together."""
    work, world = trial.training, trial.scaling.num_workers
    per_pass = world * work.micro_batch
    if work.global_batch % per_pass:
        below = work.global_batch // per_pass * per_pass
        near = " or ".join(str(n) for n in (below, below + per_pass) if n)
        raise InputError(
            f"saw {work.global_batch}",
            field="workload.global_batch",
            expected=f"a multiple of num_workers × micro_batch = {world} × {work.micro_batch} = {per_pass}",
            fix=f"use {near}",
        )
    if work.optimizer.warmup_steps >= work.steps:
        raise InputError(
            f"saw {work.steps}",
            field="workload.steps",
            expected=f"more than optimizer.warmup_steps = {work.optimizer.warmup_steps}",
        )
    if work.measure.warmup_steps >= work.steps:
        raise InputError(
            f"saw {work.measure.warmup_steps}",
            field="workload.measure.warmup_steps",
            expected=f"fewer than workload.steps = {work.steps}: the steady window would be empty",
        )
    saves = tuple(sorted({*range(work.checkpoint.every, work.steps, work.checkpoint.every), work.steps}))
    return Plan(
        steps=work.steps,
        world_size=world,
        mesh=_mesh(trial),
        micro_batches=work.global_batch // per_pass,
        tokens_per_step=work.global_batch * work.sequence_length,
        checkpoints=saves,
        gradient_roll_calls=tuple(sorted({1, *saves})),
        roll_calls=len(saves) + 2,
        steady_from=work.measure.warmup_steps + 1,
        reshard_after_forward=work.strategy in ("fsdp", "hsdp"),
    )


def _mesh(trial: Trial) -> tuple[int, int]:
    """(replicate, shard): DDP is a mesh with shard degree 1, FSDP one with replicate degree 1."""
    world, work = trial.scaling.num_workers, trial.training
    if work.strategy != "hsdp":
        if work.shard_degree is not None:
            raise InputError(
                f"saw {work.shard_degree}",
                field="workload.shard_degree",
                expected=f"none with strategy {work.strategy}; it is hsdp's",
            )
        return (world, 1) if work.strategy == "ddp" else (1, world)
    if work.shard_degree is None or world % work.shard_degree:
        raise InputError(
            f"saw {work.shard_degree or 'nothing'}",
            field="workload.shard_degree",
            expected=f"a divisor of num_workers = {world} with strategy hsdp",
        )
    return (world // work.shard_degree, work.shard_degree)


def learning_rate(step: int, *, peak: float, warmup_steps: int, steps: int) -> float:
    """The rate of 1-based `step`: linear to `peak` at `warmup_steps`, then cosine to `RATE_FLOOR · peak` at `steps`."""
    if step <= warmup_steps:
        return peak * step / warmup_steps
    progress = (step - warmup_steps) / max(1, steps - warmup_steps)
    return peak * (RATE_FLOOR + (1 - RATE_FLOOR) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))
