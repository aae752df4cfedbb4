"""`seatrial inspect` of a training that this project did not start: two hosts, gloo, from outside the cluster."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from seatrial.errors import EXIT_ENDED_EARLY, EXIT_INPUT, EXIT_NOT_ESTABLISHED, EXIT_OK
from seatrial.record import verify
from tests.hosts.conftest import Cluster
from tests.hosts.machines import Host
from tests.support.foreign_train import GRADIENT_BYTES
from tests.support.waiting import last_lines, output_of, wait_for

pytestmark = pytest.mark.hosts

SCRIPT = Path(__file__).parents[1] / "support" / "foreign_train.py"
PAUSE_S, WINDOW_S = 0.1, 8
CLAIMS = """
claims:
  - {claim: execution.completed}
  - {claim: transport.internode, equals: tcp}
  - {claim: transport.gpudirect, equals: true}
  - {claim: learning.heldout.loss, improves_by: 0.1, over: base}
  - {claim: environment.hosts_agree}
"""


@dataclass(frozen=True)
class Laptop:
    """Where the client runs: on the network, no part of the cluster."""

    host: Host
    cluster: Cluster

    @property
    def token(self) -> str:
        return (self.cluster.head.home / ".ray" / "auth_token").read_text().strip()

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        given = {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": self.token, **environment}
        command = ["seatrial", "inspect", "--address", f"http://{self.cluster.head.address}:8265", *words]
        return self.host.start("sh", "-c", f"exec {shlex.join(command)} 2>said", **given)

    def inspect(self, *words: str, **environment: str) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        process = self.start(*words, **environment)
        out = self.output_of(process)
        return process.returncode, out, self.said()

    def output_of(self, process: subprocess.Popen[str]) -> str:
        """The stdout of `seatrial inspect` until its end."""
        return output_of(process, "seatrial inspect", lambda: self.said() + self.cluster.told())[0]

    def said(self) -> str:
        return (self.host.home / "said").read_text()


@pytest.fixture(scope="module")
def cluster(shown: Cluster) -> Cluster:
    return shown


@pytest.fixture(scope="module")
def laptop(outsider: Host, cluster: Cluster) -> Laptop:
    return Laptop(outsider, cluster)


class Foreign:
    """A training at work: its submission id, when it was begun (POSIX seconds), and when its steps ended."""

    def __init__(self, cluster: Cluster, name: str, steps: int, pause: float = PAUSE_S):
        self.cluster, self.name, self.begun = cluster, name, time.time()
        self.times = cluster.storage / f"{name}.times"
        words = [str(steps), str(pause), str(cluster.storage / name), "2", str(self.times)]
        entrypoint = ["python", str(SCRIPT), *words]
        address = f"http://{cluster.head.address}:8265"
        variables = json.dumps({"env_vars": {"GLOO_SOCKET_IFNAME": "eth0"}})  # host names do not resolve here
        options = ["--no-wait", "--submission-id", name, "--runtime-env-json", variables]
        cluster.head.run("ray", "job", "submit", "--address", address, *options, "--", *entrypoint)
        self.make_steps(3)

    def steps(self) -> list[float]:
        return [float(line) for line in self.times.read_text().splitlines()] if self.times.is_file() else []

    def make_steps(self, count: int) -> None:
        """Waits until it has made so many more."""
        goal = len(self.steps()) + count
        wait_for(lambda: len(self.steps()) >= goal, f"{goal} steps of the job {self.name}", self.told)

    def told(self) -> str:
        """The job's own output, and what Ray says on each host."""
        log = self.cluster.head.ray.glob(f"session_2*/logs/job-driver-{self.name}.log")
        return f"{len(self.steps())} steps\n{last_lines(log, 30)}\n{self.cluster.told()}"

    def stop(self) -> None:
        address = f"http://{self.cluster.head.address}:8265"
        self.cluster.head.run("ray", "job", "stop", "--address", address, "--no-wait", self.name)


