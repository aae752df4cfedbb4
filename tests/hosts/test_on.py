"""`seatrial run --on` against a cluster with token authentication, from a machine that is no part of it."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from seatrial.errors import EXIT_ENDED_EARLY, EXIT_INPUT, EXIT_NOT_ESTABLISHED, EXIT_OK
from seatrial.probe.processes import PROC
from tests.hosts.conftest import Cluster
from tests.hosts.machines import Host
from tests.support.trials import PATIENT, quick
from tests.support.waiting import last_lines, output_of, wait_for

pytestmark = pytest.mark.hosts

CLAIMS = ("execution.completed", "execution.all_ranks_participated", "recovery.checkpoint_reloads")


@dataclass(frozen=True)
class Laptop:
    """Where the client runs: it sees the cluster's dashboard, and not its storage unless told otherwise."""

    host: Host
    cluster: Cluster

    @property
    def address(self) -> str:
        return f"http://{self.cluster.head.address}:8265"

    @property
    def token(self) -> str:
        return (self.cluster.head.home / ".ray" / "auth_token").read_text().strip()

    def trial(self, name: str, **workload: Any) -> Path:
        """A trial of two ranks that stores below the cluster's storage."""
        sections = {
            "metadata": {"name": name},
            "storage": {"path": str(self.cluster.storage / name)},
            "claims": [{"claim": claim} for claim in CLAIMS],
        }
        path = self.host.home / f"{name}.yaml"
        path.write_text(json.dumps(quick(sections, **workload).resolved()))
        return path

    def seatrial(self, *words: str, mounted: bool = False, **environment: str) -> subprocess.CompletedProcess[str]:
        """One command to its end; stderr is in stdout. Ray's own switch is off: the client finds out by itself."""
        hide = "" if mounted else f"mount -t tmpfs none {shlex.quote(str(self.cluster.storage))}; "
        given = {"no_proxy": "*", "RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": self.token, **environment}
        process = self.host.start("sh", "-c", f"{hide}exec seatrial {shlex.join(words)}", **given)
        said, _ = output_of(process, shlex.join(("seatrial", *words)), self.cluster.told)
        return subprocess.CompletedProcess(words, process.returncode, said)

    def submit(self, name: str, **workload: Any) -> str:
        """Submits, detached; the run's id."""
        done = self.seatrial("run", str(self.trial(name, **workload)), "--on", self.address, "--detach", "--json")
        assert done.returncode == EXIT_OK, done.stdout
        run: str = json.loads(done.stdout)["run"]
        return run

    def stepping(self, name: str) -> Path:
        """The directory of a run whose ranks have made a step."""
        runs, told = self.cluster.storage / name, self.cluster.told
        root: Path = wait_for(lambda: next(runs.glob("2*"), None), f"a run directory of {name}", told)
        ranks = [root / f"events/a1/rank-{rank}.jsonl" for rank in (0, 1)]
        wait_for(
            lambda: all(rank.is_file() and '"event":"step"' in rank.read_text() for rank in ranks),
            f"a step of each rank of {name}",
            lambda: last_lines(root.glob("events/**/*.jsonl"), 1) + told(),
        )
        return root


@pytest.fixture(scope="module")
def laptop(outsider: Host, shown: Cluster) -> Laptop:
    return Laptop(outsider, shown)


@dataclass(frozen=True)
class Attached:
    """A run that was submitted, left alone, and attached to: its id, what `attach` said, where its record came home."""

    run: str
    done: subprocess.CompletedProcess[str]
    home: Path
    storage: Path

    @property
    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.home / "record.json").read_text())
        return found


@pytest.fixture(scope="module")
def foreign(laptop: Laptop) -> Attached:
    """A team's own script, which knows nothing of this project."""
    project, storage = laptop.host.home / "project", laptop.cluster.storage / "own"
    project.mkdir()
    storage.mkdir()
    shutil.copy(Path(__file__).parents[1] / "support" / "foreign_train.py", project / "train.py")
    trial = {
        "apiVersion": "seatrial.io/v1alpha1",
        "kind": "Trial",
        "metadata": {"name": "own"},
        "storage": {"path": str(storage / "runs")},
        "scaling": {"num_workers": 2},
        "workload": {
            "script": "train.py",
            "args": ["100000", "0.1", str(storage), "2"],
            "timeout": PATIENT,
            "env": {"GLOO_SOCKET_IFNAME": "eth0"},
        },
        "claims": [
            {"claim": "execution.finished"},
            {"claim": "transport.internode", "equals": "tcp"},
            {"claim": "learning.heldout.loss", "improves_by": 0.1, "over": "base"},
        ],
    }
    (project / "trial.yaml").write_text(json.dumps(trial))
    done = laptop.seatrial("run", str(project / "trial.yaml"), "--on", laptop.address, "--detach", "--json")
    assert done.returncode == EXIT_OK, done.stdout
    wait_for(
        lambda: looks_at_connections(storage / "runs") >= 3,
        "three looks at the ranks' connections on each of two hosts",
        lambda: last_lines(storage.glob("runs/2*/events/**/*.jsonl"), 1) + laptop.cluster.told(),
    )
    (storage / "enough").touch()
    return _attached(laptop, json.loads(done.stdout)["run"], storage / "runs")


def looks_at_connections(runs: Path) -> int:
    """How often the probes of two hosts have each seen what a connection of their ranks has sent."""
    probes = (path.read_text() for path in runs.glob("2*/events/a1/probe-*.jsonl"))
    looks = sorted(len(re.findall(r'"carried":\{"rank-\d+":\[\[', text)) for text in probes)
    return looks[-2] if len(looks) > 1 else 0


