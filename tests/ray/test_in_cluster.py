"""The rendered entrypoint beside a Ray that is there: seatrial comes from its zips, and Ray is left as it was."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("ray")
pytest.importorskip("torch")

from seatrial.canon import digest, sha256
from seatrial.driver.code import package_digest
from seatrial.errors import EXIT_ENDED_EARLY
from seatrial.probe import processes
from seatrial.probe.processes import of_run
from seatrial.record import verify
from seatrial.render import render
from tests.support.gloo import free_port
from tests.support.trials import quick
from tests.support.waiting import LIMIT_S, last_lines, output_of, wait_for

pytestmark = pytest.mark.ray

ENDLESS = "endless.json"  # a trial that only a stop ends
SECRET = "hunter2-hunter2-hunter2"
CLAIMS = ("execution.completed", "execution.all_ranks_participated", "recovery.checkpoint_reloads")


@dataclass(frozen=True)
class Cluster:
    """A head as KubeRay starts one, and what its pod has: the ConfigMaps, the storage, the environment."""

    process: subprocess.Popen[str]
    session: Path
    mount: Path
    storage: Path
    job: dict[str, Any]

    @property
    def environment(self) -> dict[str, str]:
        return environment(self.mount, self.job)

    def told(self) -> str:
        """The last lines of Ray's own logs, and the last event of each process of each run."""
        logs = [path for kind in ("err", "log", "out") for path in self.session.glob(f"session_2*/logs/*.{kind}")]
        return f"{last_lines(logs)}\n{last_lines(self.storage.glob('runs/2*/events/**/*.jsonl'), 1)}"


def environment(mount: Path, job: dict[str, Any]) -> dict[str, str]:
    (container,) = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"]
    asked = {e["name"]: e["value"].replace("/etc/seatrial", str(mount)) for e in container["env"]}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {
        **os.environ,
        **asked,
        "PATH": path,
        "HUB_TOKEN": SECRET,
        "HF_HUB_OFFLINE": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONUNBUFFERED": "1",
        "RAY_gcs_rpc_server_reconnect_timeout_s": "5",  # how long a driver waits for a Ray that is gone; 60 by default
    }


def manifests(storage: Path, steps: int = 12) -> list[dict[str, Any]]:
    """The tiny trial, rendered for a plain Kubernetes."""
    sections = {
        "image": "registry.example/ray:1",
        "cluster": {
            "provider": "kubernetes",
            "rayVersion": "2.58.0",
            "workerGroups": [{"replicas": 2, "gpus": 0, "cpu": 1, "memory": "2Gi"}],
        },
        "storage": {"path": f"{storage}/runs", "volume": {"claim": "runs", "mountPath": str(storage)}},
        "claims": [{"claim": claim} for claim in CLAIMS],
    }
    return list(yaml.safe_load_all(render(quick(sections, steps=steps, checkpoint={"every": 6})).stream()))


def mounted(documents: list[dict[str, Any]], folder: Path) -> None:
    """The head's volume of ConfigMaps as files, as the kubelet makes it.

    Each part gets a line more than the installed package has, to be told from it.
    """
    configs = {each["metadata"]["name"]: each for each in documents if each["kind"] == "ConfigMap"}
    (job,) = [each for each in documents if each["kind"] == "RayJob"]
    spec = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    (volume,) = [each for each in spec["volumes"] if each["name"] == "seatrial"]
    for source in volume.get("projected", {}).get("sources", [volume]):
        config = configs.pop(source["configMap"]["name"])
        for name, text in config.get("data", {}).items():
            (folder / name).write_text(text)
        for name, data in config["binaryData"].items():
            mark(base64.b64decode(data), folder / name)
    assert configs == {}


def mark(data: bytes, target: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(data)) as rendered, zipfile.ZipFile(target, "w") as changed:
        first = min(name for name in rendered.namelist() if name.endswith("__init__.py"))
        for name in rendered.namelist():
            changed.writestr(name, rendered.read(name) + (b"# shipped\n" if name == first else b""))


def shipped(mount: Path) -> dict[str, bytes]:
    """Every file of the package, from all parts."""
    found: dict[str, bytes] = {}
    for path in mount.glob("*.zip"):
        with zipfile.ZipFile(path) as part:
            found |= {name: part.read(name) for name in part.namelist() if not name.endswith("/")}
    return found


