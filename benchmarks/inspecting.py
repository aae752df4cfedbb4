"""Does looking at a job slow it down? A foreign training on two hosts (network namespaces, gloo), step by step.

`python -m benchmarks.inspecting [ROUNDS]`, as root: rounds without and with `seatrial inspect` from another machine, in
turns, and the time between the ends of rank 0's steps in each. Two figures with it: over the observers' window, and
before it, when Ray starts a job and a process on each host.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from tests.hosts import conftest, machines
from tests.hosts.test_inspect import Foreign, Laptop

WINDOW_S = 20
ROUNDS = 5
PAUSE_S = 0.02  # the rest of a step is work that a busy processor would lengthen


@dataclass
class Times:
    """Median time between steps of each round, in ms."""

    without: list[float] = field(default_factory=list)
    window: list[float] = field(default_factory=list)
    start: list[float] = field(default_factory=list)


def main(rounds: int) -> None:
    with conftest.running("b", dashboard=True) as there:
        laptop = Laptop(machines.outsider(there.hosts), there)
        foreign = Foreign(there, "foreign", 1_000_000, PAUSE_S)
        times = Times()
        for number in range(rounds):
            measure(laptop, foreign, times, laptop.host.home / f"round-{number}")
        report(times)


def measure(laptop: Laptop, foreign: Foreign, times: Times, to: Path) -> None:
    begun = time.time()
    time.sleep(WINDOW_S)
    times.without.append(between(foreign, begun, time.time()))
    begun = time.time()
    process = laptop.start("--window", str(WINDOW_S), "--to", str(to), "--json")
    out, _ = process.communicate(timeout=300)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, "seatrial inspect", out + laptop.said())
    since = window_began(to)
    times.window.append(between(foreign, since, since + WINDOW_S))
    times.start.append(between(foreign, begun, since))


def window_began(to: Path) -> float:
    """When the observers began to look; the hosts share this machine's clock."""
    (record,) = to.glob("*/record.json")
    events = [json.loads(line) for path in record.parent.glob("events/a1/*.jsonl") for line in path.open()]
    begun = min(e["content"]["window"]["from"] for e in events if e.get("layer") == "observation")
    return datetime.fromisoformat(begun).timestamp()


def between(foreign: Foreign, since: float, until: float) -> float:
    """Median time between two steps that both ended in a span, in ms."""
    ends = [moment for moment in foreign.steps() if since <= moment <= until]
    return 1000 * statistics.median(later - earlier for earlier, later in pairwise(ends))


def report(times: Times) -> None:
    rest = statistics.median(times.without)
    for name, found in (("without", times.without), ("window", times.window), ("before it", times.start)):
        middle = statistics.median(found)
        spread = f"{min(found):.1f} to {max(found):.1f}"
        print(f"{name:<14} {middle:6.1f} ms a step ({spread}), {100 * (middle / rest - 1):+.1f} %")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
