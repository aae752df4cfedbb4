"""A real Ray over three hosts: a head without CPUs and two workers with two each. Token authentication is on."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from seatrial.events import Layout
from tests.hosts import machines
from tests.hosts.machines import Host
from tests.support.trials import quick
from tests.support.waiting import last_lines, output_of, wait_for

OBJECT_STORE = "--object-store-memory=100000000"
READY = Path(__file__).parent / "ready.py"
DRIVER_LOG = "driver.log"


@dataclass(frozen=True)
class Cluster:
    """The hosts, the first of which is the head, and the folder that all of them share."""

    hosts: list[Host]
    storage: Path

    @property
    def head(self) -> Host:
        return self.hosts[0]

    @contextlib.contextmanager
    def driver(self, changes: dict[str, Any] | None = None, **workload: Any) -> Iterator[Run]:
        """A driver in the head's namespace, started on a tiny trial of four ranks."""
        storage = self.storage / f"run-{len(list(self.storage.iterdir()))}"
        storage.mkdir()
        sections = {"storage": {"path": str(storage)}, "scaling": {"num_workers": 4}, **(changes or {})}
        trial = storage / "trial.json"
        trial.write_text(json.dumps(quick(sections, **workload).resolved()))
        command = ("python", "-m", "seatrial.driver", "--trial", str(trial), "--address", "auto")
        process = self.head.start(*command, log=storage / DRIVER_LOG)
        try:
            yield Run(process, storage, self)
        finally:
            process.kill()
            process.wait()

    def wait_until_whole(self, dashboard: bool) -> None:
        """Until the GCS has every host, and the dashboard and each host's agent answer where there is a dashboard."""
        process = self._ask(400, dashboard)
        said, _ = output_of(process, READY.name, self.logs)
        assert process.returncode == 0, f"the cluster did not come to be whole:\n{said}{self.logs()}"

    def told(self) -> str:
        """What the GCS says about each host now, and the logs of each."""
        process = self._ask(0, dashboard=False)
        try:
            said, _ = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            said = "the GCS does not answer\n"
        return said + self.logs()

    def logs(self) -> str:
        """The processes of each host, and the last lines of Ray's logs there."""
        return "\n".join(host.told() for host in self.hosts)

    def _ask(self, limit_s: float, dashboard: bool) -> subprocess.Popen[str]:
        options = ["--dashboard"] if dashboard else []
        return self.head.start("python", str(READY), str(limit_s), *options, *(host.address for host in self.hosts))


@dataclass(frozen=True)
class Run:
    """A driver at work, and what it leaves."""

    process: subprocess.Popen[str]
    storage: Path
    cluster: Cluster

    @property
    def layout(self) -> Layout:
        return Layout(next(self.storage.glob("2*")))

    def at_step(self, step: int) -> None:
        """Waits until each rank has made so many steps."""
        wait_for(lambda: any(self.storage.glob("2*")), "a run directory", self.told, self.process)
        ranks = [self.layout.process(1, f"rank-{rank}") for rank in range(4)]
        mark = f'"step":{step},'
        wait_for(
            lambda: all(rank.is_file() and mark in rank.read_text() for rank in ranks),
            f"step {step} of each rank",
            self.told,
            self.process,
        )

    def end(self) -> tuple[int, str]:
        """Its exit status and what it said."""
        wait_for(lambda: self.process.poll() is not None, "the end of the driver", self.told)
        return self.process.returncode, self.said()

    def said(self) -> str:
        """What the driver has printed."""
        return (self.storage / DRIVER_LOG).read_text()

    def told(self) -> str:
        """What the driver has printed, the last event of each process, and what Ray says on each host."""
        return f"{self.said()}\n{last_lines(self.storage.glob('2*/events/**/*.jsonl'), 1)}\n{self.cluster.told()}"

    @property
    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.layout.record.read_text())
        return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Ray on machines of its own, without a dashboard. It ends with its module: idle Rays take processor time too."""
    with running("m", dashboard=False) as found:
        yield found


@pytest.fixture(scope="package")
def shown() -> Iterator[Cluster]:
    """Ray with a dashboard, for all that come from outside the cluster."""
    with running("p", dashboard=True) as found:
        yield found


@pytest.fixture(scope="package")
def outsider(shown: Cluster) -> Host:
    """A machine on the network of `shown` that is no part of the cluster."""
    return machines.outsider(shown.hosts)


@contextlib.contextmanager
def running(letter: str, dashboard: bool) -> Iterator[Cluster]:
    """Ray on three machines of a network of its own."""
    pytest.importorskip("ray")
    pytest.importorskip("torch")
    _needed()
    with machines.network(letter) as hosts:
        head, *workers = hosts
        cluster = Cluster(hosts, head.home / "storage")
        cluster.storage.mkdir()
        head.run("ray", "get-auth-token", "--generate", RAY_AUTH_MODE="disabled")
        view = (f"--include-dashboard={str(dashboard).lower()}", "--dashboard-host=0.0.0.0")
        _started(cluster, [_ray(head, "--head", "--num-cpus=0", "--port=6379", *view)])
        _started(cluster, [_ray(host, f"--address={head.address}:6379", "--num-cpus=2") for host in workers])
        cluster.wait_until_whole(dashboard)
        yield cluster


def _needed() -> None:
    """Skips where machines cannot be made."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    for tool in ("ip", "tc", "unshare"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    try:
        subprocess.run(["unshare", "--net", "--mount", "--uts", "true"], check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this machine makes no namespaces: {error.stderr.strip()}")


def _ray(host: Host, *arguments: str) -> subprocess.Popen[str]:
    """`ray start` returns once its processes are up; they stay in the namespace, and go with it."""
    return host.start("ray", "start", f"--node-ip-address={host.address}", OBJECT_STORE, *arguments)


def _started(cluster: Cluster, processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        said, _ = output_of(process, "ray start", cluster.logs)
        assert process.returncode == 0, f"ray start ended with {process.returncode}:\n{said}{cluster.logs()}"