def working_below(*folders: Path) -> list[int]:
    """The pids of processes by their working directory: Ray's agents write their titles over all else that tells them."""
    found = []
    for process in processes.PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any((process / "cwd").readlink().is_relative_to(folder) for folder in folders):
                found.append(int(process.name))
    return found


@contextlib.contextmanager
def head() -> Iterator[Cluster]:
    """`ray start --head` with everything of its own: ports, session, storage."""
    home = Path(tempfile.mkdtemp(prefix="seatrial-", dir="/var/tmp"))
    session = Path(tempfile.mkdtemp(prefix="sc-", dir="/tmp"))  # short: Ray's sockets lie in it
    mount, storage = home / "mount", home / "storage"
    for folder in (mount, storage):
        folder.mkdir()
    documents = manifests(storage)
    mounted(documents, mount)
    (job,) = [document for document in documents if document["kind"] == "RayJob"]
    endless = next(document for document in manifests(storage, steps=100_000) if document["kind"] == "ConfigMap")
    (mount / ENDLESS).write_text(endless["data"]["trial.json"])
    port = free_port()
    command = [
        "ray", "start", "--head", "--block", f"--port={port}", "--num-cpus=2", "--include-dashboard=false", f"--temp-dir={session}",
        f"--ray-client-server-port={free_port()}", f"--dashboard-agent-listen-port={free_port()}", "--object-store-memory=100000000",
    ]  # fmt: skip
    log = home / "ray-start.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            env=environment(mount, job),
            cwd=home,
            text=True,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    cluster = Cluster(process, session, mount, storage, job)
    try:
        wait_for(
            lambda: "Ray runtime started" in log.read_text(),
            "a Ray that runs",
            lambda: log.read_text() + cluster.told(),
            process,
        )
        job["address"] = f"127.0.0.1:{port}"
        yield cluster
    finally:
        process.kill()
        process.wait()
        processes.end(lambda: list(processes.with_pids(working_below(home, session))), grace=0)
        shutil.rmtree(session, ignore_errors=True)
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """The one that every test leaves as it was."""
    with head() as started:
        yield started


@contextlib.contextmanager
def entrypoint(cluster: Cluster, trial: str = "trial.json") -> Iterator[subprocess.Popen[str]]:
    """The entrypoint at work, as Ray's job supervisor starts it."""
    command = shlex.split(cluster.job["spec"]["entrypoint"].replace("/etc/seatrial", str(cluster.mount)))
    command[command.index(f"{cluster.mount}/trial.json")] = f"{cluster.mount}/{trial}"
    process = subprocess.Popen(
        command,
        env={**cluster.environment, "RAY_ADDRESS": cluster.job["address"]},
        cwd=cluster.mount,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def run(cluster: Cluster) -> tuple[subprocess.CompletedProcess[str], Path]:
    """The entrypoint, run as Ray's job supervisor runs it; the run directory."""
    with entrypoint(cluster) as process:
        said, complained = output_of(process, "the entrypoint", cluster.told)
    done = subprocess.CompletedProcess(process.args, process.returncode, said, complained)
    assert done.returncode == 0, done.stderr
    return done, next((cluster.storage / "runs").glob("2*"))


def stepping(cluster: Cluster, beside: set[Path]) -> Path:
    """The directory of the run that is new, once each of its ranks has made a step."""
    runs = cluster.storage / "runs"
    root: Path = wait_for(lambda: set(runs.glob("2*")) - beside, "a run directory", cluster.told).pop()
    ranks = [root / f"events/a1/rank-{rank}.jsonl" for rank in (0, 1)]
    wait_for(
        lambda: all(rank.is_file() and '"event":"step"' in rank.read_text() for rank in ranks),
        "a step of each rank",
        cluster.told,
    )
    return root


def record(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root / "record.json").read_text())
    return found


def test_the_entrypoint_leaves_a_sealed_record(run: Any) -> None:
    done, root = run
    found = record(root)
    assert {v["claim"]: v["verdict"] for v in found["verdicts"]} == dict.fromkeys(CLAIMS, "supported")
    assert f"sealed {root}/record.json" in done.stdout
    assert (root / "record.sha256").read_text().split()[0] == hashlib.sha256(
        (root / "record.json").read_bytes()
    ).hexdigest()


