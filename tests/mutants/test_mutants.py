"""Every planted lie must cost the claim that it is about; the clean run must keep them all."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from seatrial.record import seal
from tests.mutants import plants
from tests.support import gloo
from tests.support.trials import quick

pytestmark = pytest.mark.dist

COMPLETED, RANKS, RELOADS = "execution.completed", "execution.all_ranks_participated", "recovery.checkpoint_reloads"
LEARNING = "learning.heldout.bits_per_byte"

# plant, claim that it is about, verdict, reason, and words that must stand in what was seen
LIES: list[tuple[Any, str, str, str, str]] = [
    (plants.frozen_blocks, COMPLETED, "refuted", "updates", "never changed"),
    (plants.starved_blocks, COMPLETED, "refuted", "updates", "never received a gradient"),
    (plants.learning_rate_zero, COMPLETED, "refuted", "schedule", "off the learning-rate schedule"),
    (plants.rate_at_a_tenth, COMPLETED, "refuted", "schedule", "off the learning-rate schedule"),
    (plants.learning_rate_zero, LEARNING, "refuted", "value", "needed"),
    (plants.wrong_schedule, COMPLETED, "refuted", "schedule", "off the learning-rate schedule"),
    (plants.shuffled_labels, LEARNING, "refuted", "value", "needed"),
    (plants.heldout_in_train, LEARNING, "not-established", "contaminated", "stand in the training data"),
    (plants.heldout_fetched, LEARNING, "not-established", "contradiction", "compared with held-out"),
    (plants.swapped_parts, RANKS, "refuted", "data", "did not read its own part"),
    (plants.stale_weights_saved, RELOADS, "refuted", "different", "does not hold what was trained"),
    (plants.same_batch_for_ever, COMPLETED, "refuted", "data", "first difference at step 2"),
    (plants.restarted_data, COMPLETED, "refuted", "data", "first difference at step 21"),
    (plants.same_shard, COMPLETED, "refuted", "data", "first difference at step 1"),
    (plants.same_shard, RANKS, "refuted", "data", "own part of the data"),
    (plants.silent_rank, RANKS, "refuted", "gradients", "rank 1: this rank's share is zero"),
    (plants.skipped_updates, COMPLETED, "refuted", "updates", "the optimizer counts"),
    (plants.lost_micro_batch, RANKS, "refuted", "gradients", "the reduced gradient is off"),
    (plants.moment_not_saved, RELOADS, "refuted", "missing", "exp_avg_sq"),
    (plants.stale_cursor, RELOADS, "refuted", "step", "was reloaded"),
    (plants.flattering_evaluation, LEARNING, "not-established", "contradiction", "the reload processes"),
    (plants.easy_baseline, LEARNING, "not-established", "unknown", "the reload"),
    (plants.diverged, LEARNING, "refuted", "non-finite", "NaN"),
    (plants.diverged, RANKS, "not-established", "unclear", "not finite"),
]
# At least one for each kind of evidence is in every test run; the others are in `make slow`.
ALWAYS = {
    plants.frozen_blocks, plants.shuffled_labels, plants.heldout_in_train, plants.stale_weights_saved, plants.restarted_data,
    plants.same_shard, plants.silent_rank, plants.skipped_updates, plants.flattering_evaluation,
}  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Sealed records by plant; a plant that two claims are about runs once."""
    return {}


