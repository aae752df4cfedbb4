"""What a collective of gloo really sends out of each host, in units of its message S (the whole tensor).

    sudo python benchmarks/gloo_wire.py [--mib 8] [--repeat 3]

Hosts are network namespaces on one bridge (names `dx…`, removed at the end); a layout names the host of each rank in
rank order, so that `aabb` is 2 hosts × 2 ranks in order and `abab` the same hosts with ranks dealt in turn. Counted are
the bytes that `eth0` and `lo` of each namespace sent, from `/proc/net/dev`, and by socket what `ss` says was sent.

Measured with torch 2.13.0 and 8 MiB, least to most over hosts, without broadcast (a binomial tree):

    layout                 collective                      eth0 tx / S     lo tx / S       each rank sends, to
    ab                     all_gather                      0.501           0               0.50, rank + 1
    ab                     reduce_scatter, all_reduce      1.001           0               1.00, rank - 1
    aab                    all_gather                      0.668           0.667 (a)       0.67, rank + 1
    aab                    reduce_scatter, all_reduce      1.335           1.335 (a)       1.33, rank - 1
    abc                    all_gather                      0.668           0               0.67, rank + 1
    abc                    reduce_scatter, all_reduce      1.335 to 1.340  0               1.33, rank - 1
    aabb, abba             all_gather                      0.751           0.751           0.75, rank + 1
    aabb, abba             reduce_scatter, all_reduce      1.502 to 1.506  1.502           1.50, rank - 1
    abab                   all_gather                      1.502           0               0.75, rank + 1
    abab                   reduce_scatter, all_reduce      3.004 to 3.005  0               1.50, rank - 1
    aabbcc                 all_gather                      0.835           0.835 to 0.836  0.83, rank + 1
    aabbcc                 reduce_scatter, all_reduce      1.669 to 1.670  1.669 to 1.671  1.67, rank - 1
    abcabc                 all_gather                      1.670 to 1.672  0               0.83, rank + 1
    abcabc                 reduce_scatter, all_reduce      3.339 to 3.344  0               1.67, rank - 1

With 64 KiB (`--mib 0.0625 --repeat 50`), aabb: all_gather 0.790 and the others 1.578, which is 800 bytes of heads and
acknowledgements for each of the 3 and 6 messages that a rank sends. A host sends what the edges of the ring that leave
it carry, so that the order of ranks on hosts decides: `plan.traffic` has the arithmetic.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LAYOUTS = ("ab", "aab", "aabb", "abab", "abba", "abc", "aabbcc", "abcabc")
COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce", "broadcast")
HUB = "dxhub"


def main() -> None:
    """Measures every layout and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=float, default=8.0, help="S, the size of the whole tensor")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--layouts", nargs="*", default=LAYOUTS)
    parser.add_argument("--member", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.member:
        return _member(json.loads(given.member))
    print(f"{'layout':<8}{'collective':<16}{'eth0 tx / S':<24}{'lo tx / S':<24}sent to other ranks, of S")
    for layout in given.layouts:
        with _hosts(sorted(set(layout))):
            for name, by_host, sent in _measure(layout, int(given.mib * 2**20), given.repeat):
                eth0, lo = (" ".join(f"{by_host[h][i]:.3f}" for h in sorted(by_host)) for i in ("eth0", "lo"))
                print(f"{layout:<8}{name:<16}{eth0:<24}{lo:<24}{sent}")
    return None


@contextmanager
def _hosts(names: list[str]) -> Iterator[None]:
    """Namespaces `dxa`, `dxb`, …, each with `eth0` 10.91.0.x on one bridge in a namespace of its own."""
    made = [HUB, *(f"dx{n}" for n in names)]
    try:
        for name in made:
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", HUB, "link", "add", "br0", "type", "bridge")
        _ip("-n", HUB, "link", "set", "br0", "up")
        for number, name in enumerate(names):
            _ip("-n", HUB, "link", "add", f"p{name}", "type", "veth", "peer", "name", "eth0", "netns", f"dx{name}")
            _ip("-n", HUB, "link", "set", f"p{name}", "master", "br0", "up")
            _ip("-n", f"dx{name}", "addr", "add", f"10.91.0.{number + 11}/24", "dev", "eth0")
            _ip("-n", f"dx{name}", "link", "set", "eth0", "up")
        yield
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def _measure(layout: str, size: int, repeat: int) -> list[tuple[str, dict[str, dict[str, float]], str]]:
    with tempfile.TemporaryDirectory(prefix="dx-") as folder:
        members = [
            subprocess.Popen(
                [
                    *("ip", "netns", "exec", f"dx{host}", sys.executable, __file__, "--member"),
                    json.dumps({"rank": r, "layout": layout, "size": size, "repeat": repeat, "folder": folder}),
                ],
                env={
                    **os.environ,
                    "PYTHONWARNINGS": "ignore",
                    "GLOO_SOCKET_IFNAME": "eth0",
                    "MASTER_ADDR": "10.91.0.11",
                    "MASTER_PORT": "29511",
                },
            )
            for r, host in enumerate(layout)
        ]
        if codes := [code for m in members if (code := m.wait(180))]:
            raise SystemExit(f"{layout}: members ended with {codes}")
        told = [json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(len(layout))]
    found = []
    for name in COLLECTIVES:
        by_host = {host: told[layout.index(host)][name]["interfaces"] for host in sorted(set(layout))}
        sent = "; ".join(
            f"{rank}→" + ",".join(f"{to}:{share:.2f}" for to, share in sorted(told[rank][name]["peers"].items()))
            for rank in range(len(layout))
        )
        found.append((name, by_host, sent))
    return found


def _member(job: dict[str, object]) -> None:
    """One rank: each collective `repeat` times between two readings of the counters."""
    import torch
    import torch.distributed as dist

    rank, layout, repeat = int(str(job["rank"])), str(job["layout"]), int(str(job["repeat"]))
    world = len(layout)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    count = int(str(job["size"])) // 4 // world * world
    whole, part = torch.ones(count), torch.ones(count // world)
    calls = {
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole),
        "all_reduce": lambda: dist.all_reduce(whole),
        "broadcast": lambda: dist.broadcast(whole, src=0),
    }
    told = {}
    for name in COLLECTIVES:
        calls[name]()
        before = _settled(dist)
        for _ in range(repeat):
            calls[name]()
        after = _settled(dist)
        unit = repeat * count * 4
        told[name] = {
            "interfaces": {i: (after[0][i] - before[0][i]) / unit for i in ("eth0", "lo")},
            "sockets": [before[1], after[1]],
            "unit": unit,
        }
    everyone: list[object] = [None] * world
    dist.all_gather_object(everyone, sorted(after[1]))
    for name in COLLECTIVES:
        first, last = told[name].pop("sockets")
        unit = told[name].pop("unit")
        peers: dict[int, float] = {}
        for ends, sent in last.items():
            share = (sent - first.get(ends, 0)) / unit
            local, remote = ends.split()
            other = next((r for r, theirs in enumerate(everyone) if f"{remote} {local}" in theirs), None)  # type: ignore[operator]
            if other is not None and share > 0.01:
                peers[other] = peers.get(other, 0.0) + share
        told[name]["peers"] = peers
    Path(str(job["folder"]), f"{rank}.json").write_text(json.dumps(told))
    dist.barrier()
    dist.destroy_process_group()


def _settled(dist: object) -> tuple[dict[str, int], dict[str, int]]:
    """Bytes sent by interface of this namespace and by TCP socket of this process, once all ranks are at rest."""
    dist.barrier()  # type: ignore[attr-defined]
    time.sleep(0.3)
    sent = {}
    for line in Path("/proc/net/dev").read_text().splitlines()[2:]:
        name, _, numbers = line.partition(":")
        sent[name.strip()] = int(numbers.split()[8])
    told = subprocess.run(["ss", "-tinpH"], check=True, capture_output=True, text=True).stdout
    sockets, ends = {}, ""
    for line in told.splitlines():
        if line[:1].strip():
            fields = line.split()
            ends = f"{fields[3]} {fields[4]}" if f"pid={os.getpid()}," in line else ""
        elif ends and "bytes_sent:" in line:
            sockets[ends] = int(line.partition("bytes_sent:")[2].split()[0])
    dist.barrier()  # type: ignore[attr-defined]
    return sent, sockets


if __name__ == "__main__":
    main()
