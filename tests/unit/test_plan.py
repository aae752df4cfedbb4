"""What follows from a trial by arithmetic: the order of the data, the batches, the schedule, the mesh."""

from __future__ import annotations

import math
from itertools import chain as concatenate
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.canon import canonical
from seatrial.errors import InputError
from seatrial.events.planned import PlanFacts
from seatrial.plan import plan
from seatrial.plan.batches import RATE_FLOOR, learning_rate
from seatrial.plan.order import chain, indices, row, sample_digest, step_digest
from tests.support.trials import tiny

pytestmark = pytest.mark.unit


def epoch(seed: int, number: int, rows: int) -> list[int]:
    return [row(seed, number * rows + position, rows) for position in range(rows)]


@given(rows=st.integers(1, 300), seed=st.integers(0, 2**32 - 1), number=st.integers(0, 1000))
def test_an_epoch_visits_every_row_once(rows, seed, number):
    assert sorted(epoch(seed, number, rows)) == list(range(rows))


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1025])
def test_an_epoch_at_the_edges_of_powers_of_two(rows):
    assert sorted(epoch(17, 0, rows)) == list(range(rows))


def test_the_order_differs_by_seed_and_by_epoch_and_from_the_order_of_the_store():
    orders = [epoch(seed, number, 200) for seed in (0, 1, 2**32 - 1) for number in range(3)]
    assert len({tuple(order) for order in [*orders, list(range(200))]}) == len(orders) + 1


def test_the_order_is_the_same_in_every_process_and_version():
    assert epoch(17, 0, 10) == [8, 4, 2, 5, 9, 1, 7, 0, 3, 6]


def test_neighbours_are_scattered():
    order = epoch(17, 0, 300)
    assert sum(abs(a - b) for a, b in pairwise(order)) / 299 == pytest.approx(100, rel=0.15)  # a third of 300


def test_a_store_without_rows_has_no_order():
    with pytest.raises(ValueError, match="without rows"):
        row(0, 0, 0)


