"""Summaries of long series."""

from __future__ import annotations

from typing import Any

MAX_POINTS = 1000


def thin(points: list[Any]) -> list[Any]:
    """At most `MAX_POINTS` of a series, evenly spread, first and last kept."""
    if len(points) <= MAX_POINTS:
        return points
    last = len(points) - 1
    return [points[i * last // (MAX_POINTS - 1)] for i in range(MAX_POINTS)]


def quantile(ordered: list[float], share: float) -> float:
    """Linear interpolation between closest ranks of a sorted, non-empty list (the usual `numpy.percentile`)."""
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)
