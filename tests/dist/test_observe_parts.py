"""The parts of `observe()` that need torch but no processes."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from seatrial.events import Layout
from seatrial.train.observe import batches
from seatrial.train.observe.batches import BLOCK_BYTES, WHOLE_BYTES, TokenSample, leaves
from seatrial.train.observe.gradients import choose, fit
from seatrial.train.observe.identity import number_attempt
from seatrial.train.observe.module import describe, wrapper_of
from seatrial.train.observe.observation import RollCallSteps
from seatrial.train.observe.steps import _closure

pytestmark = pytest.mark.dist


def digest(batch: object) -> tuple[str, str]:
    return batches.digest(batches.leaves(batch))


def counted(batch: object) -> tuple[int, str]:
    return batches.count(*batches.tokens_of(leaves(batch)))


def shares(ranks: int, elements: int = 256) -> torch.Tensor:
    """A common part with each rank's noise on it, as gradients of one model on different data are."""
    generator = torch.Generator().manual_seed(ranks)
    return torch.randn(elements, generator=generator) + torch.randn(ranks, elements, generator=generator)


@pytest.mark.parametrize("ranks", [1, 2, 8, 32])
@pytest.mark.parametrize("scale", [1.0, 1 / 7, 3e-4])
def test_equal_weights_are_found_whatever_their_scale(ranks: int, scale: float) -> None:
    mine = shares(ranks)
    found = fit(mine, mine.sum(dim=0) * scale)
    assert found["coefficients"] == pytest.approx([scale] * ranks, rel=1e-4)
    assert found["residual"] < 1e-5
    assert all(0 < e < 1e-3 * scale for e in found["errors"])


@pytest.mark.parametrize("noise", [0.0, 1e-3, 0.02])
def test_errors_say_how_far_a_weight_can_be_believed(noise: float) -> None:
    """Over many draws, weights lie within four of their errors of the truth."""
    for seed in range(40):
        generator = torch.Generator().manual_seed(seed)
        mine = torch.randn(4, 256, generator=generator)
        reduced = mine[:3].sum(dim=0) / 4
        reduced = reduced + noise * reduced.norm() / 16 * torch.randn(256, generator=generator)
        found = fit(mine, reduced)
        for value, error, truth in zip(found["coefficients"], found["errors"], [0.25, 0.25, 0.25, 0.0], strict=True):
            assert abs(value - truth) < 4.5 * error + 1e-6


def test_what_cannot_be_told_is_unclear() -> None:
    mine = shares(3)
    total = mine.sum(dim=0)
    assert "cannot be told apart" in fit(torch.stack([mine[0], mine[0], mine[1]]), total)["unclear"]
    assert fit(mine, total * math.nan)["unclear"] == "the gradient is not finite"
    assert fit(mine, total * 0)["unclear"] == "the reduced gradient is zero"
    assert fit(mine * 0, total)["unclear"] == "every rank's share is zero"
    assert fit(mine[:, :3], total[:3])["unclear"] == "3 elements cannot tell 3 ranks apart"


def test_a_zero_share_has_no_weight_and_leaves_the_others_theirs() -> None:
    mine = shares(3)
    mine[1] = 0
    found = fit(mine, mine.sum(dim=0) / 3)
    assert found["coefficients"][1] is found["errors"][1] is None
    assert [found["coefficients"][0], found["coefficients"][2]] == pytest.approx([1 / 3, 1 / 3], rel=1e-4)


def test_the_parameter_to_watch_is_a_scale_that_is_long_enough() -> None:
    net = torch.nn.Sequential(
        torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2), torch.nn.LayerNorm(2)
    )
    assert choose(net) == "3.weight"
    assert choose(net, at_least=8) == "1.weight"
    assert choose(torch.nn.Linear(2, 2)) == "weight"
    assert choose(net.requires_grad_(False)) == ""