@pytest.mark.parametrize(("world", "micro_batch"), [(1, 1), (1, 24), (2, 4), (3, 2), (4, 6), (8, 1), (24, 1), (12, 2)])
@pytest.mark.parametrize("step", [1, 2, 7])
def test_a_step_reads_the_same_samples_on_every_number_of_ranks(world, micro_batch, step):
    batch = 24
    read = [
        list(indices(step, rank, micro, world_size=world, micro_batch=micro_batch, global_batch=batch))
        for micro in range(batch // (world * micro_batch))
        for rank in range(world)
    ]
    assert list(concatenate(*read)) == list(range((step - 1) * batch, step * batch))


def test_step_digests_know_order_and_content_but_not_ranks():
    samples = [(index, sample_digest(bytes([index]), b"y")) for index in range(6)]
    assert step_digest(samples) == step_digest(samples[3:] + samples[:3])
    changed = [(0, sample_digest(b"x", b"y")), *samples[1:]]
    assert len({step_digest(s) for s in (samples, samples[1:], changed, [*samples, samples[0]])}) == 4
    assert sample_digest(b"ab", b"c") != sample_digest(b"a", b"bc")
    first, second = step_digest(samples[:3]), step_digest(samples[3:])
    assert len({chain(c) for c in ([], [first], [first, second], [second, first])}) == 4


def test_the_schedule_meets_its_end_points():
    rate = [learning_rate(step, peak=0.01, warmup_steps=10, steps=100) for step in range(1, 101)]
    assert rate[0] == pytest.approx(0.001)
    assert rate[9] == max(rate) == 0.01
    assert rate[99] == min(rate[10:]) == pytest.approx(0.01 * RATE_FLOOR)
    assert all(a < b for a, b in pairwise(rate[:10]))
    assert all(a > b for a, b in pairwise(rate[9:]))
    assert rate[54] == pytest.approx(0.01 * (1 + RATE_FLOOR) / 2)  # half-way down the cosine


@given(steps=st.integers(1, 500), data=st.data(), peak=st.floats(0, 1))
def test_a_rate_is_between_zero_and_its_peak(steps, data, peak):
    warmup = data.draw(st.integers(0, steps - 1))
    step = data.draw(st.integers(1, steps))
    assert 0 <= learning_rate(step, peak=peak, warmup_steps=warmup, steps=steps) <= peak * (1 + 1e-12)


def test_without_warmup_the_first_step_is_near_the_peak():
    assert learning_rate(1, peak=1.0, warmup_steps=0, steps=1000) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(
    ("strategy", "shard_degree", "mesh", "reshards"),
    [
        ("ddp", None, (4, 1), False),
        ("fsdp", None, (1, 4), True),
        ("fsdp-grad-op", None, (1, 4), False),
        ("hsdp", 2, (2, 2), True),
        ("hsdp", 1, (4, 1), True),
        ("hsdp", 4, (1, 4), True),
    ],
)
def test_the_mesh_of_each_strategy(strategy, shard_degree, mesh, reshards):
    made = plan(tiny({"scaling": {"num_workers": 4}}, strategy=strategy, shard_degree=shard_degree))
    assert (made.mesh, made.reshard_after_forward) == (mesh, reshards)
    assert math.prod(made.mesh) == made.world_size == 4


def test_batches_and_tokens():
    made = plan(tiny({"scaling": {"num_workers": 2}}, micro_batch=2, global_batch=16, sequence_length=64))
    assert (made.micro_batches, made.tokens_per_step) == (4, 1024)


@pytest.mark.parametrize(
    ("every", "saves"),
    [(5, (5, 10, 15, 20)), (8, (8, 16, 20)), (19, (19, 20)), (20, (20,)), (50, (20,)), (1, tuple(range(1, 21)))],
)
def test_a_checkpoint_follows_the_last_step_and_the_roll_is_called_there(every, saves):
    made = plan(tiny(steps=20, checkpoint={"every": every}))
    assert made.checkpoints == saves
    assert made.gradient_roll_calls == tuple(sorted({1, *saves}))
    assert made.roll_calls == len(saves) + 2  # start, each checkpoint, end
    assert made.steady_from == 6


def test_the_plan_is_written_as_facts_with_its_tolerances():
    facts = plan(tiny()).facts()
    assert facts.mesh == (1, 2)
    assert facts.tolerances.evaluation_relative
    written = canonical(facts.model_dump())
    assert PlanFacts.model_validate_json(written) == facts
    assert b"observed" not in written  # what was not planned is not written


@pytest.mark.parametrize(
    ("workload", "line"),
    [
        (
            {"global_batch": 18},
            "workload.global_batch: saw 18; expected a multiple of num_workers × micro_batch = 2 × 4 = 8; use 16 or 24",
        ),
        (
            {"global_batch": 4},
            "workload.global_batch: saw 4; expected a multiple of num_workers × micro_batch = 2 × 4 = 8; use 8",
        ),
        (
            {"optimizer": {"lr": 0.1, "warmup_steps": 20}},
            "workload.steps: saw 20; expected more than optimizer.warmup_steps = 20",
        ),
        (
            {"measure": {"warmup_steps": 20}},
            "workload.measure.warmup_steps: saw 20; "
            "expected fewer than workload.steps = 20: the steady window would be empty",
        ),
        (
            {"shard_degree": 2},
            "workload.shard_degree: saw 2; expected none with strategy fsdp; it is hsdp's",
        ),
        (
            {"strategy": "hsdp"},
            "workload.shard_degree: saw nothing; expected a divisor of num_workers = 2 with strategy hsdp",
        ),
        (
            {"strategy": "hsdp", "shard_degree": 3},
            "workload.shard_degree: saw 3; expected a divisor of num_workers = 2 with strategy hsdp",
        ),
    ],
)
def test_numbers_that_do_not_go_together(workload, line):
    with pytest.raises(InputError) as error:
        plan(tiny(**{"steps": 20, **workload}))
    assert str(error.value) == line
