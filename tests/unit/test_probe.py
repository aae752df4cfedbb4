"""The probe of one host, in this process: what it samples, what it hears, and that it closes by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from seatrial.driver.blame import lost_hosts
from seatrial.driver.watchdog import Watchdog
from seatrial.events import Layout, Writer, read
from seatrial.events.schema import Environment, Leftover, PhaseEnded, Stalled, StorageCanary
from seatrial.events.wires import HostSample
from seatrial.events.writer import NODE_VARIABLE
from seatrial.probe import host as probe
from seatrial.probe import processes
from seatrial.probe.processes import MEMBER_VARIABLE
from seatrial.trial.workload import Timeout
from tests.support.waiting import LIMIT_S, wait_for

pytestmark = pytest.mark.unit


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path / "run")
    made.make()
    return made


def writer(layout: Layout, name: str, role: str, rank: int | None = None) -> Writer:
    path = layout.driver_events if role == "driver" else layout.process(1, name)
    return Writer(path, run=layout.root.name, attempt=1, role=role, rank=rank, claims="c", trial="t")


def hears_the_driver(layout: Layout) -> None:
    """Until the probe has surely read what the driver had written before: it does so after each of its samples."""
    probe_file = layout.process(1, "probe-me")
    before = len(samples(probe_file))
    wait_for(lambda: len(samples(probe_file)) > before + 2, "three more samples")


def samples(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if '"event":"host_sample"' in line]


def network_of(pid: int) -> int:
    """The inode of a process's network namespace; 0 for one that has ended."""
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError:
        return 0


@pytest.fixture
def watching(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> probe.HostProbe:
    monkeypatch.setattr(probe, "INTERVAL_S", 0.05)
    monkeypatch.setattr(probe, "GRACE_S", 0.2)
    return probe.HostProbe(str(layout.process(1, "probe-me")), layout.root.name, 1, "c", "t")


def test_a_probe_closes_when_the_driver_has_written_that_the_run_is_over(layout, watching) -> None:
    events = writer(layout, "driver", "driver")
    events.write(PhaseEnded(phase="train", attempt=1, status="finished"))
    hears_the_driver(layout)
    assert watching._thread.is_alive()  # the reload follows
    events.write(PhaseEnded(phase="reload", attempt=1, status="failed"))
    watching._thread.join(LIMIT_S)
    stream = read(layout.process(1, "probe-me"), "probe-me", layout.root.name)
    assert stream.closed
    assert {e.layer for e in stream.all(Environment)} == {"hardware", "network", "base_packages", "libraries"}
    assert "net/lo" in next(stream.all(HostSample)).counters
    assert watching.stop() == []


def test_a_probe_ends_what_a_rank_has_left_behind(layout, watching) -> None:
    left = subprocess.Popen(["sleep", "3600"], env={**os.environ, MEMBER_VARIABLE: str(layout.root)})
    ended = watching.stop()
    assert left.wait(LIMIT_S) < 0
    assert ended == [f"{left.pid} sleep 3600"]
    stream = read(layout.process(1, "probe-me"), "probe-me", layout.root.name)
    assert [e.processes for e in stream.all(Leftover)] == [ended]


RANK = """
import faulthandler, os, sys, time
from pathlib import Path
from seatrial.events import Layout, Writer
from seatrial.probe.processes import STACKS
layout = Layout(Path(sys.argv[1]))
faulthandler.register(STACKS, file=open(sys.argv[2], "w"))
Writer(layout.process(1, "rank-0"), run=layout.root.name, attempt=1, role="rank", rank=0, claims="c", trial="t")
while True:
    time.sleep(0.05)
"""


@pytest.mark.parametrize(("node", "asked"), [("here", True), ("elsewhere", False)])
def test_a_stalled_run_makes_the_ranks_of_this_host_write_their_stacks(
    layout, tmp_path, monkeypatch, request, node, asked
) -> None:
    monkeypatch.setenv(NODE_VARIABLE, "here")
    watching = request.getfixturevalue("watching")
    stacks = tmp_path / "stacks"
    (tmp_path / "RayTrainWorker.py").write_text(RANK)  # by the title that Ray gives it
    rank = subprocess.Popen(
        [sys.executable, "RayTrainWorker.py", str(layout.root), str(stacks)],
        env={**os.environ, NODE_VARIABLE: node},
        cwd=tmp_path,
    )
    try:
        wait_for(layout.process(1, "rank-0").is_file, "the rank's event file")
        stalled = Stalled(limit="workload.timeout.step", seconds=1, last_step=3, waiting_for=[0])
        writer(layout, "driver", "driver").write(stalled)
        if asked:
            wait_for(lambda: "most recent call first" in stacks.read_text(), "the rank's stacks")
        else:
            hears_the_driver(layout)
            assert stacks.read_text() == ""
    finally:
        rank.kill()
        rank.wait()
        watching.stop()


def test_the_first_rank_of_a_host_says_more_and_is_no_further(layout) -> None:
    for rank in range(3):
        events = writer(layout, f"rank-{rank}", "rank", rank)
        events.write(Environment(layer="packages" if rank == 0 else "torch", content={}))
        if rank == 0:
            events.write(Environment(layer="model", content={}))
        if rank != 1:
            events.write(StorageCanary(path="p", ok=True))
    watchdog = Watchdog(layout, "rank", 3, 10, Timeout(start=0.01, step=0.01))
    time.sleep(0.05)
    expired = watchdog.check()
    assert expired
    assert expired.waiting_for == [1]
    host = json.loads(layout.process(1, "rank-2").read_text().splitlines()[0])["host"].partition("/")[0]
    assert "rank 1 behind; stacks are in" in watchdog.explain(expired)
    said = lost_hosts(layout, "rank", 3, {host: "host-b", "other": "host-c"})
    assert said == "; host-b (rank 0, 1, 2) does not answer; host-c does not answer"


def test_processes_of_another_network_namespace_are_another_host_s(tmp_path: Path) -> None:
    environment = {**os.environ, MEMBER_VARIABLE: str(tmp_path)}
    here = subprocess.Popen(["sleep", "3600"], env=environment)
    there = subprocess.Popen(["unshare", "--net", "sleep", "3600"], env=environment)
    try:
        wait_for(lambda: there.poll() is not None or network_of(there.pid) != network_of(os.getpid()), "a namespace")
        if there.poll() is not None:
            pytest.skip("this machine makes no network namespaces")
        found = [p.pid for p in processes.of_run(tmp_path, variable=MEMBER_VARIABLE)]
        assert found == [here.pid]
        assert list(processes.with_pids([there.pid])) == []
    finally:
        for process in (here, there):
            process.kill()
            process.wait()


def test_a_required_network_is_named_in_a_cause_of_nccl_s() -> None:
    from seatrial.driver.blame import required_network

    said = required_network("efa", "rank-0.jsonl: DistBackendError: NCCL error (during start roll call)")
    assert "cluster.require: efa" in said
    assert required_network(None, "NCCL error") == required_network("efa", "ValueError: x") == ""