def test_a_digest_sees_every_tensor_of_a_batch() -> None:
    batch = {"b": [torch.arange(6).view(2, 3), 1.5], "a": (torch.ones(2), "x")}
    mark, why = digest(batch)
    assert len(mark) == 32
    assert not why
    assert digest({"a": (torch.ones(2), "x"), "b": [torch.arange(6).view(2, 3), 1.5]}) == (mark, "")
    for other in (
        {**batch, "a": (torch.zeros(2), "x")},
        {**batch, "a": (torch.ones(2, dtype=torch.float64), "x")},
        {**batch, "a": (torch.ones(2), "y")},
        {**batch, "b": [torch.arange(6).view(3, 2), 1.5]},
    ):
        assert digest(other)[0] != mark
    assert digest(torch.arange(6).view(2, 3).t())[0] != digest(torch.arange(6).view(3, 2))[0]
    assert digest(torch.ones(2, dtype=torch.bfloat16))[0]


def test_of_a_large_tensor_blocks_are_read_and_the_digest_says_so() -> None:
    large = torch.zeros(WHOLE_BYTES * 3, dtype=torch.uint8)
    mark, _ = digest(large)
    assert mark.startswith("part:")
    assert not digest(large[:WHOLE_BYTES])[0].startswith("part:")
    for at in (0, BLOCK_BYTES - 1, len(large) - 1):
        changed = large.clone()
        changed[at] = 1
        assert digest(changed)[0] != mark


def test_a_batch_that_cannot_be_read_has_no_digest() -> None:
    assert digest({"x": torch.ones(2, device="meta")}) == (
        "", "tensors of a batch are meta when it is handed over; they are not read there"
    )  # fmt: skip
    assert digest(["only", "text"]) == ("", "a batch has no tensor in it")
    assert "sparse" in digest(torch.eye(2).to_sparse())[1]


def test_tokens_are_counted_from_what_a_batch_says() -> None:
    ids, mask = torch.arange(12).view(2, 6), torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 0, 0, 0, 0]])
    assert counted({"input_ids": ids, "attention_mask": mask}) == (8, "attention_mask")
    assert counted({"input_ids": ids, "labels": ids}) == (12, "input_ids")
    assert counted([torch.ones(2, 3), ids]) == (12, "input_ids")
    assert counted([torch.ones(2, 3)]) == (0, "unknown")


def test_the_look_of_tokens_is_a_number_that_can_be_checked_by_hand() -> None:
    tokens = TokenSample()
    assert tokens.seen() is None
    tokens.add(torch.tensor([[0, 0, 1, 3]]), None)
    seen = tokens.seen()
    assert seen
    # One equal pair of six; uniform over four values would give 6/4.
    assert (seen.tokens, seen.distinct, seen.largest, seen.coincidence) == (4, 3, 3, pytest.approx(1 / (6 / 4)))


def test_gradient_roll_calls_are_at_powers_of_two_and_the_last() -> None:
    assert [n for n in range(21) if n in RollCallSteps(19)] == [1, 2, 4, 8, 16, 19]
    assert [n for n in range(10) if n in RollCallSteps(None)] == [1, 2, 4, 8]


def test_a_closure_of_an_optimizer_is_noticed() -> None:
    assert _closure(("optimizer", len), {})
    assert _closure(("optimizer",), {"closure": len})
    assert not _closure(("optimizer",), {})
    assert not _closure(("optimizer", None), {"closure": None})


def test_an_attempt_has_one_number_however_many_ask(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.make()
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda n: (n % 3, number_attempt(layout, f"group {n % 3}")), range(60)))
    assert len(set(found)) == 3
    assert {number for _, number in set(found)} == {1, 2, 3}
    assert number_attempt(layout, "group 3") == 4
    assert not [p for p in layout.events.iterdir() if p.name.startswith(".")]


def test_a_plain_model_is_described_as_one() -> None:
    net = torch.nn.Linear(2, 3)
    net.bias.requires_grad_(False)
    assert wrapper_of(net) == "none"
    content = describe(net, "none", torch.optim.SGD(net.parameters(), lr=1.0), "")
    assert (content["class"], content["parameters"], content["trainable"]) == ("torch.nn.modules.linear.Linear", 9, 6)
    assert content["optimizer"] == "torch.optim.sgd.SGD"
