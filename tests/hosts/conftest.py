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
from tests.hosts.machines import Host, wait_for
from tests.support.trials import quick

OBJECT_STORE = "--object-store-memory=100000000"


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
        process = self.head.start(*command)
        try:
            yield Run(process, storage)
        finally:
            process.kill()
            process.communicate()


@dataclass(frozen=True)
class Run:
    """A driver at work, and what it leaves."""

    process: subprocess.Popen[str]
    storage: Path

    @property
    def layout(self) -> Layout:
        return Layout(next(self.storage.glob("2*")))

    def at_step(self, step: int) -> None:
        """Waits until each rank has made so many steps."""
        wait_for(lambda: any(self.storage.glob("2*")) or self._ended(), 30)
        ranks = [self.layout.process(1, f"rank-{rank}") for rank in range(4)]
        mark = f'"step":{step},'
        wait_for(lambda: all(r.is_file() and mark in r.read_text() for r in ranks) or self._ended())

    def _ended(self) -> bool:
        assert self.process.poll() is None, self.process.communicate()[0]
        return False

    def end(self, seconds: float) -> tuple[int, str]:
        """Its exit status and what it said. Fails if it takes longer."""
        said, _ = self.process.communicate(timeout=seconds)
        return self.process.returncode, said

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
        head.run("ray", "get-auth-token", "--generate", RAY_AUTH_MODE="disabled")
        view = (f"--include-dashboard={str(dashboard).lower()}", "--dashboard-host=0.0.0.0")
        _started([_ray(head, "--head", "--num-cpus=0", "--port=6379", *view)])
        _started([_ray(host, f"--address={head.address}:6379", "--num-cpus=2") for host in workers])
        storage = head.home / "storage"
        storage.mkdir()
        yield Cluster(hosts, storage)


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


def _started(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        said, _ = process.communicate(timeout=180)
        assert process.returncode == 0, said