def _attached(laptop: Laptop, run: str, storage: Path) -> Attached:
    done = laptop.seatrial("attach", run.removeprefix("seatrial-"))
    (root,) = storage.glob("2*")
    return Attached(run, done, laptop.host.home / "runs" / root.name, root)


@pytest.mark.parametrize(("token", "said"), [("", "asks for a token"), ("0" * 64, "does not take the token")])
def test_a_token_that_is_missing_or_wrong_is_one_line(laptop: Laptop, token: str, said: str) -> None:
    done = laptop.seatrial("run", str(laptop.trial("refused")), "--on", laptop.address, RAY_AUTH_TOKEN=token)
    assert done.returncode == EXIT_INPUT
    (line,) = done.stdout.splitlines()
    assert said in line


def test_a_script_runs_unchanged_is_left_and_attached(laptop: Laptop, foreign: Attached) -> None:
    assert foreign.done.returncode == EXIT_NOT_ESTABLISHED, foreign.done.stdout
    assert "seatrial-record" not in foreign.done.stdout
    said = {v["claim"]: (v["verdict"], v["seen"]) for v in foreign.record["verdicts"]}
    assert said["execution.finished"][0] == "supported", said
    assert said["transport.internode"][0] == "supported", said
    assert said["learning.heldout.loss"][0] == "not-established"
    assert "from seatrial import observe" in said["learning.heldout.loss"][1]  # the line that would establish it


def test_the_record_came_home_through_the_log(laptop: Laptop, foreign: Attached) -> None:
    verified = laptop.seatrial("verify", str(foreign.home))
    assert verified.returncode == EXIT_OK, verified.stdout
    assert (foreign.home / "report.html").is_file()
    assert len(list(foreign.home.glob("events/a1/probe-*.jsonl"))) == 3


def test_mounted_storage_is_read_where_it_lies(laptop: Laptop, foreign: Attached) -> None:
    done = laptop.seatrial("collect", foreign.run, "--json", mounted=True)
    assert done.returncode == EXIT_NOT_ESTABLISHED, done.stdout
    assert json.loads(done.stdout)["run"] == foreign.storage.name
    copied = laptop.seatrial("collect", foreign.run, "--to", str(laptop.host.home / "copy"), mounted=True)
    assert copied.returncode == EXIT_NOT_ESTABLISHED, copied.stdout
    copy = laptop.host.home / "copy" / foreign.storage.name / "record.json"
    assert copy.read_bytes() == (foreign.storage / "record.json").read_bytes()


def test_neither_token_nor_home_is_in_what_the_cluster_shows(laptop: Laptop, foreign: Attached) -> None:
    note = json.loads((laptop.host.home / f".local/state/seatrial/runs/{foreign.run}.json").read_text())
    assert note["address"] == laptop.address
    assert laptop.token not in json.dumps(note)
    files = [p for p in foreign.storage.rglob("*") if p.is_file()]
    assert [p for p in files if laptop.token.encode() in p.read_bytes()] == []


@pytest.mark.slow
def test_seatrial_s_own_training_runs_there_too(laptop: Laptop) -> None:
    run = laptop.submit("whole", steps=12, checkpoint={"every": 6})
    whole = _attached(laptop, run, laptop.cluster.storage / "whole")
    assert whole.done.returncode == EXIT_OK, whole.done.stdout
    assert "step 12/12" in whole.done.stdout
    assert "stayed on the cluster" in laptop.seatrial("verify", str(whole.home)).stdout  # the checkpoint, by name
    assert {v["claim"]: v["verdict"] for v in whole.record["verdicts"]} == dict.fromkeys(CLAIMS, "supported")
    assert whole.record["evidence"]["environment"]["environment.seatrial"]["value"]["same_everywhere"]


@pytest.mark.slow
def test_a_run_that_is_stopped_seals_first(laptop: Laptop) -> None:
    run = laptop.submit("endless", steps=100_000)
    root = laptop.stepping("endless")
    early = laptop.seatrial("collect", run)
    assert (early.returncode, "has not ended" in early.stdout) == (EXIT_INPUT, True)
    stopped = laptop.seatrial("stop", run)
    assert stopped.returncode == EXIT_OK, stopped.stdout
    assert f"sealed {root}/record.json" in stopped.stdout
    collected = laptop.seatrial("collect", run, "--json")
    assert collected.returncode == EXIT_ENDED_EARLY
    document, _ = json.JSONDecoder().raw_decode(collected.stdout)  # what stayed behind is said after it, on stderr
    assert "stopped on request" in document["ended_early"]


@pytest.mark.slow
def test_a_driver_that_is_killed_is_delivered_by_its_guard(laptop: Laptop) -> None:
    run = laptop.submit("killed", steps=100_000)
    laptop.stepping("killed")
    (driver,) = (
        pid for pid in laptop.cluster.head.pids()
        if b"seatrial.driver\0--trial" in (PROC / str(pid) / "cmdline").read_bytes()
    )  # fmt: skip
    os.kill(driver, signal.SIGKILL)
    collected = wait_for(
        lambda: (done := laptop.seatrial("collect", run)).returncode != EXIT_INPUT and done,
        "a record to collect",
        laptop.cluster.told,
    )
    assert collected.returncode == EXIT_ENDED_EARLY, collected.stdout
    assert "execution.completed" in collected.stdout
