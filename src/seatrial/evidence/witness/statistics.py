"""Two scores of the same items: what changed, and whether chance alone would do it; and summaries of long series.

Items are right or wrong: McNemar's test in its exact binomial form, which asks only the items that changed (McNemar,
Psychometrika 12, 1947; Fagerland, Lydersen and Laake, BMC Med. Res. Methodol. 13:91, 2013), and Tango's score interval
for a difference of paired proportions (Tango, Statistics in Medicine 17, 1998), which stays honest where few or none
changed. Graded scores: percentile interval of a paired bootstrap over items (Efron and Tibshirani, 1993).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import TypeVar

from seatrial.evidence.facts.learning import Paired

Z95 = 1.959963984540054
MAX_POINTS = 1000  # of a series in a record
MOST_DRAWS = 10_000_000  # of a bootstrap; beyond a thousand items fewer resamples say the same

V = TypeVar("V")


def compare(before: Sequence[float], after: Sequence[float], resamples: int, seed: int) -> Paired:
    """The comparison of scores of the same items in the same order, of which there is at least one."""
    differences = [b - a for a, b in zip(before, after, strict=True)]
    total, gained, lost = len(differences), sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    change = math.fsum(differences) / total
    if {*before, *after} <= {0.0, 1.0}:
        low, high = tango(gained, lost, total)
        return Paired(total, change, low, high, gained, lost, mcnemar(gained, lost), "exact McNemar, Tango interval")
    low, high, drawn = bootstrap(differences, resamples, seed)
    return Paired(total, change, low, high, gained, lost, None, f"paired bootstrap, {drawn} resamples, seed {seed}")


def mcnemar(gained: int, lost: int) -> float:
    """Two-sided exact p of a split at least this uneven among the items that changed: binomial(n, 1/2)."""
    changed = gained + lost
    term, tail = 1, 0
    for k in range(min(gained, lost) + 1):
        tail += term
        term = term * (changed - k) // (k + 1)
    return min(1.0, 2 * tail / (1 << changed))


def tango(gained: int, lost: int, items: int, z: float = Z95) -> tuple[float, float]:
    """Where the score statistic of (gained − lost) / items reaches ∓z, by bisection."""
    middle = (gained - lost) / items

    def edge(outside: float, wanted: float) -> float:
        inside = middle
        for _ in range(60):
            half = (inside + outside) / 2
            if abs(_score(gained, lost, items, half)) < wanted:
                inside = half
            else:
                outside = half
        return (inside + outside) / 2

    return edge(-1.0, z), edge(1.0, z)


def _score(gained: int, lost: int, items: int, difference: float) -> float:
    """Tango's statistic for a true difference; infinite where the difference cannot be."""
    a = 2.0 * items
    b = -gained - lost + (2 * items - gained + lost) * difference
    c = -lost * difference * (1 - difference)
    share = (math.sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)  # the likeliest share of lost items
    distance = gained - lost - items * difference
    spread = items * (2 * share + difference * (1 - difference))
    return distance / math.sqrt(spread) if spread > 1e-12 else (0.0 if distance == 0 else math.inf)


def items_for(margin: float, z: float = Z95) -> int:
    """How many items, none of them changed, it takes for the interval to stay within a margin (Tango at 0 and 0)."""
    return math.ceil(z * z * (1 - margin) / margin) if margin > 1e-12 else 0


def bootstrap(differences: Sequence[float], resamples: int, seed: int) -> tuple[float, float, int]:
    """2.5th and 97.5th percentile of the mean of items drawn with replacement, and the resamples drawn.

    Python's Mersenne Twister, so that the same record gives the same interval on every machine.
    """
    count = len(differences)
    drawn = max(1000, min(resamples, MOST_DRAWS // count))
    generator = random.Random(seed)
    means = sorted(math.fsum(generator.choices(differences, k=count)) / count for _ in range(drawn))
    cut = int(drawn * 0.025)
    return means[cut], means[drawn - 1 - cut], drawn


def thin(points: Sequence[V]) -> list[V]:
    """At most `MAX_POINTS` of a series, evenly spread, first and last kept."""
    if len(points) <= MAX_POINTS:
        return list(points)
    last = len(points) - 1
    return [points[i * last // (MAX_POINTS - 1)] for i in range(MAX_POINTS)]


def quantile(ordered: Sequence[float], share: float) -> float:
    """Linear interpolation between closest ranks of a sorted, non-empty list (the usual `numpy.percentile`)."""
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)
