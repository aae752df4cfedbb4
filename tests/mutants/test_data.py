"""Lies about data: each is caught by what the reload makes of the source, or by the check before the first step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from seatrial.events import read
from seatrial.events.schema import Isolation, ProcessFailed, Step
from seatrial.record import seal
from tests.support import gloo
from tests.support.chat import PLAIN, conversation, folder
from tests.support.data import jsonl
from tests.support.trials import quick

pytestmark = pytest.mark.dist
COMPLETED, RANKS, LEARNING = "execution.completed", "execution.all_ranks_participated", "learning.heldout.loss"
CLAIMS = [{"claim": COMPLETED}, {"claim": RANKS}, {"claim": LEARNING, "improves_by": 0.2, "over": "base"}]


def no_positions() -> None:
    """Forward is not given the positions: documents of a row see each other."""
    from seatrial.train import loss

    def blind(module: Any, inputs: Any, targets: Any, positions: Any) -> Any:
        return loss.token_loss(module(input_ids=inputs, use_cache=False).logits, targets)

    loss.token_nats = blind


def all_ones_mask() -> None:
    """Forward is given positions and a mask of ones, which switches the separation off."""
    import torch

    from seatrial.train import loss

    def masked(module: Any, inputs: Any, targets: Any, positions: Any) -> Any:
        ones = torch.ones_like(inputs)
        logits = module(input_ids=inputs, position_ids=positions, attention_mask=ones, use_cache=False).logits
        return loss.token_loss(logits, targets)

    loss.token_nats = masked


def _alter(name: str) -> None:
    """One byte in a hundred of a file of the store is another one after it was opened."""
    import numpy as np
    import torch.distributed as dist

    from seatrial.train import loop

    opened = loop.open_data

    def altered(*arguments: Any) -> Any:
        data = opened(*arguments)
        if dist.get_rank() == 0:
            assert data.folder is not None
            stream = np.memmap(data.folder / name, dtype="<u2", mode="r+")
            stream[::50] = stream[::50] % 100 + 10
            stream.flush()
        dist.barrier()
        return data

    loop.open_data = altered


def altered_train() -> None:
    """The tokens of the store are not those of the source."""
    _alter("train.tokens")


def altered_heldout() -> None:
    """The held-out tokens of the store are not those of the source."""
    _alter("heldout.tokens")


def mean_of_means() -> None:
    """Each rank divides by its own targets, as if all ranks had as many."""
    import torch.distributed as dist

    from seatrial.train.data import Dataset

    counted = Dataset.counted

    def own(self: Dataset, indices: range) -> int:
        half = len(indices) // 2
        part = indices[:half] if dist.get_rank() == 0 else indices[half:]
        return 2 * counted(self, part)

    Dataset.counted = own  # type: ignore[method-assign]


def joined_documents() -> None:
    """Positions run through each row."""
    from seatrial.train import loop

    fetch = loop.micro_batch

    def joined(data: Any, wanted: range) -> Any:
        import torch

        inputs, targets, positions = fetch(data, wanted)
        return inputs, targets, torch.arange(positions.shape[1]).expand_as(positions).contiguous()

    loop.micro_batch = joined


def questions_learnt() -> None:
    """The loss is over every token, not over the answers alone."""
    from seatrial.train import loop

    fetch = loop.micro_batch

    def everything(data: Any, wanted: range) -> Any:
        inputs, targets, positions = fetch(data, wanted)
        targets = targets.clone()
        targets[:, :-1] = inputs[:, 1:]
        return inputs, targets, positions

    loop.micro_batch = everything


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A model with a chat template, and conversations for it."""
    root = tmp_path_factory.mktemp("chat")
    words = [m["content"] for n in range(200) for m in conversation(n)]
    model = folder(root / "model", PLAIN, words)
    data = {
        "train": str(jsonl(root / "train.jsonl", [{"messages": conversation(n)} for n in range(0, 2000, 2)])),
        "heldout": str(jsonl(root / "heldout.jsonl", [{"messages": conversation(n)} for n in range(1, 200, 2)])),
        "chat": True,
        "heldout_windows": 16,
    }
    return {
        "model": {"path": str(model)},
        "data": data,
        "sequence_length": 128,
        "steps": 12,
        "checkpoint": {"every": 12},
    }


def run(chat: dict[str, Any], storage: Path, plant: Any = None) -> tuple[Path, dict[str, Any]]:
    layout = gloo.run(quick({"claims": CLAIMS}, **chat), storage, plant)
    return layout.root, seal(layout.root)[1]


def verdict(record: dict[str, Any], claim: str) -> dict[str, Any]:
    return next(v for v in record["verdicts"] if v["claim"] == claim)


def test_a_clean_run_of_chat_keeps_every_claim(chat: dict[str, Any], tmp_path: Path) -> None:
    root, record = run(chat, tmp_path)
    assert [v["verdict"] for v in record["verdicts"]] == ["supported"] * 3, record["verdicts"]
    isolation = record["evidence"]["learning"]["learning.isolation"]["value"]
    assert isolation["leak"] <= 1e-6 < 1e-3 < isolation["effect"]
    ranks = [list(read(root / "events" / "a1" / f"rank-{r}.jsonl", f"rank-{r}", root.name).all(Step)) for r in (0, 1)]
    assert ranks[0]
    for one, other in zip(*ranks, strict=True):
        assert one.divisor == other.divisor == one.counted + other.counted  # type: ignore[operator]
        assert one.divisor < one.tokens + other.tokens  # type: ignore[operator]
    data = record["evidence"]["learning"]["learning.data"]["value"]
    assert (data["documents"], data["bad_rows"], data["truncated"]) == (1000, {}, 0)


@pytest.mark.parametrize("plant", [no_positions, all_ones_mask])
def test_a_model_that_looks_across_documents_is_stopped(plant: Any, chat: dict[str, Any], tmp_path: Path) -> None:
    root, record = run(chat, tmp_path, plant)
    assert record["exit_code"] == 4
    stream = read(root / "events" / "a1" / "rank-0.jsonl", "rank-0", root.name)
    failed = stream.last(ProcessFailed)
    assert failed is not None
    assert "Qwen2ForCausalLM lets documents of a row see each other" in failed.error
    isolation = stream.last(Isolation)
    assert isolation is not None
    assert float(isolation.leak) > 0.01 * float(isolation.effect)  # type: ignore[arg-type]
    assert verdict(record, COMPLETED)["verdict"] == "refuted"


@pytest.mark.parametrize(
    "plant",
    [
        mean_of_means,
        questions_learnt,
        pytest.param(altered_train, marks=pytest.mark.slow),
        pytest.param(joined_documents, marks=pytest.mark.slow),
    ],
)
def test_what_was_trained_on_is_not_the_plan(plant: Any, chat: dict[str, Any], tmp_path: Path) -> None:
    _, record = run(chat, tmp_path, plant)
    seen = verdict(record, COMPLETED)
    assert (seen["verdict"], seen["reason"]) == ("refuted", "data"), seen
    assert verdict(record, LEARNING)["verdict"] == "not-established"


def test_heldout_windows_that_are_not_of_the_source(chat: dict[str, Any], tmp_path: Path) -> None:
    _, record = run(chat, tmp_path, altered_heldout)
    seen = verdict(record, LEARNING)
    assert seen["verdict"] == "not-established"
    assert "not those that the reload cut from the source" in seen["seen"]
    assert verdict(record, COMPLETED)["verdict"] == "supported"