@pytest.fixture(scope="module")
def foreign(cluster: Cluster) -> Iterator[Foreign]:
    started = Foreign(cluster, "foreign", 100_000)
    yield started
    started.stop()


@dataclass(frozen=True)
class Looked:
    code: int
    said: str
    record: dict[str, Any]
    path: Path

    def value(self, name: str) -> Any:
        fact = self.record["evidence"][name.partition(".")[0]][name]
        assert fact["state"] == "value", fact
        return fact["value"]

    def window(self, rank: int) -> dict[str, Any]:
        """The window as the observer of a rank's host had it."""
        node = self.value("execution.processes")["by_rank"][rank]["node"]
        (path,) = self.path.parent.glob(f"events/a1/probe-{node[:8]}.jsonl")
        layers = (json.loads(line) for line in path.read_text().splitlines())
        found: dict[str, Any] = next(e["content"]["window"] for e in layers if e.get("layer") == "observation")
        return found


@pytest.fixture(scope="module")
def looked(laptop: Laptop, foreign: Foreign) -> Looked:
    claims = laptop.host.home / "claims.yaml"
    claims.write_text(CLAIMS)
    to = laptop.host.home / "looked"
    code, out, said = laptop.inspect("--window", str(WINDOW_S), "--to", str(to), "--claims", str(claims), "--json")
    assert code in (EXIT_OK, EXIT_NOT_ESTABLISHED), said + out
    (path,) = to.glob("*/record.json")
    return Looked(code, said, json.loads(path.read_text()), path)


def observers(cluster: Cluster) -> list[int]:
    """The pids of observers, wherever they are."""
    return [pid for host in cluster.hosts for pid in observers_on(host)]


def observers_on(host: Host) -> list[int]:
    return [pid for pid, title in host.titles().items() if "SeatrialObserver" in title]


def until_observed(laptop: Laptop, by: subprocess.Popen[str]) -> None:
    """Waits until an observer looks on each host with a rank: it makes itself the nicest of all when it begins."""

    def looks(host: Host) -> bool:
        return [os.getpriority(os.PRIO_PROCESS, pid) for pid in observers_on(host)] == [19]

    _, *workers = laptop.cluster.hosts
    wait_for(
        lambda: all(looks(host) for host in workers),
        "an observer that looks on each host with a rank",
        lambda: laptop.said() + laptop.cluster.told(),
        by,
    )


def test_ranks_hosts_and_what_they_have_loaded(looked: Looked, cluster: Cluster) -> None:
    ranks = looked.value("execution.processes")
    assert (ranks["processes"], ranks["hosts"], ranks["rank_unknown"]) == (2, 2, 0)
    assert [row["rank"] for row in ranks["by_rank"]] == [0, 1]
    assert {row["host"] for row in ranks["by_rank"]} == {"host-one", "host-two"}
    titles = [Path(f"/proc/{row['pid']}/cmdline").read_text() for row in ranks["by_rank"]]
    assert all("RayTrainWorker" in title for title in titles)
    pids = {f"host-{host.name}": host.pids() for host in cluster.hosts}
    assert all(row["pid"] in pids[row["host"]] for row in ranks["by_rank"])
    (group,) = looked.value("environment.loaded")["by_process"]
    assert (group["value"]["ray"], group["value"]["torch"]) == (version("ray"), version("torch"))


def test_the_path_of_the_bytes_and_how_many_they_are(looked: Looked, foreign: Foreign) -> None:
    path = looked.value("transport.internode.path")
    assert path == {"path": "tcp", "interfaces": ["eth0"], "word": "corroborated", "reasons": []}
    rows = {row["host"]: row for row in looked.value("transport.window") if "of_ranks_bytes" in row}
    assert sorted(rows) == ["host-one", "host-two"]
    assert {row["device"] for row in rows.values()} == {"net/eth0"}
    for rank, place in enumerate(looked.value("execution.processes")["by_rank"]):
        window, row = looked.window(rank), rows[place["host"]]
        begun, ended = (datetime.fromisoformat(window[edge]).timestamp() for edge in ("from", "until"))
        steps = sum(begun <= moment <= ended for moment in foreign.steps())
        # An all-reduce of two: each sends its gradients once, 2(n-1)/n of them; a step may lie across an edge.
        assert abs(int(row["of_ranks_bytes"]) / GRADIENT_BYTES - steps) <= 2
        assert int(row["of_ranks_bytes"]) < int(row["sent_bytes"]) < int(row["of_ranks_bytes"]) * 1.3


