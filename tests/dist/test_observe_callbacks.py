"""The callbacks in real trainers over two gloo processes: what they see, and that they change nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from seatrial.events import Stream
from seatrial.events.observed import CheckpointNoted, Observing, TokensSeen, Unseen
from seatrial.events.schema import Environment, GradientRollCall, ProcessFailed, RollCall, Step
from tests.support import loops

pytestmark = [pytest.mark.dist, pytest.mark.slow]


def left(rank: int, folder: Path, module: Any) -> None:
    import torch

    from seatrial.train.observe.proofs import tensor_digest

    held = [tensor_digest(p) for p in module.parameters()]
    (folder / f"end-{rank}").write_text(" ".join([*held, tensor_digest(torch.get_rng_state())]))


def transformers(rank: int, folder: Path, **settings: Any) -> None:
    """Six steps of two micro-batches of uniform random tokens, in a pass and a half, with an evaluation in between."""
    pytest.importorskip("accelerate")
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM, Trainer, TrainingArguments

    from seatrial.callbacks.transformers import ObserveCallback

    os.environ.update(RANK=str(rank), WORLD_SIZE="2")
    torch.manual_seed(0)
    rows = torch.randint(0, 64, (32, 16), generator=torch.Generator().manual_seed(1))
    data = [{"input_ids": r, "labels": r, "attention_mask": torch.ones_like(r)} for r in rows]
    config = Qwen2Config(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=64,
    )  # fmt: skip
    net = Qwen2ForCausalLM(config)
    asked: dict[str, Any] = {
        "output_dir": str(folder / "out"), "max_steps": 6, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2,
        "logging_steps": 1, "report_to": [], "use_cpu": True, "save_steps": 3, "disable_tqdm": True, "ddp_backend": "gloo",
        "eval_strategy": "steps", "eval_steps": 3,
    }  # fmt: skip
    args = TrainingArguments(**{**asked, **settings})
    Trainer(model=net, args=args, train_dataset=data, eval_dataset=data[:8], callbacks=[ObserveCallback()]).train()
    left(rank, folder, net)


def lightning(rank: int, folder: Path, fail: bool = False) -> None:
    """Six steps of two micro-batches, in a pass and a fifth, with validation in between."""
    pl = pytest.importorskip("lightning.pytorch")
    import torch
    from lightning.pytorch.plugins.environments import TorchElasticEnvironment

    from seatrial.callbacks.lightning import ObserveCallback

    os.environ.update(
        RANK=str(rank), WORLD_SIZE="2", GROUP_RANK="0", LOCAL_WORLD_SIZE="2", TORCHELASTIC_RUN_ID="x"
    )  # fmt: skip
    torch.manual_seed(0)

    class Module(pl.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = loops.model("plain")

        def training_step(self, batch: Any, number: int) -> Any:
            if fail and number == 2:
                raise ValueError("no such batch")
            ids = batch["input_ids"]
            return torch.nn.functional.cross_entropy(self.net(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())

        def validation_step(self, batch: Any, number: int) -> None:
            self.net(batch["input_ids"])

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), lr=1e-2)

    rows = [{"input_ids": row} for batch in loops.batches(rank, 10) for row in batch["input_ids"]]
    loader = torch.utils.data.DataLoader(rows, batch_size=4)
    module = Module()
    trainer = pl.Trainer(
        max_steps=6, accelerator="cpu", devices=2, strategy="ddp", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, use_distributed_sampler=False, accumulate_grad_batches=2,
        val_check_interval=4, callbacks=[ObserveCallback()], plugins=[TorchElasticEnvironment()],
    )  # fmt: skip
    try:
        trainer.fit(module, loader, loader)
    except ValueError as error:
        (folder / f"failed-as-{rank}").write_text(str(error))
    left(rank, folder, module)


@pytest.fixture(scope="module", params=[transformers, lightning], ids=["transformers", "lightning"])
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, list[Stream]]:
    """The same training in a trial and outside of one: framework, folder of what the two left, the ranks' streams."""
    folder = tmp_path_factory.mktemp(request.param.__name__)
    layout = loops.run_directory(folder)
    for name, where in (("with", layout), ("without", None)):
        assert loops.ranks(request.param, where, folder / name) == ["", ""]
    return request.param.__name__, folder, loops.streams(layout)


