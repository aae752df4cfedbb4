"""`seatrial run` as a user calls it: a real command, a real driver, a real Ray, and real faults."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("ray")
pytest.importorskip("torch")

from seatrial.canon import parse
from seatrial.probe.processes import of_run
from tests.support.trials import PATIENT, TINY, quick
from tests.support.waiting import LIMIT_S, last_lines, output_of, wait_for

pytestmark = pytest.mark.ray

ENVIRONMENT = {**os.environ, "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2", "HF_HUB_OFFLINE": "1"}
SECRET = "hunter2-hunter2-hunter2"


class Command:
    """One `seatrial run` in a folder of its own."""

    def __init__(self, folder: Path, trial: dict[str, Any]):
        (folder / "trial.yaml").write_text(yaml.safe_dump(trial))
        command = [sys.executable, "-m", "seatrial.cli.main", "run"]
        self.process = subprocess.Popen(
            command, cwd=folder, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores Ctrl-C
        )  # fmt: skip
        self.runs = folder / "runs"

    def run_dir(self) -> Path | None:
        return next(iter(sorted(p for p in self.runs.glob("2*"))), None)

    def until(self, condition: Callable[[Path], Any], what: str) -> Any:
        """Waits for something in the run directory; returns it."""
        return wait_for(lambda: (root := self.run_dir()) and condition(root), what, self.told, self.process)

    def end(self) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        out, err = output_of(self.process, "seatrial run", self.told)
        return self.process.returncode, out, err

    def told(self) -> str:
        """What the command has said, if it has ended, the last events of each process, and the end of each log."""
        said = self.process.communicate() if self.process.poll() is not None else ("", "")
        events, logs = self.runs.glob("2*/events/**/*.jsonl"), self.runs.glob("2*/logs/**/*")
        return "\n".join([*said, last_lines(events, 2), last_lines(logs)])

    def record(self) -> dict[str, Any]:
        root = self.run_dir()
        assert root is not None
        record: dict[str, Any] = json.loads((root / "record.json").read_text())
        return record


def lines(path: Path) -> Iterator[dict[str, Any]]:
    if path.is_file():
        for line in path.read_bytes().split(b"\n")[:-1]:
            yield parse(line)


def rank_at_step(rank: int, step: int) -> Callable[[Path], int]:
    """The pid of a rank, once it has taken so many steps."""

    def reached(root: Path) -> int:
        events = list(lines(root / f"events/a1/rank-{rank}.jsonl"))
        return events[0]["pid"] if any(e["event"] == "step" and e["step"] >= step for e in events) else 0

    return reached


def trial(changes: dict[str, Any] | None = None, **workload: Any) -> dict[str, Any]:
    document = quick(changes, **workload).resolved()
    document.pop("storage")
    return document


def nothing_left(root: Path) -> None:
    assert list(of_run(root)) == []
    sessions = [p for p in Path("/tmp").glob("st-*") if p.is_dir() and any(root.name in str(x) for x in p.iterdir())]
    assert sessions == []


def verdicts(record: dict[str, Any]) -> dict[str, str]:
    return {v["claim"]: v["verdict"] for v in record["verdicts"]}


def cli(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "seatrial.cli.main", *arguments]
    return subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Command, int, str, str]:
    """One clean run, looked at by several tests."""
    folder = tmp_path_factory.mktemp("clean")
    claims = [*TINY["claims"], {"claim": "performance.tokens_per_second", "min": 1.0}]
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    command = Command(folder, trial({"runtimeEnv": {"env_vars": {"MY_API_TOKEN": SECRET}}, "claims": claims}))
    return folder, command, *command.end()


def test_a_clean_run_ends_with_supported_claims(clean: Any) -> None:
    folder, command, code, out, err = clean
    assert code == 0, (out, err)
    assert set(verdicts(command.record()).values()) == {"supported"}
    assert "using trial.yaml" in out
    assert "held-out before" in out
    assert "40/40" in out
    assert all(len(line) <= 100 for line in out.splitlines() if "record" not in line and "report" not in line), out
    assert "\x1b" not in out
    root = command.run_dir()
    assert root is not None
    nothing_left(root)
    assert (root / "report.html").stat().st_size < 1_000_000
    assert (folder / "runs/seals.jsonl").read_text().count("\n") == 1


def test_what_the_run_recorded(clean: Any) -> None:
    evidence = clean[1].record()["evidence"]
    assert evidence["performance"]["performance.peak_memory"]["state"] == "value"
    assert {"rank-0", "rank-1", "reload-0"} <= set(
        evidence["performance"]["performance.peak_memory"]["value"]["by_process"]
    )
    assert any("libtorch" in p for p in evidence["environment"]["environment.libraries"]["value"]["content"])
    assert evidence["environment"]["environment.image.ran"]["state"] == "unknown"
    assert evidence["environment"]["environment.runtime_env"]["value"] == {"same_everywhere": True, "delta": {}}
    assert evidence["environment"]["environment.ray"]["value"]["content"]["ray"].startswith("2.58")
    # A repository without a commit: unknown, not clean.
    assert "git could not tell" in evidence["environment"]["environment.code"]["reason"]
    assert evidence["performance"]["performance.window_by_probe"]["state"] == "value"
    pids = {member["pid"] for member in evidence["execution"]["execution.roster"]["value"]}
    assert len(pids) == 5  # 2 ranks, 2 reloads, 1 probe


def test_the_record_verifies_until_a_byte_changes(clean: Any) -> None:
    folder, command, *_ = clean
    root = command.run_dir()
    digest = json.loads((folder / "runs/seals.jsonl").read_text())["record"]
    assert cli(folder, "verify", "last", "--deep", "--expect", digest).returncode == 0
    target = root / "events/a1/rank-0.jsonl"
    data = bytearray(target.read_bytes())
    data[500] ^= 1
    target.write_bytes(data)
    changed = cli(folder, "verify", root.name[:12])
    data[500] ^= 1
    target.write_bytes(data)
    assert changed.returncode == 1
    assert "events/a1/rank-0.jsonl: changed" in changed.stdout
    assert cli(folder, "verify").returncode == 0


def test_show_and_judge_again(clean: Any) -> None:
    folder, command, *_ = clean
    shown = cli(folder, "show", "--json", "--exit-code")
    document = json.loads(shown.stdout)
    assert shown.returncode == 0
    assert set(document) >= {"record", "trial", "verdicts", "evidence"}
    again = cli(folder, "judge", "last", "--json")
    newer = json.loads(again.stdout)
    assert again.returncode == 0
    assert newer["verdicts"] == document["verdicts"]
    assert json.loads((command.run_dir() / "record.2.json").read_text())["cites"] == document["record"]
    assert cli(folder, "verify").returncode == 0


def test_no_secret_is_on_disk(clean: Any) -> None:
    folder = clean[0]
    (folder / "trial.yaml").unlink()  # the user's own file is the one place that has it
    holding = [p for p in folder.rglob("*") if p.is_file() and SECRET.encode() in p.read_bytes()]
    assert holding == []


def test_a_killed_worker(tmp_path: Path) -> None:
    command = Command(tmp_path, trial(steps=400, checkpoint={"every": 200}))
    os.kill(command.until(rank_at_step(1, 5), "step 5 of rank 1"), signal.SIGKILL)
    code, out, err = command.end()
    record = command.record()
    assert code == 4, (out, err)
    assert verdicts(record)["execution.completed"] == "refuted"
    assert "supported" not in verdicts(record).values()
    assert "rank-1.jsonl ended without a word" in record["ended_early"]
    assert "ended early" in out
    nothing_left(command.run_dir())
    assert cli(tmp_path, "verify").returncode == 0
    assert (command.run_dir() / "logs/ray").is_dir()


@pytest.mark.slow
def test_a_worker_that_hangs(tmp_path: Path) -> None:
    command = Command(tmp_path, trial(steps=400, checkpoint={"every": 200}, timeout={**PATIENT, "step": 4}))
    os.kill(command.until(rank_at_step(1, 5), "step 5 of rank 1"), signal.SIGSTOP)
    code, out, err = command.end()
    record = command.record()
    assert code == 4, (out, err)
    assert "workload.timeout.step = 4 s" in record["ended_early"]
    assert verdicts(record)["execution.completed"] == "refuted"
    assert (command.run_dir() / "logs/stack-rank-0.txt").stat().st_size > 0
    nothing_left(command.run_dir())


@pytest.mark.parametrize("asked", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_ctrl_c_seals(asked: signal.Signals, tmp_path: Path) -> None:
    command = Command(tmp_path, trial(steps=400, checkpoint={"every": 200}))
    if asked == signal.SIGINT:
        command.until(rank_at_step(0, 5), "step 5 of rank 0")
    else:
        command.until(lambda root: list(root.glob("events/a1/probe-*")), "a probe")
    command.process.send_signal(asked)
    code, out, err = command.end()
    assert code == 4, (out, err)
    assert "interrupted" in command.record()["ended_early"]
    nothing_left(command.run_dir())


@pytest.mark.slow
def test_a_driver_that_is_killed_is_sealed_by_the_command(tmp_path: Path) -> None:
    command = Command(tmp_path, trial())
    pid = command.until(lambda root: next((e["pid"] for e in lines(root / "events/driver.jsonl")), 0), "the driver")
    command.until(lambda root: list((root / "events/a1").glob("probe-*.jsonl")), "a probe")
    os.kill(pid, signal.SIGKILL)
    code, out, err = command.end()
    record = command.record()
    assert code == 4, (out, err)
    assert set(verdicts(record).values()) == {"not-established"}
    nothing_left(command.run_dir())
    assert cli(tmp_path, "verify").returncode == 0


@pytest.mark.slow
def test_a_model_that_does_not_load(tmp_path: Path) -> None:
    document = trial()
    document["workload"]["model"]["config"]["model_type"] = "qwen2000"
    command = Command(tmp_path, document)
    code, out, err = command.end()
    assert code == 4, (out, err)
    assert "qwen2000" in command.record()["ended_early"]
    assert "Traceback" not in out + err
    nothing_left(command.run_dir())
