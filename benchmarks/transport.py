"""How fast `seatrial transport` reads, beside `grep -c NCCL` and a plain loop of the eight regexes people grep for.

    python benchmarks/transport.py [--megabytes 1000] [--rounds 3] [--folder DIR]

Two logs of 1,024 ranks are written: one of 70 % connection lines, 20 % other lines of NCCL and 10 % foreign ones, and
one with under 5 % lines of NCCL. Each is read by every contender in turn, round by round; medians with the lowest and
the highest. `seatrial` reads one file in one process; `seatrial, files` reads the same bytes as one file for each core.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

RANKS, LOCAL = 1024, 8
EIGHT = [
    re.compile(pattern)
    for pattern in (
        rb"NET/OFI Selected [pP]rovider is (\S+)",
        rb"Using network (.+)",
        rb"NCCL version (\S+)",
        rb"via NET/([^/]+)/(\d+)(/GDRDMA)?",
        rb"via P2P/(\S+)",
        rb"via SHM/(\S+)",
        rb"comm 0x[0-9a-f]+ rank (\d+) nranks (\d+)",
        rb"NCCL WARN (.*)",
    )
]
FOREIGN = "2026-05-05 06:16:47,120 INFO trainer.py:312 -- step {} loss 2.3021 tokens/s 18231 grad_norm 0.93"
OTHER = (
    "Setting affinity for GPU {} to ffff,ffffffff",
    "NCCL_FOO{} set by environment to 1.",
    "Trees [0] 1/-1/-1->{}->8 [1] 2/-1/-1->0->8",
)


def many(nccl_share: float, seed: int) -> Iterator[str]:
    """Lines without end: connections and other NCCL lines in the given share, seven to two, the rest foreign."""
    chance, number = random.Random(seed), 0
    while True:
        number += 1
        if chance.random() >= nccl_share:
            yield FOREIGN.format(number)
            continue
        rank = chance.randrange(RANKS)
        host, local = rank // LOCAL, rank % LOCAL
        frame = f"ip-10-0-{host >> 8}-{host & 255}:{1000 + local}:{2000 + local} [{local}] NCCL INFO"
        if chance.random() < 7 / 9:
            other, channel = (rank + 1) % RANKS, chance.randrange(24)
            via = "P2P/CUMEM" if other // LOCAL == host else f"NET/Libfabric/{channel % 4}/GDRDMA"
            side = " [send]" if via[0] == "N" else ""
            yield f"{frame} Channel {channel:02d}/0 : {rank}[{local}] -> {other}[{other % LOCAL}]{side} via {via}"
        else:
            yield f"{frame} {chance.choice(OTHER).format(local)}"


def begin() -> Iterator[str]:
    """Every rank's communicator lines."""
    for rank in range(RANKS):
        host, local = rank // LOCAL, rank % LOCAL
        frame = f"ip-10-0-{host >> 8}-{host & 255}:{1000 + local}:{2000 + local} [{local}] NCCL INFO"
        comm = f"ncclCommInitRankConfig comm 0x55{rank:06x} rank {rank}"
        for stage in ("START", "COMPLETE"):
            devices = f"cudaDev {local} nvmlDev {local} busId 5{local}000"
            yield f"{frame} {comm} nranks {RANKS} {devices} commId 0xabc - Init {stage}"
        yield f"{frame} {comm} nRanks {RANKS} nNodes {RANKS // LOCAL} localRanks {LOCAL} localRank {local} MNNVL 0"


def write(path: Path, megabytes: int, share: float) -> None:
    """A block of distinct lines, repeated until the size is there: what differs is what a reader must keep."""
    lines = many(share, 1)
    block = ("\n".join(next(lines) for _ in range(200_000)) + "\n").encode()
    with path.open("wb") as file:
        file.write(("\n".join(begin()) + "\n").encode())
        while file.tell() < megabytes << 20:
            file.write(block[: (megabytes << 20) - file.tell()])


def split(path: Path, folder: Path, parts: int) -> None:
    """The same bytes as several files, cut at line ends."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["split", "-n", f"l/{parts}", path, f"{folder}/part-"], check=True)


def loop(path: Path) -> None:
    """What a script does: eight searches in every line."""
    found = 0
    with path.open("rb") as file:
        for line in file:
            for pattern in EIGHT:
                if pattern.search(line):
                    found += 1


def grep(path: Path) -> None:
    # Not into /dev/null: grep would stop at the first line.
    subprocess.run(["grep", "-c", "NCCL", path], stdout=subprocess.PIPE, check=True)


def seatrial(path: Path) -> dict[str, int]:
    """In a process of its own; its peak of resident memory comes back."""
    code = (
        "import json, resource, sys; from seatrial.cli.main import main\n"
        "try: main(['transport', sys.argv[1], '--json'])\n"
        "except SystemExit: pass\n"
        "own, kids = (resource.getrusage(w).ru_maxrss for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))\n"
        "print(json.dumps({'own': own, 'children': kids}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    said: dict[str, int] = json.loads(done.stderr.splitlines()[-1])
    return said


def timed(run: Callable[[Path], object], path: Path) -> tuple[float, object]:
    start = time.perf_counter()
    result = run(path)
    return time.perf_counter() - start, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        for words, share in (("90 % lines of NCCL", 0.9), ("4 % lines of NCCL", 0.04)):
            path, parts = Path(folder) / "all.log", Path(folder) / "parts"
            write(path, given.megabytes, share)
            split(path, parts, cores)
            seconds: dict[str, list[float]] = {}
            memory: list[dict[str, int]] = []
            for _ in range(given.rounds):
                for name, run, where in (
                    ("grep -c NCCL", grep, path),
                    ("eight regexes", loop, path),
                    ("seatrial", seatrial, path),
                    (f"seatrial, {cores} files", seatrial, parts),
                ):
                    took, said = timed(run, where)
                    seconds.setdefault(name, []).append(took)
                    memory += [said] if isinstance(said, dict) else []
            print(f"{words}, {given.megabytes} MiB, {given.rounds} rounds")
            for name, each in seconds.items():
                speeds = sorted(given.megabytes * 1.048576 / t for t in each)
                print(f"  {name:22} {statistics.median(speeds):7.1f} MB/s [{speeds[0]:.1f}, {speeds[-1]:.1f}]")
            peak = max(max(m.values()) for m in memory)
            print(f"  {'peak of one process':22} {peak / 1024:7.0f} MiB")


if __name__ == "__main__":
    main()