def test_attempts_and_checkpoints(looked: Looked, foreign: Foreign, cluster: Cluster) -> None:
    (run,) = looked.value("execution.attempts_seen")
    assert (run["run"], run["attempts"], run["workers_of_each"]) == ("foreign", 1, [2])
    newest = looked.value("recovery.newest_checkpoint")
    assert newest["path"].startswith(str(cluster.storage / "foreign/foreign/checkpoint_"))
    assert 0 <= newest["age_s"] < time.time() - foreign.begun


def test_the_record_is_sealed_and_says_what_it_is(looked: Looked) -> None:
    assert looked.code == EXIT_NOT_ESTABLISHED
    assert looked.record["observed"] is True
    assert verify(looked.path).problems == []
    verdicts = {v["claim"]: (v["verdict"], v["reason"]) for v in looked.record["verdicts"]}
    assert verdicts == {
        "execution.completed": ("not-established", "unknown"),
        "transport.internode": ("supported", ""),
        "transport.gpudirect": ("not-established", "unknown"),
        "learning.heldout.loss": ("not-established", "unknown"),
        "environment.hosts_agree": ("supported", ""),
    }


def test_interrupted_it_seals_and_leaves_no_actor(laptop: Laptop, foreign: Foreign, cluster: Cluster) -> None:
    to = laptop.host.home / "interrupted"
    process = laptop.start("--window", "600", "--to", str(to))
    until_observed(laptop, process)
    process.send_signal(signal.SIGINT)
    out = laptop.output_of(process)
    assert process.returncode == EXIT_ENDED_EARLY, out + laptop.said()
    wait_for(lambda: not observers(cluster), "the end of the observers", cluster.told)
    (record,) = to.glob("*/record.json")
    assert "stopped on request" in json.loads(record.read_text())["ended_early"]
    foreign.make_steps(5)  # the training has not noticed


@pytest.mark.parametrize(
    ("words", "token", "said"),
    [
        ((), "", "asks for a token"),
        ((), "0" * 64, "does not take the token"),
        (("--job", "foriegn"), None, "there is no job foriegn; did you mean foreign?"),
    ],
)
def test_a_mistake_is_one_line(
    laptop: Laptop, foreign: Foreign, words: tuple[str, ...], token: str | None, said: str
) -> None:
    given = {} if token is None else {"RAY_AUTH_TOKEN": token}
    code, out, error = laptop.inspect(*words, "--to", str(laptop.host.home / "none"), **given)
    assert (code, out) == (EXIT_INPUT, "")
    assert said in error
    assert len(error.splitlines()) == 1
    assert not (laptop.host.home / "none").exists()


@pytest.mark.slow
def test_a_job_that_ends_meanwhile_is_sealed_and_then_there_is_none(
    laptop: Laptop, foreign: Foreign, cluster: Cluster
) -> None:
    to = laptop.host.home / "ended"
    process = laptop.start("--window", "60", "--to", str(to))
    until_observed(laptop, process)
    foreign.make_steps(10)  # while it is looked at
    foreign.stop()
    out = laptop.output_of(process)
    assert process.returncode == EXIT_ENDED_EARLY, out + laptop.said()
    (path,) = to.glob("*/record.json")
    record = json.loads(path.read_text())
    assert "ended while" in record["ended_early"]
    assert record["evidence"]["execution"]["execution.processes"]["value"]["by_rank"][0]["gone"] == "ended"
    code, _, error = laptop.inspect()
    assert code == EXIT_INPUT
    assert "no training job runs there: no job is running" in error
