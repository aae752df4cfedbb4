"""The examples, as their READMEs have them: copied out of the repository, run with `seatrial run`, verdicts compared."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")
pytest.importorskip("torch")

from seatrial.record import latest, read_record, verify
from tests.support.waiting import LIMIT_S

pytestmark = [pytest.mark.ray, pytest.mark.slow]
EXAMPLES = Path(__file__).parents[2] / "examples"
ROW = re.compile(r"^\| `([a-z_.]+)` \| (supported|refuted|not established)(?:, `([a-z-]+)`)? \|")


def promised(name: str) -> dict[str, tuple[str, str]]:
    """Verdict and reason by claim, from the table in the README."""
    rows = (ROW.match(line) for line in (EXAMPLES / name / "README.md").read_text().splitlines())
    return {row[1]: (row[2].replace(" ", "-"), row[3] or "") for row in rows if row}


def seatrial_run(name: str, folder: Path, *changes: tuple[str, str, str]) -> tuple[int, dict[str, Any]]:
    """Exit code and record of an example; `changes` are of its files: name, what stands there, what does instead."""
    shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("runs", "results"))
    for file, old, new in changes:
        text = (folder / file).read_text()
        assert old in text
        (folder / file).write_text(text.replace(old, new))
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "seatrial.cli.main", "run"]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    (root,) = (folder / "runs").glob("2*")
    assert verify(latest(root)).problems == [], done.stdout + done.stderr
    return done.returncode, read_record(latest(root))[0]


@pytest.mark.parametrize("name", ["plain-loop", "hf-trainer", "lightning", "aws-walkthrough"])
def test_an_example_does_what_its_readme_says(name: str, tmp_path: Path) -> None:
    code, record = seatrial_run(name, tmp_path / name)
    assert {v["claim"]: (v["verdict"], v["reason"]) for v in record["verdicts"]} == promised(name)
    assert code == 3


def wrapper(record: dict[str, Any]) -> str:
    return str(record["evidence"]["environment"]["environment.module"]["value"]["content"]["wrapper"])


def test_a_trainer_that_is_asked_for_fsdp_and_does_not_use_it(tmp_path: Path) -> None:
    _, record = seatrial_run("hf-trainer", tmp_path / "it", ("trial.yaml", "args: [", "args: [--fsdp, "))
    assert wrapper(record) == "DistributedDataParallel"


def test_a_trainer_that_evaluates_first_leaves_its_ranks_alone(tmp_path: Path) -> None:
    code, record = seatrial_run("hf-trainer", tmp_path / "it", ("trial.yaml", "args: [", "args: [--evaluate-first, "))
    assert code == 1
    seen = {v["claim"]: v for v in record["verdicts"]}
    assert seen["execution.completed"]["verdict"] == "supported"
    assert seen["execution.all_ranks_participated"]["verdict"] == "refuted"
    assert "no other rank's gradient" in seen["execution.all_ranks_participated"]["seen"]
    assert wrapper(record) == "none"


def test_a_sampler_that_is_left_out_gives_both_ranks_the_same_batches(tmp_path: Path) -> None:
    change = ("train.py", "logger=False,", "logger=False,\n        use_distributed_sampler=False,")
    code, record = seatrial_run("lightning", tmp_path / "it", change)
    seen = next(v for v in record["verdicts"] if v["claim"] == "execution.all_ranks_participated")
    assert (code, seen["verdict"], seen["reason"]) == (1, "refuted", "data")
