"""Message bytes and wire bytes of a step, against numbers worked out by hand and measured on real hosts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.events.layers import Sharding, Unit
from seatrial.plan.traffic import RINGS, Message, Sent, groups, messages, padded, sent

pytestmark = pytest.mark.unit
MIB = 1 << 20


def sharding(replicate: int, shard: int, *, reshard: bool = True, frozen: int = 0) -> Sharding:
    """One unit of 1,000 elements, already padded, of which `frozen` are not trained."""
    unit = Unit(name="root", tensors=2, padded=1000, padded_trainable=1000 - frozen)
    return Sharding(
        units=(unit,),
        mesh=(replicate, shard),
        param_dtype="bf16",
        reduce_dtype="fp32",
        reshard_after_forward=reshard,
    )


@pytest.mark.parametrize(
    ("given_", "micro_batches", "expected"),
    [
        (sharding(1, 4), 3, [("all_gather", 2000, 6), ("reduce_scatter", 4000, 1)]),
        (sharding(1, 4, reshard=False), 3, [("all_gather", 2000, 3), ("reduce_scatter", 4000, 1)]),
        (sharding(4, 1), 3, [("all_reduce", 4000, 1)]),
        (sharding(2, 2), 1, [("all_gather", 2000, 2), ("reduce_scatter", 4000, 1), ("all_reduce", 2000, 1)]),
        (sharding(1, 4, frozen=1000), 1, [("all_gather", 2000, 2)]),
        (sharding(1, 4, frozen=400), 1, [("all_gather", 2000, 2), ("reduce_scatter", 2400, 1)]),
        (sharding(1, 1), 8, []),
    ],
)
def test_messages_of_a_step(given_: Sharding, micro_batches: int, expected: list[tuple[str, int, int]]) -> None:
    assert [(m.collective, m.size, m.times) for m in messages(given_, micro_batches)] == expected


def test_padding_fills_the_first_dimension() -> None:
    assert [padded((5, 3), 4), padded((8, 3), 4), padded((), 2), padded((1,), 1)] == [24, 24, 2, 1]


# benchmarks/gloo_wire.py, torch 2.13.0, S = 8 MiB: bytes out of each host's eth0, in units of S.
MEASURED = [
    ("ab", "all_gather", (0.501, 0.501)), ("ab", "all_reduce", (1.001, 1.001)), ("ab", "reduce_scatter", (1.001, 1.001)),
    ("aab", "all_gather", (0.668, 0.668)), ("aab", "reduce_scatter", (1.335, 1.335)),
    ("aabb", "all_gather", (0.751, 0.751)), ("aabb", "reduce_scatter", (1.502, 1.502)), ("aabb", "all_reduce", (1.502, 1.502)),
    ("abab", "all_gather", (1.502, 1.502)), ("abab", "all_reduce", (3.004, 3.004)), ("abba", "all_gather", (0.751, 0.751)),
    ("abc", "all_gather", (0.668, 0.668, 0.668)), ("abc", "all_reduce", (1.335, 1.335, 1.335)),
    ("aabbcc", "reduce_scatter", (1.670, 1.670, 1.670)), ("abcabc", "all_reduce", (3.339, 3.339, 3.339)),
]  # fmt: skip


@pytest.mark.parametrize(("layout", "collective", "measured"), MEASURED)
def test_wire_bytes_of_gloo_are_what_was_measured(layout: str, collective: str, measured: tuple[float, ...]) -> None:
    edges = sent([Message(collective, "shard", 8 * MIB, 1)], (1, len(layout)), "gloo", layout)
    for host, seen in zip(sorted(set(layout)), measured, strict=True):
        leaves = sum(s.size for (a, b), s in edges.items() if layout[a] == host != layout[b])
        assert leaves / (8 * MIB) == pytest.approx(seen, rel=0.005)


def test_nccl_enters_a_host_once_whatever_the_order_of_ranks() -> None:
    work = [Message("all_gather", "shard", 4000, 1)]
    out = [
        sum(s.size for (a, b), s in sent(work, (1, 4), "nccl", hosts).items() if hosts[a] != hosts[b])
        for hosts in ("aabb", "abab")
    ]
    assert out == [6000, 6000]


def test_hsdp_inside_hosts_sends_only_the_replicas_sums_between_them() -> None:
    edges = sent(messages(sharding(2, 2), 1), (2, 2), "gloo", "aabb")
    between = {pair: s for pair, s in edges.items() if pair in ((0, 2), (1, 3), (2, 0), (3, 1))}
    assert between == dict.fromkeys(between, Sent(2 * 0.5 * 2000, 2))
    assert len(between) == 4


@given(st.integers(1, 5), st.integers(1, 5), st.sampled_from(sorted(RINGS)), st.data())
def test_every_rank_sends_its_share_and_to_its_own_group(replicate: int, shard: int, backend: str, data: Any) -> None:
    world = replicate * shard
    hosts = data.draw(st.lists(st.sampled_from("abc"), min_size=world, max_size=world))
    for dimension in ("shard", "replicate"):
        for name, ring in RINGS[backend].items():
            edges = sent([Message(name, dimension, 1000, 1)], (replicate, shard), backend, hosts)  # type: ignore[arg-type]
            own = groups((replicate, shard), dimension)  # type: ignore[arg-type]
            assert sorted(r for g in own for r in g) == list(range(world))
            for group in own:
                n = len(group)
                mine = [s.size for (a, b), s in edges.items() if a in group and b in group]
                assert mine == pytest.approx([ring.rounds * (n - 1) / n * 1000] * n)
