"""Lies of a script's own loop: each leaves its mark in the events of `observe()`, and the honest loop leaves none.

What is made of these events is another matter; here the marks themselves are looked for.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from seatrial.events import Stream
from seatrial.events.observed import TokensSeen, Unseen
from seatrial.events.schema import Environment, GradientRollCall, Step
from tests.support import loops

pytestmark = pytest.mark.dist


def silent(rank: int, net: Any, optimizer: Any) -> dict[str, Any]:
    """Rank 1's loss is multiplied by zero."""
    return {"loss": (lambda loss: loss * 0) if rank == 1 else (lambda loss: loss)}


def dropped(rank: int, net: Any, optimizer: Any) -> None:
    """DDP reduces, and rank 1 hands it zeros: its gradient is computed and lost."""
    import torch.distributed as dist

    def hook(state, bucket):  # DDP reads the types of a hook that has them
        mine = bucket.buffer().zero_() if rank == 1 else bucket.buffer()
        work = dist.all_reduce(mine, async_op=True).get_future()
        return work.then(lambda done: done.value()[0] / 2)

    net.register_comm_hook(None, hook)


def half(rank: int, net: Any, optimizer: Any) -> None:
    """Rank 1 counts for half."""
    import torch.distributed as dist

    def hook(state, bucket):  # DDP reads the types of a hook that has them
        mine = bucket.buffer().mul_(0.5) if rank == 1 else bucket.buffer()
        work = dist.all_reduce(mine, async_op=True).get_future()
        return work.then(lambda done: done.value()[0] / 2)

    net.register_comm_hook(None, hook)


def clipped_by_value(rank: int, net: Any, optimizer: Any) -> dict[str, Any]:
    """No lie, but a gradient that is no sum any more."""
    import torch

    return {"gradient": lambda net: torch.nn.utils.clip_grad_value_(net.parameters(), 1e-3)}


def unsynchronised(rank: int, net: Any, optimizer: Any) -> None:
    """FSDP is told not to reduce: nothing that the optimizer looks at has a gradient."""
    net.set_requires_gradient_sync(False)


def skipped(rank: int, net: Any, optimizer: Any) -> None:
    """Every second update does not happen."""
    step, count = optimizer.step, 0

    def skipping(*given: Any) -> None:
        nonlocal count
        count += 1
        if count % 2:
            step(*given)

    optimizer.step = skipping


def train(folder: Path, plant: Any = None, kind: str = "ddp") -> list[Stream]:
    layout = loops.run_directory(folder)
    assert loops.ranks(loops.train, layout, folder / "work", kind=kind, plant=plant) == ["", ""]
    return loops.streams(layout)


def calls(stream: Stream) -> list[GradientRollCall]:
    """The roll calls of the gradients: there is one at each of these steps, whatever was planted."""
    found = list(stream.all(GradientRollCall))
    assert [call.step for call in found] == [1, 2, 4, 5]
    return found


def coefficients(stream: Stream) -> list[list[float | None]]:
    return [call.coefficients or [] for call in calls(stream)]


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_an_honest_loop_leaves_no_mark(tmp_path: Path, kind: str) -> None:
    for stream in train(tmp_path, kind=kind):
        for call in calls(stream):
            assert call.coefficients
            assert call.coefficients[0] == pytest.approx(call.coefficients[1], rel=1e-5)
            assert float(call.residual) < 1e-6  # type: ignore[arg-type]
            assert not call.unclear
        assert {e.updates for e in stream.all(Step)} == {1}
        assert not list(stream.all(Unseen))


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_a_silent_rank_has_no_share(tmp_path: Path, kind: str) -> None:
    first, second = train(tmp_path, silent, kind)
    assert {call.share for call in calls(second)} == {0.0}
    assert all(call.share for call in calls(first))
    assert {c[1] for s in (first, second) for c in coefficients(s)} == {None}


def test_a_lost_gradient_has_a_share_and_no_weight(tmp_path: Path) -> None:
    first, second = train(tmp_path, dropped)
    assert all(call.share for call in calls(second))
    for own, lost in coefficients(first) + coefficients(second):
        assert abs(lost or 0.0) < 1e-5 * (own or 0.0)


def test_a_rank_that_counts_for_half_has_half_the_weight(tmp_path: Path) -> None:
    for stream in train(tmp_path, half):
        for first, second in coefficients(stream):
            assert second == pytest.approx((first or 0.0) / 2, rel=1e-4)