def test_the_trial_that_ran_is_the_trial_that_was_rendered(run: Any, cluster: Cluster) -> None:
    text = (run[1] / "trial.json").read_bytes()
    assert text == (cluster.mount / "trial.json").read_bytes()
    assert sha256(text) == cluster.job["metadata"]["annotations"]["seatrial.io/trial-digest"]


def test_driver_and_ranks_ran_the_code_of_the_parts(run: Any, cluster: Cluster) -> None:
    sent = shipped(cluster.mount)
    files = {name.removeprefix("seatrial/"): hashlib.sha256(data).hexdigest() for name, data in sent.items()}
    seen = record(run[1])["evidence"]["environment"]["environment.seatrial"]["value"]
    assert seen["same_everywhere"]
    assert seen["content"]["files"] == digest(files) != package_digest()
    assert {"events/driver.jsonl", "events/a1/rank-0.jsonl", "events/a1/rank-1.jsonl"} <= set(seen["seen_by"])


def test_ray_is_left_as_it_was(run: Any, cluster: Cluster) -> None:
    root = run[1]
    assert cluster.process.poll() is None
    assert any(cluster.session.glob("session_2*/logs/raylet.out"))
    code = (
        f"import ray; ray.init('{cluster.job['address']}', log_to_driver=False); print(ray.cluster_resources()['CPU'])"
    )
    alive = subprocess.run(
        [sys.executable, "-c", code],
        env=cluster.environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert alive.stdout.strip() == "2.0", alive.stderr
    assert "leftover" not in (root / "events/driver.jsonl").read_text()
    assert [p for p in of_run(root) if "ray::" not in p.command] == []


def test_logs_of_this_job_are_kept_without_secrets(run: Any) -> None:
    (host,) = (run[1] / "logs/ray").iterdir()
    names = [path.name for path in host.iterdir()]
    assert any(name.startswith("worker-") for name in names)
    assert not any(name.startswith(("raylet", "gcs_server")) for name in names)
    holding = [p for p in run[1].rglob("*") if p.is_file() and SECRET.encode() in p.read_bytes()]
    assert holding == []


def test_every_module_that_trains_imports_from_its_part(cluster: Cluster) -> None:
    rooms = ("seatrial/train/", "seatrial/callbacks/")
    paths = [name for name in shipped(cluster.mount) if name.startswith(rooms) and name.endswith(".py")]
    names = [path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in paths]
    code = (
        "import importlib, pathlib\n"
        f"places = {{pathlib.Path(importlib.import_module(name).__file__.partition('.zip')[0]).parent for name in {names}}}\n"
        "print(*places)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=cluster.environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.stdout.strip() == str(cluster.mount), done.stderr


@pytest.mark.slow
def test_a_driver_that_is_asked_to_stop_seals_before_ray_goes(run: Any, cluster: Cluster) -> None:
    before = set((cluster.storage / "runs").glob("2*"))
    with entrypoint(cluster, ENDLESS) as process:
        root = stepping(cluster, before)
        command = [sys.executable, "-m", "seatrial.driver.stop"]  # what the head's preStop does
        subprocess.run(command, env=cluster.environment, cwd=cluster.mount, check=True, timeout=LIMIT_S)
        assert (root / "record.sha256").is_file()  # before anything else goes on
        assert process.wait(LIMIT_S) == EXIT_ENDED_EARLY
    found = record(root)
    assert "stopped on request" in found["ended_early"]
    assert any(file["path"].startswith("logs/ray/") for file in found["artifacts"])  # Ray was there to be asked
    assert cluster.process.poll() is None


@pytest.mark.parametrize("asked", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_run_whose_ray_dies_is_sealed_all_the_same(asked: bool) -> None:
    with head() as own, entrypoint(own, ENDLESS) as process:
        root = stepping(own, set())
        if asked:
            process.send_signal(signal.SIGTERM)
            events = root / "events/driver.jsonl"
            wait_for(lambda: '"status":"interrupted"' in events.read_text(), "a driver that stops", own.told)
        for each in of_run(root, str(own.session)):
            if "ray::" not in each.command and "seatrial" not in each.command:
                os.kill(each.pid, signal.SIGKILL)
        wait_for((root / "record.sha256").is_file, "a sealed record", own.told)
        found = record(root)
        assert found["ended_early"]
        verdicts = {v["claim"]: v["verdict"] for v in found["verdicts"]}
        assert "supported" not in verdicts.values()  # refuted if the driver could still say so, else not established
        assert verify(root / "record.json").problems == []