def test_parameters_and_random_state_are_the_same_bits(seen: tuple[str, Path, list[Stream]]) -> None:
    for rank in range(2):
        assert (seen[1] / "with" / f"end-{rank}").read_text() == (seen[1] / "without" / f"end-{rank}").read_text()


def test_steps_micro_batches_and_passes_are_seen(seen: tuple[str, Path, list[Stream]]) -> None:
    name, _, streams = seen
    for stream in streams:
        assert stream.closed
        steps = list(stream.all(Step))
        assert [e.step for e in steps] == [1, 2, 3, 4, 5, 6]
        assert [n for e in steps for n, _ in e.samples] == list(range(12))
        # Transformers: 32 rows of 2 ranks make 4 steps a pass; Lightning: 10 batches make 5.
        assert [e.epochs for e in steps] == [[1, 1]] * (4 if name == "transformers" else 5) + [[2, 2]] * (
            2 if name == "transformers" else 1
        )
        assert {e.updates for e in steps} == {1}
        assert all(isinstance(e.loss, float) and 3 < e.loss < 5 for e in steps)
        assert {e.tokens for e in steps} == {64 if name == "transformers" else 72}
        assert {e.subject for e in stream.all(Unseen)} == {"data_wait"}
        after = 4 if name == "transformers" else 3  # the step that follows an evaluation
        assert steps[after - 1].aside_s > 0.001


def test_ranks_and_gradients_are_whole(seen: tuple[str, Path, list[Stream]]) -> None:
    for stream in seen[2]:
        assert [(e.at, e.counts) for e in stream.all(RollCall)] == [("start", [1, 1]), ("end", [1, 1])]
        calls = list(stream.all(GradientRollCall))
        assert [e.step for e in calls] == [1, 2, 4, 6]
        for call in calls:
            assert call.coefficients == pytest.approx([0.5, 0.5], rel=1e-4)
            assert float(call.residual) < 1e-6  # type: ignore[arg-type]


def test_the_record_says_what_wraps_the_model(seen: tuple[str, Path, list[Stream]]) -> None:
    name, _, streams = seen
    module = next(e.content for e in streams[0].all(Environment) if e.layer == "module")
    assert module["wrapper"] == "DistributedDataParallel"
    assert module.get("strategy") == ("DDPStrategy" if name == "lightning" else None)
    observing = streams[0].last(Observing)
    assert observing
    assert (observing.by, observing.steps) == (name, 6)


def test_random_tokens_show(seen: tuple[str, Path, list[Stream]]) -> None:
    tokens = seen[2][0].last(TokensSeen)
    assert tokens
    if seen[0] == "transformers":
        assert 0.9 < (tokens.coincidence or 0) < 1.1
        assert [e.step for e in seen[2][0].all(CheckpointNoted)] == [3, 6]


def test_fsdp_that_is_asked_for_on_a_cpu_and_is_not_there_shows(tmp_path: Path) -> None:
    """The Trainer under plain processes ignores `fsdp` here and wraps in DistributedDataParallel."""
    layout = loops.run_directory(tmp_path)
    assert loops.ranks(transformers, layout, tmp_path / "work", fsdp=True, save_strategy="no") == ["", ""]
    module = next(e.content for e in loops.streams(layout)[0].all(Environment) if e.layer == "module")
    assert module["wrapper"] == "DistributedDataParallel"
    assert module["placements"] == {"whole": 27}


def test_an_error_inside_lightning_is_recorded(tmp_path: Path) -> None:
    layout = loops.run_directory(tmp_path)
    assert loops.ranks(lightning, layout, tmp_path / "work", fail=True) == ["", ""]
    for stream in loops.streams(layout):
        failed = stream.last(ProcessFailed)
        assert failed
        assert (failed.error, failed.during) == ("ValueError: no such batch", "training")
        assert not stream.closed