def test_ranks_that_train_alone_have_each_other_at_zero_and_grow_apart(tmp_path: Path) -> None:
    streams = train(tmp_path, kind="plain")
    for rank, stream in enumerate(streams):
        for weights in coefficients(stream):
            assert abs(weights[1 - rank] or 0.0) < 1e-5 * (weights[rank] or 0.0)
    held = [[call.replica for call in calls(stream)] for stream in streams]
    assert all(a != b for a, b in zip(*held, strict=True))


def test_clipping_by_value_gives_no_fit_and_no_accusation(tmp_path: Path) -> None:
    for stream in train(tmp_path, clipped_by_value):
        assert all(float(call.residual) > 0.01 for call in calls(stream))  # type: ignore[arg-type]


def test_a_gradient_that_is_never_reduced_is_never_seen(tmp_path: Path) -> None:
    for stream in train(tmp_path, unsynchronised, "fsdp"):
        assert not list(stream.all(GradientRollCall))
        assert {e.why for e in stream.all(Unseen)} == {
            "a rank had no gradient when its optimizer stepped, or it did not step"
        }


def test_updates_that_do_not_happen_are_counted(tmp_path: Path) -> None:
    for stream in train(tmp_path, skipped):
        assert [e.updates for e in stream.all(Step)] == [1, 0, 1, 0, 1]


def repeats(rank: int, folder: Path, how: str) -> None:
    """Two passes over two batches, or one pass that gives the same batch for ever."""
    from seatrial import observe

    with observe() as trial:
        for _ in range(2 if how == "passes" else 1):
            for _ in trial.batches(loops.batches(rank, 2 if how == "passes" else 4, repeat=how == "same")):
                trial.step(loss=1.0)


@pytest.mark.parametrize(("how", "repeated"), [("passes", 0), ("same", 1)])
def test_a_batch_that_comes_again_within_a_pass_shows(tmp_path: Path, how: str, repeated: int) -> None:
    layout = loops.run_directory(tmp_path)
    assert loops.ranks(repeats, layout, tmp_path / "work", how=how) == ["", ""]
    for stream in loops.streams(layout):
        seen = Counter((p, d) for e in stream.all(Step) for (_, d), p in zip(e.samples, e.epochs, strict=True))
        assert sum(n > 1 for n in seen.values()) == repeated


def tokens(rank: int, folder: Path, how: str) -> None:
    """Uniform random tokens, or the bytes of this file."""
    import torch

    from seatrial import observe

    if how == "text":
        ids = torch.tensor(list(Path(__file__).read_bytes()[:4096])).view(4, -1)
    else:
        ids = torch.randint(0, 20_000 if how == "random" else 256, (16, 1024))
    batch = {"input_ids": ids}
    if how == "padded":
        batch = {"input_ids": torch.cat([ids, torch.zeros_like(ids)], dim=1), "attention_mask": torch.ones(16, 2048)}
        batch["attention_mask"][:, 1024:] = 0
    with observe() as trial:
        for _ in trial.batches([batch]):
            trial.step(loss=1.0)


@pytest.mark.parametrize(
    ("how", "low", "high"),
    [("random", 0.95, 1.05), ("small", 0.95, 1.05), ("padded", 0.95, 1.05), ("text", 4.0, 100.0)],
)
def test_random_tokens_are_told_from_text(tmp_path: Path, how: str, low: float, high: float) -> None:
    layout = loops.run_directory(tmp_path)
    assert loops.ranks(tokens, layout, tmp_path / "work", world=1, how=how) == [""]
    seen = loops.streams(layout, world=1)[0].last(TokensSeen)
    assert seen
    assert low < (seen.coincidence or 0.0) < high


def evaluated_first(rank: int, folder: Path, wrapped: bool) -> None:
    """A loop that tells of the model without its wrapper, and evaluates it so before the first step."""
    import torch

    from seatrial import observe

    outer = loops.model("ddp")
    net = outer.module
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    with observe(model=net, optimizer=optimizer, steps=2) as trial:
        with trial.aside(), torch.no_grad():
            net(loops.batches(rank, 1)[0]["input_ids"])
        for batch in trial.batches(loops.batches(rank, 2)):
            loss = (outer if wrapped else net)(batch["input_ids"]).square().mean()
            loss.backward()
            optimizer.step()
            trial.step(loss=loss)


@pytest.mark.parametrize(("wrapped", "name"), [(True, "DistributedDataParallel"), (False, "none")])
def test_what_wraps_the_model_is_what_its_gradients_go_through(tmp_path: Path, wrapped: bool, name: str) -> None:
    layout = loops.run_directory(tmp_path)
    assert loops.ranks(evaluated_first, layout, tmp_path / "work", wrapped=wrapped) == ["", ""]
    layers = {e.layer: e.content for e in loops.streams(layout)[0].all(Environment)}
    assert layers["module"]["wrapper"] == name