def record(
    plant: Any, runs: dict[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory, **workload: Any
) -> dict[str, Any]:
    name = f"{plant.__name__}{workload or ''}"
    if name not in runs:
        layout = gloo.run(quick(**workload), tmp_path_factory.mktemp("runs"), plant)
        runs[name] = {**seal(layout.root)[1], "root": layout.root}
    return runs[name]


def verdict(record: dict[str, Any], claim: str) -> dict[str, Any]:
    return next(v for v in record["verdicts"] if v["claim"] == claim)


@pytest.mark.parametrize("strategy", ["fsdp", "ddp"])
def test_a_clean_run_keeps_every_claim(strategy: str, runs: Any, tmp_path_factory: Any) -> None:
    sealed = record(plants.nothing, runs, tmp_path_factory, strategy=strategy)
    assert [v["verdict"] for v in sealed["verdicts"]] == ["supported"] * 4, sealed["verdicts"]
    assert sealed["exit_code"] == 0


@pytest.mark.parametrize(
    ("plant", "claim", "expected", "reason", "words"),
    [lie if lie[0] in ALWAYS else pytest.param(*lie, marks=pytest.mark.slow) for lie in LIES],
    ids=lambda v: getattr(v, "__name__", None),
)
def test_a_lie_costs_its_claim(
    plant: Any, claim: str, expected: str, reason: str, words: str, runs: Any, tmp_path_factory: Any
) -> None:
    seen = verdict(record(plant, runs, tmp_path_factory), claim)
    assert (seen["verdict"], seen["reason"]) == (expected, reason), seen
    assert words in seen["seen"]


@pytest.mark.slow
def test_replicas_that_drift_apart(runs: Any, tmp_path_factory: Any) -> None:
    seen = verdict(record(plants.replicas_apart, runs, tmp_path_factory, strategy="ddp"), RANKS)
    assert seen["verdict"] == "refuted", seen


@pytest.mark.slow
def test_a_base_that_is_made_to_look_bad(tmp_path: Path) -> None:
    claims = [{"claim": "learning.heldout.loss", "improves_by": 3.0, "over": "base"}]
    sealed = seal(gloo.run(quick({"claims": claims}), tmp_path, plants.gloomy_base).root)[1]
    assert sealed["verdicts"][0]["reason"] == "contradiction", sealed["verdicts"]


@pytest.mark.slow
def test_heldout_that_the_user_took_from_train(tmp_path: Path) -> None:
    """No plant at all: an honest run over a dishonest split."""
    text = "\n".join(f"line {n}: the quick brown fox number {n * 7919 % 1009} jumps over {n * n}" for n in range(3000))
    (tmp_path / "train.txt").write_text(text)
    (tmp_path / "heldout.txt").write_text(text[50_000:70_000])
    data = {"train": str(tmp_path / "train.txt"), "heldout": str(tmp_path / "heldout.txt"), "heldout_windows": 16}
    sealed = seal(gloo.run(quick(data=data), tmp_path / "runs").root)[1]
    assert verdict(sealed, COMPLETED)["verdict"] == "supported"
    assert verdict(sealed, LEARNING)["reason"] == "contaminated"


def test_random_tokens_never_support_learning(tmp_path: Path) -> None:
    sealed = seal(gloo.run(quick(data={"synthetic": "random-tokens"}), tmp_path).root)[1]
    assert verdict(sealed, LEARNING)["reason"] == "synthetic-data"
    assert [v["verdict"] for v in sealed["verdicts"]] == ["supported"] * 3 + ["not-established"]
    assert sealed["exit_code"] == 3


def test_claims_loosened_after_the_start(runs: Any, tmp_path_factory: Any, tmp_path: Path) -> None:
    root = _copy(record(plants.nothing, runs, tmp_path_factory, strategy="fsdp"), tmp_path)
    claims = json.loads((root / "claims.json").read_text())
    claims["claims"][3] = {"claim": LEARNING, "max": 9.0}
    (root / "claims.json").write_text(json.dumps(claims))
    sealed = seal(root)[1]
    assert {(v["verdict"], v["reason"]) for v in sealed["verdicts"]} == {("not-established", "void")}


@pytest.mark.parametrize("place", ["instead of its own", "beside its own"])
def test_an_event_file_of_another_run(place: str, runs: Any, tmp_path_factory: Any, tmp_path: Path) -> None:
    clean = record(plants.nothing, runs, tmp_path_factory, strategy="fsdp")
    other = record(plants.nothing, runs, tmp_path_factory, strategy="ddp")
    root = _copy(clean, tmp_path)
    target = "rank-1.jsonl" if place == "instead of its own" else "rank-7.jsonl"
    shutil.copy(other["root"] / "events/a1/rank-1.jsonl", root / "events/a1" / target)
    sealed = seal(root)[1]
    if place == "instead of its own":
        assert verdict(sealed, COMPLETED)["verdict"] == "not-established"
        assert "void" in verdict(sealed, COMPLETED)["reason"] or "foreign" in verdict(sealed, COMPLETED)["seen"]
    else:
        assert sealed["evidence"]["execution"]["execution.refused_files"]["value"] == ["events/a1/rank-7.jsonl"]


def test_two_ranks_whose_files_were_exchanged(runs: Any, tmp_path_factory: Any, tmp_path: Path) -> None:
    root = _copy(record(plants.nothing, runs, tmp_path_factory, strategy="fsdp"), tmp_path)
    first, second = (root / f"events/a1/rank-{n}.jsonl" for n in (0, 1))
    kept = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(kept)
    assert {v["verdict"] for v in seal(root)[1]["verdicts"]} == {"not-established"}


def _copy(sealed: dict[str, Any], to: Path) -> Path:
    root = to / Path(sealed["root"]).name
    shutil.copytree(sealed["root"], root, ignore=shutil.ignore_patterns("record*", "*.distcp"))
    return root
