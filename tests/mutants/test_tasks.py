"""Planted lies about tasks: each costs the claims that it is about; the clean run keeps them all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch.distributed as dist

from seatrial.record import seal
from seatrial.train.tasks import score
from tests.support import gloo, tasks

pytestmark = pytest.mark.dist


def nothing() -> None:
    """The clean run."""


def _written(change: Any) -> None:
    """Every event about a task goes through `change` before this rank writes it."""
    validate = score.TaskScored.model_validate

    class Changed:
        @staticmethod
        def model_validate(content: dict[str, Any]) -> Any:
            return validate(change(content))

    score.TaskScored = Changed  # type: ignore[misc]


def flattered() -> None:
    """Rank 1 reports all of its items right after training."""

    def change(content: dict[str, Any]) -> dict[str, Any]:
        if content["phase"] == "after" and dist.get_rank() == 1:
            content["items"] = [(n, i, 1.0, said, nats) for n, i, _, said, nats in content["items"]]
        return content

    _written(change)


def exchanged() -> None:
    """What was scored after training is reported as before, and the other way round."""
    kept: dict[str, list[Any]] = {}

    def change(content: dict[str, Any]) -> dict[str, Any]:
        if content["phase"] == "after":
            kept.setdefault(content["task"], content["items"])
        other = "after" if content["phase"] == "before" else "before"
        return {**content, "phase": other, "step": 80 if other == "after" else 0}

    _written(change)


def scored_twice() -> None:
    """Rank 0 reports its first item a second time."""
    _written(
        lambda content: (
            {**content, "items": [*content["items"], content["items"][0]]} if dist.get_rank() == 0 else content
        )
    )


def other_file_after() -> None:
    """Between the evaluations someone edits the task's file: its answers become easier."""
    read_items = score.read_items
    calls = 0

    def edited(task: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3 and dist.get_rank() == 0:  # two tasks before, the first of them again after
            path = Path(str(task.path))
            path.write_text(path.read_text().replace('"answer": "1"', '"answer": ["1", "2"]'))
        dist.barrier()
        return read_items(task)

    score.read_items = edited


def never_trained() -> None:
    """The optimizer steps at rate zero: nothing is learnt, whatever the log says."""
    from seatrial.train import loop

    apply = loop.optimizer_step
    loop.optimizer_step = lambda optimizer, rate: apply(optimizer, 0.0)


# plant, whether it needs a model that has learnt, and verdicts of: digits improve, choice is half right, no drop
CLEAN = [("supported", "")] * 3
CONTRADICTION, UNKNOWN = ("not-established", "contradiction"), ("not-established", "unknown")
LIES: list[tuple[Any, bool, list[tuple[str, str]]]] = [
    (flattered, False, [CONTRADICTION] * 3),
    (exchanged, True, [CONTRADICTION] * 3),
    (scored_twice, False, [UNKNOWN] * 3),
    (other_file_after, False, [CONTRADICTION]),
    (never_trained, False, [("refuted", "value"), ("refuted", "value"), ("supported", "")]),  # what stays does not drop
]
SHORT = {"steps": 10, "checkpoint": {"every": 10}, "measure": {"warmup_steps": 1}}


def verdicts(plant: Any, folder: Path, **workload: Any) -> list[dict[str, Any]]:
    (folder / "runs").mkdir()
    trial = tasks.trial(folder, **workload)
    return list(seal(gloo.run(trial, folder / "runs", plant).root)[1]["verdicts"])


def test_a_clean_run_keeps_every_claim(tmp_path: Path) -> None:
    seen = verdicts(nothing, tmp_path)
    assert [(v["verdict"], v["reason"]) for v in seen] == CLEAN, seen
    assert "items gained, 0 lost, p = " in seen[0]["seen"]


@pytest.mark.slow
def test_a_clean_run_was_compared_with_its_training_text(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    evidence = seal(gloo.run(tasks.trial(tmp_path, **SHORT), tmp_path / "runs").root)[1]["evidence"]["learning"]
    seen = evidence["learning.task.digits.overlap"]["value"]
    assert (seen["found"], seen["compared"] + seen["too_short"]) == (0, 41)
    assert seen["compared"] > 30


def test_items_that_were_trained_on(tmp_path: Path) -> None:
    """No plant at all: an honest run over a task whose items stand in the training text."""
    (tmp_path / "runs").mkdir()
    trial = tasks.trial(tmp_path, **SHORT)
    known = (tmp_path / "train.txt").read_text().splitlines()[:60]
    items = [
        {"prompt": "\n".join(known[n : n + 9]) + "\n" + known[n + 9][0], "answer": known[n + 9][1]} for n in range(40)
    ]
    (tmp_path / "digits.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    sealed = seal(gloo.run(trial, tmp_path / "runs").root)[1]
    assert sealed["verdicts"][0]["reason"] == "contaminated", sealed["verdicts"]
    assert sealed["verdicts"][0]["seen"] == "digits: 40 of 40 items (100%) stand in the training data"


@pytest.mark.parametrize(
    ("plant", "learns", "expected"),
    [lie if lie[0] is flattered else pytest.param(*lie, marks=pytest.mark.slow) for lie in LIES],
    ids=lambda v: getattr(v, "__name__", None),
)
def test_a_lie_costs_its_claims(plant: Any, learns: bool, expected: list[tuple[str, str]], tmp_path: Path) -> None:
    seen = verdicts(plant, tmp_path, **({} if learns else SHORT))
    assert [(v["verdict"], v["reason"]) for v in seen][: len(expected)] == expected, seen
