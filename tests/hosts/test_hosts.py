"""Runs over several hosts: what each host's probe sees, and what becomes of a run when one of them is in trouble."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from seatrial.errors import EXIT_ENDED_EARLY, EXIT_OK
from seatrial.events import Layout, Stream, read
from seatrial.events.schema import Environment, Step
from seatrial.events.wires import HostSample
from seatrial.record import verify
from tests.hosts.conftest import Cluster, Run
from tests.hosts.machines import Host
from tests.support.trials import PATIENT

pytestmark = pytest.mark.hosts

CLAIMS = ("execution.completed", "execution.all_ranks_participated", "recovery.checkpoint_reloads")
INTERNODE, PATHS = "transport.internode", ("tcp", "efa")
STEPS, SLOW_FROM, RATE_MBIT = 16, 6, 10
SHORT = {**PATIENT, "step": 6}
# In the interpreter of every training process: the second one on host two never comes to the update of its fifth step.
HANG = """
import os, socket, sys, threading, time

def plant():
    while not hasattr(loop := sys.modules.get("seatrial.train.loop"), "_digest"):  # its last name
        time.sleep(0.05)
    calls, apply = [], loop.optimizer_step
    def hang_at_the_fifth(*arguments):
        calls.append(arguments)
        if len(calls) == 5 and os.environ["LOCAL_RANK"] == "1":
            threading.Event().wait()
        apply(*arguments)
    loop.optimizer_step = hang_at_the_fifth

if socket.gethostname() == "host-two":
    threading.Thread(target=plant, daemon=True).start()
"""


def stream(layout: Layout, name: str) -> Stream:
    return read(layout.process(1, name), name, layout.root.name)


def rank_hosts(layout: Layout) -> list[str]:
    """The host of each rank, by its own word."""
    headers = [stream(layout, f"rank-{rank}").header for rank in range(4)]
    return [header.host for header in headers if header]


def by_address(layout: Layout) -> dict[str, Stream]:
    """The probes' files, by the IPv4 address of their host's eth0."""
    found = {}
    for path in layout.events.glob("a1/probe-*.jsonl"):
        probe = stream(layout, path.stem)
        (network,) = (e.content for e in probe.all(Environment) if e.layer == "network")
        found[network["interfaces"]["eth0"]["addresses"][0]] = probe
    return found


def training_processes(cluster: Cluster) -> list[str]:
    return [title for host in cluster.hosts for title in host.titles().values() if "TrainWorker" in title]


@pytest.fixture(scope="module")
def slowed(cluster: Cluster) -> Iterator[Run]:
    """A run that finishes; host two's network becomes slow on the way."""
    claims = {"claims": [*({"claim": claim} for claim in CLAIMS), *({"claim": INTERNODE, "equals": e} for e in PATHS)]}
    with cluster.driver(claims, steps=STEPS, checkpoint={"every": STEPS}) as run:
        run.at_step(SLOW_FROM)
        with cluster.hosts[2].slowed(f"{RATE_MBIT}mbit"):
            run.at_step(STEPS)
        code, said = run.end()
        assert code == EXIT_OK, said
        yield run


def test_four_ranks_on_two_hosts_leave_a_sealed_record(slowed: Run) -> None:
    verdicts = {v["claim"]: v["verdict"] for v in slowed.record["verdicts"] if v["claim"] != INTERNODE}
    assert verdicts == dict.fromkeys(CLAIMS, "supported")
    assert verify(slowed.layout.record).problems == []
    assert sorted(Counter(rank_hosts(slowed.layout)).values()) == [2, 2]


def test_the_bytes_went_over_the_cable_as_the_plan_has_it(slowed: Run) -> None:
    """Each host's eth0 moved by what its ranks send to the other host; that is TCP, whatever a trial may hope for."""
    seen = {v["asked"]["equals"]: v for v in slowed.record["verdicts"] if v["claim"] == INTERNODE}
    assert (seen["tcp"]["verdict"], seen["efa"]["verdict"]) == ("supported", "refuted"), seen
    rows = slowed.record["evidence"]["transport"]["transport.bytes"]["value"]["by_interface"]
    between = [row for row in rows if row["scope"] == "internode"]
    assert [(row["interface"], row["word"]) for row in between] == [("eth0", "within")] * 2
    for row in between:
        assert int(row["at_least_bytes"]) < int(row["tx_bytes"]) < int(row["at_most_bytes"])


def test_every_host_has_a_probe_that_knows_its_network(slowed: Run, cluster: Cluster) -> None:
    probes = by_address(slowed.layout)
    assert set(probes) == {host.address for host in cluster.hosts}
    assert all(probe.closed for probe in probes.values())
    seen = {address: int(probe.header.host.rpartition(":")[2]) for address, probe in probes.items() if probe.header}
    assert seen == {host.address: host.inode for host in cluster.hosts}


