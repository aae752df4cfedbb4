"""A team's own script under `seatrial run`: a real driver, a real private Ray, and a script that knows of neither."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("ray")
pytest.importorskip("torch")

from seatrial.probe.processes import of_run
from seatrial.record import latest, read_record, verify
from tests.support.waiting import LIMIT_S

pytestmark = pytest.mark.ray

ENVIRONMENT = {**os.environ, "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2", "HF_HUB_OFFLINE": "1"}
TOKEN = "hunter2-hunter2-hunter2"

# Rank 1 fails once; Ray Train starts both ranks again, and then they come to the end.
FAILS_ONCE = """
import argparse, os, pathlib, tempfile, time
import torch, ray.train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from seatrial import observe

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
given = parser.parse_args()
print("the token is", os.environ["MY_API_TOKEN"])


def train(config):
    rank = ray.train.get_context().get_world_rank()
    model = prepare_model(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.LayerNorm(64)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = torch.Generator().manual_seed(rank)
    batches = [{"input_ids": torch.randint(0, 50, (4, 64), generator=rows) ** 2 // 50} for _ in range(config["steps"])]
    once = pathlib.Path(config["folder"], "failed-once")
    with observe(model, optimizer) as trial:
        for step, batch in enumerate(trial.batches(batches), start=1):
            loss = model(batch["input_ids"].float() / 50).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            trial.step(loss=loss)
            time.sleep(0.12)
            if rank == 1 and step == 6 and not once.exists():
                once.touch()
                raise RuntimeError("a planted failure")
    with tempfile.TemporaryDirectory() as folder:
        if rank == 0:
            torch.save(model.state_dict(), folder + "/model.pt")
        ray.train.report({"loss": loss.item()}, checkpoint=Checkpoint.from_directory(folder))


TorchTrainer(
    train,
    train_loop_config={"steps": given.steps, "folder": os.getcwd()},
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(
        name="mine", storage_path=os.path.abspath("results"), failure_config=FailureConfig(max_failures=1)
    ),
).fit()
"""
NOTHING = "print('there is nothing to train')\n"
OWN_RAY = "import ray, time\nray.init(address='local', num_cpus=1)\ntime.sleep(120)\n"
RESOURCES = "import ray\nray.init(num_cpus=2)\n"
IN_THE_SCRIPT = "from seatrial import observe\nwith observe() as trial:\n    pass\n"
MISSING = "import no_such_package\n"


def seatrial_run(
    folder: Path, script: str, claims: list[dict[str, Any]], **work: Any
) -> tuple[int, str, dict[str, Any]]:
    """Exit code, output and record of one run."""
    (folder / "train.py").write_text(script)
    trial = {
        "apiVersion": "seatrial.io/v1alpha1",
        "kind": "Trial",
        "metadata": {"name": "own"},
        "storage": {"path": "runs"},
        "scaling": {"num_workers": 2},
        "runtimeEnv": {"env_vars": {"MY_API_TOKEN": TOKEN}},
        "workload": {"script": "train.py", **work},
        "claims": claims,
    }
    (folder / "trial.yaml").write_text(yaml.safe_dump(trial))
    command = [sys.executable, "-m", "seatrial.cli.main", "run"]
    done = subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    (root,) = (folder / "runs").glob("2*")
    assert verify(latest(root)).problems == []
    assert list(of_run(root)) == []
    return done.returncode, done.stdout + done.stderr, read_record(latest(root))[0]


def test_a_script_that_ray_train_starts_again(tmp_path: Path) -> None:
    """Attempts are kept apart, what ranks tell is believed, what the script prints is kept without its secret."""
    claims: list[dict[str, Any]] = [
        {"claim": "execution.finished"},
        {"claim": "execution.completed"},
        {"claim": "execution.all_ranks_participated"},
        {"claim": "performance.step_time_p95", "max": 60.0},
        {"claim": "learning.heldout.loss", "improves_by": 0.1, "over": "base"},
        {"claim": "recovery.checkpoint_reloads"},
    ]
    code, said, record = seatrial_run(
        tmp_path, FAILS_ONCE, claims, args=["--steps", "70"], steps=70, measure={"warmup_steps": 20}
    )
    found = {v["claim"]: (v["verdict"], v["reason"]) for v in record["verdicts"]}
    assert found == {
        "execution.finished": ("supported", ""),
        "execution.completed": ("supported", ""),
        "execution.all_ranks_participated": ("supported", ""),
        "performance.step_time_p95": ("supported", ""),
        "learning.heldout.loss": ("not-established", "unknown"),
        "recovery.checkpoint_reloads": ("not-established", "not-run"),
    }, said
    assert code == 3
    facts = record["evidence"]["execution"]
    runs = facts["execution.train_runs"]["value"]
    assert [run["status"] for run in runs] == ["ERRORED", "FINISHED"]
    assert "a planted failure" in runs[0]["detail"]
    assert {member["attempt"] for member in facts["execution.roster"]["value"] if member["role"] == "rank"} == {2}
    assert "execution.refused_files" not in facts
    (kept,) = record["evidence"]["recovery"]["recovery.checkpoints"]["value"]
    assert int(kept["bytes"]) > 16_000
    module = record["evidence"]["environment"]["environment.module"]["value"]["content"]
    assert "DistributedDataParallel" in str(module)
    log = next(tmp_path.glob("runs/*/logs/script.log")).read_text()
    assert "the token is" in log
    assert not [
        path for path in tmp_path.glob("runs/**/*") if path.is_file() and TOKEN in path.read_text(errors="ignore")
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "cause"),
    [
        (NOTHING, "train.py ended with 0 and trained nothing: Ray Train saw no run; expected a script that calls fit()"),
        (OWN_RAY, "train.py started a Ray of its own (gcs_server"),
        (RESOURCES, "under seatrial Ray runs already: call ray.init() without arguments, or not at all"),
        (IN_THE_SCRIPT, "observe() was called in the script, not in a worker"),
        (MISSING, "train.py ended with 1: ModuleNotFoundError: No module named 'no_such_package'; a package of the script"),
    ],
)  # fmt: skip
def test_a_script_that_cannot_be_a_trial(tmp_path: Path, script: str, cause: str) -> None:
    code, said, record = seatrial_run(tmp_path, script, [{"claim": "execution.finished"}])
    assert code == 4, said
    assert cause in record["ended_early"]
    assert record["verdicts"][0]["verdict"] == "refuted"
