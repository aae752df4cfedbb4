"""Bytes that a host's counters moved by in the steady window, against what the plan says that its ranks sent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from seatrial.events import Stream
from seatrial.events.planned import Tolerances, need
from seatrial.events.wires import HostSample
from seatrial.evidence.witness.connections import Pair
from seatrial.plan.traffic import Sent


@dataclass(frozen=True)
class CounterWindow:
    """The samples of one probe inside the steady window. Steps are the least and the most that its ranks had done."""

    samples: tuple[HostSample, ...]
    first_done: tuple[int, int]
    last_done: tuple[int, int]
    seconds: float
    until: str  # UTC of the last sample

    def steps(self, slack_s: float) -> tuple[float, float, float]:
        """How many steps' bytes lie between the two samples, by what was written; at least; at most.

        A sample says which steps are done. One more may be under way, and as many as fit between reading the ranks'
        files and reading the counters.
        """
        done = min(self.last_done) - min(self.first_done)
        edge = 1 + done / self.seconds * slack_s
        fewest = self.last_done[0] - self.first_done[1] - edge
        return float(done), max(0.0, fewest), self.last_done[1] - self.first_done[0] + edge


@dataclass(frozen=True)
class Band:
    """What the plan allows a counter to have moved by: decimal strings, and the steps that they are for."""

    expected_bytes: str
    at_least_bytes: str
    at_most_bytes: str
    steps: float

    def word(self, sent_bytes: int) -> str:
        """Where a counter stands: within, below, above, or still if it moved by less than a hundredth of the least."""
        least, most = int(self.at_least_bytes), int(self.at_most_bytes)
        if sent_bytes < least:
            return "still" if sent_bytes < least / 100 else "below"
        return "above" if sent_bytes > most else "within"

    def __str__(self) -> str:
        return f"{int(self.at_least_bytes):,} to {int(self.at_most_bytes):,}"


def window(probe: Stream, ranks: int, first: int, last: int) -> CounterWindow | None:
    """Samples with counters after the warm-up and before the end, where evaluation lies; None without two of them."""
    found: list[tuple[HostSample, str, tuple[int, int]]] = []
    for sample, utc in probe.dated(HostSample):
        done = [sample.steps.get(f"rank-{rank}", 0) for rank in range(ranks)]
        if sample.counters and min(done) >= max(1, first - 1) and max(done) < last:
            found.append((sample, utc, (min(done), max(done))))
    if len(found) < 2:
        return None
    (_, begin, start), (_, end, stop) = found[0], found[-1]
    seconds = datetime.fromisoformat(end).timestamp() - datetime.fromisoformat(begin).timestamp()
    if seconds <= 0 or min(stop) <= min(start):
        return None
    return CounterWindow(tuple(sample for sample, _, _ in found), start, stop, seconds, end)


def moved(samples: Sequence[HostSample], links: Iterable[str]) -> dict[str, int] | str:
    """Bytes that some interfaces together moved between the first and the last sample, or why they are not known."""
    total = {"tx_bytes": 0, "rx_bytes": 0}
    for device, name in [(f"net/{link}", name) for link in links for name in total]:
        readings = [sample.counters.get(device, {}).get(name) for sample in samples]
        if any(reading is None for reading in readings):
            return f"{device} has no {name} in every sample"
        numbers = [int(reading) for reading in readings if reading is not None]
        if any(later < earlier for earlier, later in pairwise(numbers)):
            return f"{name} of {device} went backwards: the counter is not one series"
        total[name] += numbers[-1] - numbers[0]
    return total


def expected(
    edges: Mapping[Pair, Sent], own: Iterable[int], used: Mapping[Pair, set[str]], links: set[str]
) -> tuple[Sent, Sent]:
    """What the ranks of a host send over some of its interfaces in a step: surely, and at most.

    A pair with connections over several interfaces may have used any of them.
    """
    least = most = Sent()
    members = set(own)
    for pair, each in edges.items():
        over = used.get(pair, set())
        if pair[0] in members and over & links:
            most += each
            least += each if over <= links else Sent()
    return least, most


def band(seen: CounterWindow, least: Sent, most: Sent, tolerances: Tolerances, backend: str, extra: float) -> Band:
    """The band of bytes over the window; `extra` is what checkpoints may add. Raises Nonsense without tolerances."""
    done, fewest, mostly = seen.steps(need(tolerances.sample_slack_s, "sample_slack_s"))
    below, above = tolerances.wire(backend)
    heads = most.messages * need(tolerances.wire_message_bytes, "wire_message_bytes")
    background = need(tolerances.wire_background_bytes_per_s, "wire_background_bytes_per_s") * seen.seconds
    return Band(
        expected_bytes=str(round(most.size * done)),
        at_least_bytes=str(math.floor(least.size * fewest * (1 - below))),
        at_most_bytes=str(math.ceil((most.size * (1 + above) + heads) * mostly + background + extra)),
        steps=done,
    )