def test_connections_of_ranks_lead_to_the_other_host(slowed: Run, cluster: Cluster) -> None:
    _, one, two = cluster.hosts
    probe = by_address(slowed.layout)[one.address]
    looks = [e.connections for e in probe.all(HostSample) if e.connections]
    assert len(looks) < len(list(probe.all(HostSample))) / 2  # written only when they change
    ends = {(a.rpartition(":")[0], b.rpartition(":")[0]) for look in looks for pairs in look.values() for a, b in pairs}
    assert (one.address, two.address) in ends
    assert not any(host.startswith("127.") for pair in ends for host in pair if two.address in pair)


def test_a_slow_host_shows_in_step_times_and_counters(slowed: Run, cluster: Cluster) -> None:
    """A step takes the time that the cable needs for its bytes, however fast the machine is, and its bytes are counted."""
    times = [e.duration_s for e in stream(slowed.layout, "rank-0").all(Step)]
    rows = slowed.record["evidence"]["transport"]["transport.bytes"]["value"]["by_interface"]
    (row,) = (r for r in rows if r["interface"] == "eth0" and r["host"].endswith(f"/net:{cluster.hosts[2].inode}"))
    of_a_step = int(row["at_least_bytes"]) / row["steps"]
    assert statistics.median(times[SLOW_FROM + 1 :]) > of_a_step * 8 / (RATE_MBIT * 1e6)
    series = slowed.record["evidence"]["performance"]["performance.step_time"]["value"]["series"]
    assert series[-1][1] == pytest.approx(times[-1], rel=0.3)
    sent = [
        (
            datetime.fromisoformat(utc).timestamp(),
            event.steps.get("rank-0", 0),
            int(event.counters["net/eth0"]["tx_bytes"]),
        )
        for event, utc in by_address(slowed.layout)[cluster.hosts[2].address].dated(HostSample)
    ]
    inside = [each for each in sent if SLOW_FROM + 1 < each[1] < STEPS]
    (began, first, before), (ended, last, after) = inside[0], inside[-1]
    assert last > first + 1
    assert after - before > (last - first - 1) * of_a_step  # a sample may lie anywhere in its step
    assert (after - before) * 8 / (ended - began) < 1.1 * RATE_MBIT * 1e6
    assert all(earlier[2] <= later[2] for earlier, later in itertools.pairwise(sent))


@pytest.mark.slow
def test_an_interface_that_is_not_there_is_the_cause(cluster: Cluster) -> None:
    wrong = {"runtimeEnv": {"env_vars": {"GLOO_SOCKET_IFNAME": "wrong0"}}, "scaling": {"num_workers": 1}}
    with cluster.driver(wrong) as run:
        code, said = run.end()
    assert code == EXIT_ENDED_EARLY, said
    cause = run.record["ended_early"]
    assert 'GLOO_SOCKET_IFNAME says "wrong0", which is no interface of this host; host-' in cause
    assert "eth0 (10.77.0.1" in cause


@pytest.mark.slow
def test_a_rank_that_hangs_on_another_host(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(HANG)
    environment = {"runtimeEnv": {"env_vars": {"PYTHONPATH": str(tmp_path)}}}
    with cluster.driver(environment, steps=1000, timeout=SHORT) as run:
        run.at_step(4)
        code, said = run.end()
    assert code == EXIT_ENDED_EARLY, said
    hung = cause_of_one_rank(run)
    stacks = [(run.layout.logs / f"stack-rank-{rank}.txt").read_text() for rank in range(4)]
    assert all("seatrial/train/loop.py" in text for text in stacks)
    assert "hang_at_the_fifth" in stacks[hung]
    assert training_processes(cluster) == []
    assert verify(run.layout.record).problems == []


def cause_of_one_rank(run: Run) -> int:
    """The rank that the record says is behind."""
    cause: str = run.record["ended_early"]
    assert "no progress after step 4 within workload.timeout.step = 6 s; rank " in cause
    assert "does not answer" not in cause
    return int(cause.partition("; rank ")[2].split()[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("timeout", "cause"),
    [
        pytest.param(SHORT, "no progress after step ", id="the limit comes first"),
        # Ray gives a host up after about a minute, and Ray Train its ranks.
        pytest.param(PATIENT, "ended without a word", id="Ray comes first"),
    ],
)
def test_a_cable_that_is_cut(cluster: Cluster, timeout: dict[str, int], cause: str) -> None:
    two = cluster.hosts[2]
    with cluster.driver(steps=1000, timeout=timeout) as run:
        run.at_step(4)
        two.cut()
        try:
            code, said = run.end()
            assert code == EXIT_ENDED_EARLY, said
            assert cause in run.record["ended_early"]
            assert f"host-two (rank {ranks_on(run, two)}) does not answer" in run.record["ended_early"]
            assert training_processes(cluster) == []
            assert verify(run.layout.record).problems == []
        finally:
            two.mend()


def ranks_on(run: Run, host: Host) -> str:
    mark = f"/net:{host.inode}"
    return ", ".join(str(rank) for rank, where in enumerate(rank_hosts(run.layout)) if where.endswith(mark))
