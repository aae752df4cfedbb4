"""Full-size runs, `make slow`: the built-in trial, a transformer that never learns, packages added at submission."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")
pytest.importorskip("torch")

from seatrial.driver.finish import seal_run
from seatrial.trial import Trial
from seatrial.trial.loader import builtin
from tests.mutants import plants
from tests.ray.test_run import Command, trial, verdicts
from tests.support import gloo

pytestmark = [pytest.mark.ray, pytest.mark.slow]


def local(**workload: Any) -> dict[str, Any]:
    document = builtin("local").trial.resolved()
    document.pop("storage")
    document["workload"] |= workload
    return document


def test_the_built_in_trial_is_supported(tmp_path: Path) -> None:
    command = Command(tmp_path, local())
    code, out, err = command.end()
    assert code == 0, (out, err)
    assert set(verdicts(command.record()).values()) == {"supported"}
    memory = command.record()["evidence"]["performance"]["performance.peak_memory"]["value"]
    assert int(memory["resident_at_once"]) < 6 << 30


def test_the_built_in_trial_on_random_tokens(tmp_path: Path) -> None:
    command = Command(tmp_path, local(data={"synthetic": "random-tokens"}, steps=40))
    code, out, err = command.end()
    assert code == 3, (out, err)
    assert verdicts(command.record())["learning.heldout.bits_per_byte"] == "not-established"


@pytest.mark.parametrize("plant", [plants.frozen_blocks, plants.shuffled_labels])
def test_a_dead_transformer_does_not_pass_the_built_in_claim(plant: Any, tmp_path: Path) -> None:
    asked = Trial.model_validate_json(json.dumps(local()))
    record = seal_run(gloo.run(asked, tmp_path, plant))[1]
    seen = next(v for v in record["verdicts"] if v["claim"] == "learning.heldout.bits_per_byte")
    assert seen["verdict"] != "supported", seen
    # Whether or not the checkpoint could be scored again, the score itself must not be one that passes.
    after = record["evidence"]["learning"]["learning.heldout.bits_per_byte.after"]["value"]
    assert after > 3.61 - 0.4  # what a bigram table reaches on this corpus, less what is claimed


def test_packages_added_at_submission(tmp_path: Path) -> None:
    command = Command(tmp_path, trial({"runtimeEnv": {"pip": ["roman==5.0"]}}))
    code, out, err = command.end()
    assert code == 0, (out, err)
    delta = command.record()["evidence"]["environment"]["environment.runtime_env"]["value"]
    assert delta["same_everywhere"] is True
    assert delta["delta"]["roman"][0] is None
    assert delta["delta"]["roman"][1].startswith("5.0")
