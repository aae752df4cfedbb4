"""A team's own script: what a trial may say of it, what its last words mean, what becomes of its environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from seatrial.driver.account import account
from seatrial.driver.script import _environment
from seatrial.driver.script_faults import advice, last_line
from seatrial.driver.watchdog import ScriptWatchdog
from seatrial.errors import InputError
from seatrial.events import Layout
from seatrial.events.schema import Roster
from seatrial.events.script import CheckpointFound, ScriptEnded, TrainAttempt
from seatrial.trial.loader import load
from seatrial.trial.workload import Timeout

pytestmark = pytest.mark.unit

TRIAL = """\
apiVersion: seatrial.io/v1alpha1
kind: Trial
metadata: {name: own}
scaling: {num_workers: 2}
workload:
  script: train.py
  args: [--steps, "3"]
claims:
  - {claim: execution.finished}
"""


def written(folder: Path, old: str = "", new: str = "") -> Path:
    assert old in TRIAL
    (folder / "t.yaml").write_text(TRIAL.replace(old, new, 1) if old else TRIAL)
    return folder / "t.yaml"


def test_a_script_is_found_beside_the_trial(tmp_path: Path) -> None:
    trial = load(written(tmp_path)).trial
    assert trial.team_script.script == str(tmp_path / "train.py")
    assert trial.team_script.args == ("--steps", "3")
    assert trial.from_resolved(json.dumps(trial.resolved())) == trial
    with pytest.raises(TypeError, match="not the built-in training"):
        _ = trial.training


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("  args:", "  arg:", "t.yaml:7:3: workload.arg: unknown key; did you mean args?"),
        ("  args: [--steps, \"3\"]", "  model: {name: x}",
         "t.yaml:7:3: workload.model: unknown key; expected one of script, args, env, steps, synthetic, measure, timeout"),
        ('"3"]', "3]", "t.yaml:7:19: workload.args.1: saw 3; expected text; put it in quotes"),
        ("  args: [--steps, \"3\"]", "  steps: 5",
         "t.yaml:6:3: workload.measure: saw 10; expected fewer than steps = 5: else the steady window is empty"),
        ("  args: [--steps, \"3\"]", "  env: {RAY_ADDRESS: auto}",
         "t.yaml:7:8: workload.env: sets RAY_ADDRESS; expected variables of the script only: seatrial sets this one itself"),
    ],
)  # fmt: skip
def test_what_a_trial_may_not_say_of_it(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        load(written(tmp_path, old, new))
    assert str(caught.value).replace(f"{tmp_path}/", "") == said


@pytest.mark.parametrize(
    ("tail", "said", "what"),
    [
        (["Traceback (most recent call last):", '  File "a.py"', "ValueError: no such column"], "ValueError: no such column", ""),
        (["(RayTrainWorker pid=7, ip=10.0.0.2) KeyError: 'x'", "2026-01-01 00:00:00,000 INFO worker.py:1 -- bye"], "KeyError: 'x'", ""),
        (["(RayTrainWorker pid=7) OSError: full", "RuntimeError: two of two"], "RuntimeError: two of two", ""),
        (["ModuleNotFoundError: No module named 'deepspeed'"], "ModuleNotFoundError: No module named 'deepspeed'",
         "a package of the script is not in the image: runtimeEnv.pip adds it"),
        (["seatrial.errors.RunError: observe() was entered twice"], "observe() was entered twice", ""),
        (["loading", "", "   indented"], "loading", ""),
        ([], "", ""),
    ],
)  # fmt: skip
def test_last_words(tail: list[str], said: str, what: str) -> None:
    assert last_line(tail) == said
    assert advice(tail) == what


def test_what_was_submitted_with_the_job_stays_in_its_environment() -> None:
    """Ray's job submission hands an entrypoint its runtime environment in a variable; a script's Ray job needs it too."""
    submitted = {
        "runtime_env": {"working_dir": "gcs://w.zip", "env_vars": {"A": "1", "B": "1"}},
        "metadata": {"x": "y"},
    }
    started = {"PATH": "/bin", "RAY_JOB_CONFIG_JSON_ENV_VAR": json.dumps(submitted)}
    made = _environment(started, "10.0.0.1:6379", {"B": "2", "C": "2"}, ["roman==5.0"])
    config = json.loads(made["RAY_JOB_CONFIG_JSON_ENV_VAR"])
    assert config["runtime_env"] == {
        "working_dir": "gcs://w.zip", "env_vars": {"A": "1", "B": "2", "C": "2"}, "pip": ["roman==5.0"],
    }  # fmt: skip
    assert config["metadata"] == {"x": "y"}
    assert (made["RAY_ADDRESS"], made["C"], made["PATH"]) == ("10.0.0.1:6379", "2", "/bin")


class Ended:
    """A script that has ended, as `account` sees it."""

    exit_code, said = 0, "done"

    def __init__(self, *attempts: TrainAttempt):
        self.attempts, self.seen = list(attempts), bool(attempts)

    @property
    def state(self) -> Ended:
        return self

    def changed(self) -> list[TrainAttempt]:
        return self.attempts


def attempt(**what: Any) -> TrainAttempt:
    told: dict[str, Any] = {
        "attempt": 1, "id": "a", "run": "r", "name": "mine", "run_status": "FINISHED", "status": "FINISHED",
        "detail": "", "storage": "", "backend": "gloo", "workers": [],
    }  # fmt: skip
    return TrainAttempt(**{**told, **what})


def test_the_account_of_a_silent_script(tmp_path: Path) -> None:
    """Its checkpoints are those that Ray Train's list names; one that is gone from the storage is empty."""
    storage = tmp_path / "results" / "mine"
    (storage / "checkpoint_1").mkdir(parents=True)
    (storage / "checkpoint_1" / "model.pt").write_bytes(b"x" * 10)
    listed = {"checkpoint_results": [{"checkpoint_dir_name": "checkpoint_0"}, {"checkpoint_dir_name": "checkpoint_1"}]}
    (storage / "checkpoint_manager_snapshot.json").write_text(json.dumps(listed))
    layout = Layout(tmp_path / "run")
    layout.make()
    events = list(account(Ended(attempt(storage=str(storage))), layout, 2))  # type: ignore[arg-type]
    (ended,) = (e for e in events if isinstance(e, ScriptEnded))
    assert (ended.exit_code, ended.observed, ended.state_seen) == (0, False, True)
    assert not any(isinstance(e, Roster) for e in events)
    assert [(e.files, e.bytes) for e in events if isinstance(e, CheckpointFound)] == [(0, "0"), (1, "10")]


def test_the_account_names_files_that_were_not_written(tmp_path: Path) -> None:
    """Rank 1 observed nothing, or its file is gone: it is on the roster all the same."""
    layout = Layout(tmp_path)
    layout.make()
    layout.process(1, "rank-0").parent.mkdir()
    layout.process(1, "rank-0").write_text("")
    (roster,) = (e for e in account(Ended(), layout, 2) if isinstance(e, Roster))  # type: ignore[arg-type]
    assert roster.files == ["events/a1/rank-0.jsonl", "events/a1/rank-1.jsonl"]


def test_a_script_that_does_not_observe_may_take_its_time(tmp_path: Path) -> None:
    """Until its ranks are there it is given `start`, and then no limit but the job's own."""
    layout = Layout(tmp_path)
    layout.make()
    limits = Timeout(start=1e-9, step=1e-9)
    watch = ScriptWatchdog(layout, 2, limits)
    expired = watch.check()
    assert expired is not None
    assert watch.explain(expired).startswith("no rank of the script was there within workload.timeout.start")
    watch.hear(attempt(workers=[{"rank": 0, "node": "n", "pid": 1}]))
    assert watch.check() is None
