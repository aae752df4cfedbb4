"""Sockets that lie about the path, and counters that lie about the bytes: each must cost the transport claims."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from seatrial.evidence import judge, observe
from tests.support.wires import World, run

pytestmark = pytest.mark.unit

TCP = {"claim": "transport.internode", "equals": "tcp"}
INTERNODE, INTRANODE = "transport.internode", "transport.intranode"


def verdicts(world: World) -> dict[str, tuple[str, str, str]]:
    """By claim, `internode` also for efa."""
    asked = [
        TCP,
        {"claim": INTERNODE, "equals": "efa"},
        {"claim": INTRANODE, "equals": "tcp"},
        {"claim": "transport.gpudirect", "equals": False},
    ]
    found = judge(asked, observe(run(world)))
    names = ["tcp", "efa", "intranode", "gpudirect"]
    return {n: (v.verdict, v.reason, v.seen) for n, v in zip(names, found, strict=True)}


@pytest.mark.parametrize("layout", ["aabb", "abab", "aab", "aabbcc"])
def test_a_clean_run_is_tcp_and_not_efa(layout: str) -> None:
    seen = verdicts(World(layout))
    assert seen["tcp"] == ("supported", "", "between hosts: tcp over eth0 (claimed: tcp)")
    assert seen["efa"][:2] == ("refuted", "different")
    assert seen["gpudirect"][0] == "supported"
    # Dealt in turn, no rank has a neighbour of its ring on its own host: nothing is sent there.
    assert seen["intranode"][:2] == (("not-established", "unknown") if layout == "abab" else ("supported", ""))


def test_one_host_has_no_traffic_between_hosts_and_uses_loopback() -> None:
    seen = verdicts(World("aa"))
    assert seen["tcp"] == ("not-established", "unknown", "one host: no inter-node traffic")
    assert seen["intranode"] == ("supported", "", "within a host: tcp over lo (claimed: tcp)")


def of(link: str, factor: float, host: str = "b") -> Any:
    return lambda h, name, _: factor if (h, name) == (host, link) else 1.0


BOTH = {(0, 1): "eth1", (0, 2): "eth1", (1, 2): "eth1"}
LIES: list[tuple[str, World, str, str]] = [
    ("the counter stands still", World("aabb", rate=of("eth0", 0.0)), "contradiction", "stood still"),
    ("half of the bytes", World("aabb", rate=of("eth0", 0.5)), "contradiction", "moved less"),
    ("the bytes twice", World("aabb", rate=of("eth0", 2.0)), "contradiction", "moved more"),
    ("no connections of a rank", World("aabb", silent=(2,)), "unknown", "no connection of ranks 1 and 2"),
    (
        "a counter that goes backwards",
        World("aabb", rate=lambda h, n, t: 1.0 if t < 6 else 0.3),
        "unknown",
        "went backwards",
    ),
    (
        "sockets over eth1, bytes over eth0",
        World("aabb", links={(1, 2): "eth1"}, moved_over={(1, 2): "eth0"}),
        "contradiction",
        "eth1 of",
    ),
    (
        "sockets over eth0, bytes over eth1",
        World("aabb", moved_over={(0, 3): "eth1", (1, 2): "eth1"}),
        "contradiction",
        "eth0 of a",
    ),
    ("no probe on a host", World("aabb", without_probe="b"), "unknown", "host b has no probe"),
]


@pytest.mark.parametrize(("world", "reason", "words"), [w[1:] for w in LIES], ids=[w[0] for w in LIES])
def test_a_lie_costs_the_claim(world: World, reason: str, words: str) -> None:
    seen = verdicts(world)
    for name in ("tcp", "efa"):
        assert seen[name][:2] == ("not-established", reason), seen[name]
        assert words in seen[name][2]


def test_ranks_that_really_use_two_interfaces() -> None:
    assert (
        verdicts(World("aabb", links={(1, 2): "eth1"}))["tcp"][2] == "between hosts: tcp over eth0, eth1 (claimed: tcp)"
    )


@pytest.mark.parametrize(("factor", "reason"), [(1.0, ""), (0.0, "contradiction")])
def test_a_rendezvous_over_another_interface(factor: float, reason: str) -> None:
    """Ranks 1 and 2 hold connections over both: the bytes may be on either, and must be somewhere."""
    rendezvous = {
        "rank-1": [("10.78.0.11:5000", "10.78.0.12:29500")],
        "rank-2": [("10.78.0.12:29500", "10.78.0.11:5000")],
    }
    assert verdicts(World("aabb", more=rendezvous, rate=of("eth0", factor, "a")))["tcp"][1] == reason


def test_a_connection_to_something_that_is_no_rank_says_nothing() -> None:
    storage = {"rank-0": [("10.78.0.11:5000", "10.78.0.99:2049")], "rank-1": [("10.78.0.11:5001", "10.78.0.12:6379")]}
    assert "eth1" not in verdicts(World("aabb", more=storage))["tcp"][2]


def test_what_goes_missing_never_helps() -> None:
    """Every suffix of every process's events, of a clean run and of a lying one."""
    for world, whole in ((World("aabb"), "supported"), (World("aabb", rate=of("eth0", 2.0)), "not-established")):
        clean = run(world)
        assert judge([TCP], observe(clean))[0].verdict == whole
        for role in ("ranks", "probes"):
            streams = getattr(clean, role)
            assert streams
            for at, stream in enumerate(streams):
                for length in range(len(stream.events)):
                    cut = replace(stream, events=stream.events[:length], times=stream.times[:length], ended="open")
                    less = replace(clean, **{role: (*streams[:at], cut, *streams[at + 1 :])})
                    assert judge([TCP], observe(less))[0].verdict == "not-established", (role, at, length)


def test_nccl_without_its_log() -> None:
    seen = verdicts(World("aabb", backend="cpu:gloo,cuda:nccl"))
    assert {v[:3] for v in seen.values()} == {
        ("not-established", "unknown", "no NCCL log: NCCL wrote none, or NCCL_DEBUG_FILE was set to another place")
    }


def test_a_bandwidth_by_the_time_of_whole_steps() -> None:
    """Four ranks, S = 1 MiB: two gathers and a reduction, each (n - 1)/n of S over a link, in steps of a tenth of a
    second. It supports what is below it, once the bytes were counted, and refutes nothing."""
    least = 3 * 3 / 4 * (1 << 20) / 0.1 / 1e9
    for world, lowest, verdict in (
        (World("aabb"), 0.9 * least, "supported"),
        (World("aabb"), 1.1 * least, "not-established"),
        (World("aabb", rate=lambda host, link, seconds: 0.3), 0.9 * least, "not-established"),
        (World("aabb", silent=(3,)), 0.9 * least, "not-established"),
    ):
        (answer,) = judge([{"claim": "transport.min_busbw", "min": lowest}], observe(run(world)))
        assert answer.verdict == verdict, answer.seen
