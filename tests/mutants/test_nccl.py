"""A run over NCCL: its log and the hosts' counters, each of which may lie, and what the verdicts make of it."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest

from seatrial.events import Stream
from seatrial.events.wires import HostSample, NcclLog
from seatrial.evidence import judge, observe
from seatrial.evidence.facts.transport import NCCL
from seatrial.evidence.run import Run
from seatrial.probe.nccl.reader import Reader
from seatrial.probe.nccl.serialize import pack
from tests.support.nccl import Job
from tests.support.wires import S as SIZE
from tests.support.wires import World, run

pytestmark = pytest.mark.unit

# Two gathers and one reduction of S a step, (n − 1)/n of each over the one link that leaves a host.
PER_STEP = 3 * 3 / 4 * SIZE
EFA = {"node-0": "efa", "node-1": "efa"}
TCP = {"node-0": "net", "node-1": "net"}


def over_nccl(job: Job, ways: dict[str, str], *, factor: float = 1.0, missing: tuple[int, ...] = ()) -> Run:
    """Ranks 0 and 1 on host a (NCCL: node-0), 2 and 3 on host b; their bytes move the counters that `ways` says."""
    found = run(World("aabb", backend="cpu:gloo,cuda:nccl"))
    probes = []
    for number, probe in enumerate(found.probes):
        host, ranks = f"node-{number}", [r for r in (2 * number, 2 * number + 1) if r not in missing]
        events = [_counted(e, ways[host], factor) if isinstance(e, HostSample) else e for e in probe.events]
        logs = [_log(job, rank) for rank in ranks]
        events, times = [*events[:-1], *logs, events[-1]], [*probe.times[:-1], *[probe.times[-1]] * (len(logs) + 1)]
        probes.append(Stream(probe.path, tuple(events), tuple(times), probe.ended))
    return replace(found, probes=tuple(probes))


def _counted(sample: HostSample, way: str, factor: float) -> HostSample:
    done = max(sample.steps.values(), default=0)
    moved = str(int(7e9 + factor * PER_STEP * (done + 0.4)))
    counters = {name: dict.fromkeys(("tx_bytes", "rx_bytes"), "5000000000") for name in ("efa/rdmap0s6", "net/eth0")}
    device = {"efa": "efa/rdmap0s6", "net": "net/eth0"}.get(way)
    if device:
        counters[device] = dict.fromkeys(("tx_bytes", "rx_bytes"), moved)
    return sample.model_copy(update={"counters": counters})


def _log(job: Job, rank: int) -> NcclLog:
    reader = Reader()
    reader.read(io.BytesIO(("\n".join(job.lines(rank)) + "\n").encode()), f"r{rank}")
    name = f"r{rank}.{job.host.format(rank // job.local)}.{79 + rank}"
    return NcclLog(name=name, bytes="1", digest="sha256:0", kept="", facts=pack(reader.log))


def verdict(found: Run, claim: str, equals: Any) -> tuple[str, str, str]:
    (answer,) = judge([{"claim": claim, "equals": equals}], observe(found))
    return answer.verdict, answer.reason, answer.seen


def test_efa_that_log_and_counters_show() -> None:
    clean = over_nccl(Job(), EFA)
    assert verdict(clean, "transport.internode", "efa")[:2] == ("supported", "")
    assert verdict(clean, "transport.internode", "socket")[0] == "refuted"
    assert verdict(clean, "transport.gpudirect", True)[:2] == ("not-established", "uncorroborated")
    assert verdict(clean, "transport.gpudirect", False)[0] == "refuted"


def test_socket_that_log_and_counters_show() -> None:
    fallback = over_nccl(Job(net="Socket", gdr=False), TCP)
    state, _, seen = verdict(fallback, "transport.internode", "efa")
    assert state == "refuted"
    assert "socket" in seen
    assert verdict(fallback, "transport.internode", "socket")[0] == "supported"


@pytest.mark.parametrize(
    ("found", "verdict_and_reason", "seen"),
    [
        # A log that says efa over a run whose bytes went over TCP, or nowhere.
        (over_nccl(Job(), TCP), ("not-established", "contradiction"), "another way"),
        (over_nccl(Job(), {**EFA, "node-1": "net"}), ("not-established", "contradiction"), "another way on node-1"),
        (over_nccl(Job(), {**EFA, "node-1": "none"}), ("not-established", "contradiction"), "did not move on node-1"),
        (over_nccl(Job(), EFA, factor=0.3), ("not-established", "contradiction"), "by the plan"),
        (over_nccl(Job(), EFA, factor=4), ("not-established", "contradiction"), "by the plan"),
        # A fallback of some ranks only, and of none that was seen.
        (over_nccl(Job(provider="tcp"), EFA), ("refuted", "different"), "libfabric over tcp"),
        (over_nccl(Job(), EFA, missing=(3,)), ("not-established", "unknown"), "of 4 ranks, 3 said nothing"),
        (over_nccl(Job(net="Socket", gdr=False), TCP, missing=(3,)), ("refuted", "different"), "socket"),
        (over_nccl(Job(), EFA, missing=(0, 1, 2, 3)), ("not-established", "unknown"), "no NCCL log"),
        (over_nccl(Job(nodes=1, local=4), EFA), ("not-established", "unknown"), "inside one node"),
        (over_nccl(replace(Job(), host="same"), EFA), ("not-established", "unknown"), ""),
    ],
)  # fmt: skip
def test_a_lie_costs_the_claim(found: Run, verdict_and_reason: tuple[str, str], seen: str) -> None:
    state, reason, said = verdict(found, "transport.internode", "efa")
    assert (state, reason) == verdict_and_reason, said
    assert seen in said


def test_the_report_s_facts_say_versions_and_troubles() -> None:
    job = Job(extra={1: ("NET/OFI Need to force simple protocol: GDR not supported",)})
    fact = observe(over_nccl(job, EFA)).get(NCCL).value
    assert fact.versions["nccl"] == {"2.27.5": []}
    assert [t["trouble"] for t in fact.troubles] == ["ofi-gdr-off"]
    assert [row.word for row in fact.internode.bytes or ()] == ["within", "within"]


def test_facts_that_no_probe_wrote() -> None:
    found = over_nccl(Job(), EFA)
    broken = [
        e.model_copy(update={"facts": {"processes": 1}}) if isinstance(e, NcclLog) else e
        for e in found.probes[0].events
    ]
    probe = Stream(found.probes[0].path, tuple(broken), found.probes[0].times, found.probes[0].ended)
    state, _, _ = verdict(replace(found, probes=(probe, found.probes[1])), "transport.internode", "efa")
    assert state == "not-established"
