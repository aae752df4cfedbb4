"""Paired comparison: McNemar and Tango against their definitions, the bootstrap against itself."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.evidence.witness.statistics import Z95, bootstrap, compare, items_for, mcnemar, tango

pytestmark = pytest.mark.unit


def by_counting(gained: int, lost: int) -> Fraction:
    """Two-sided p by going through every way that coins could fall for the items that changed."""
    changed = gained + lost
    uneven = abs(gained - lost)
    falls = sum(abs(changed - 2 * sum(coins)) >= uneven for coins in product((0, 1), repeat=changed))
    return Fraction(falls, 2**changed)


@pytest.mark.parametrize(("gained", "lost"), [(0, 0), (1, 0), (2, 0), (5, 0), (6, 0), (3, 3), (7, 2), (2, 9), (10, 1)])
def test_mcnemar_counts_every_fall_of_the_coins(gained: int, lost: int) -> None:
    assert mcnemar(gained, lost) == pytest.approx(float(by_counting(gained, lost)), rel=1e-12)


def test_five_items_are_not_enough_and_six_are() -> None:
    assert mcnemar(5, 0) == 0.0625
    assert mcnemar(6, 0) == 0.03125


def test_mcnemar_of_many_items_ends_soon() -> None:
    assert mcnemar(4000, 4000) == 1.0
    assert 0 < mcnemar(4400, 4000) < 1e-4


def likeliest(gained: int, lost: int, items: int, difference: float) -> float:
    """The share of lost items with the largest likelihood where gained − lost is `difference` of all: by a grid."""

    def log_likelihood(share: float) -> float:
        cells = ((gained, share + difference), (lost, share), (items - gained - lost, 1 - 2 * share - difference))
        return sum(n * math.log(max(p, 1e-300)) for n, p in cells if n)

    low, high = max(0.0, -difference), (1 - difference) / 2
    for _ in range(6):  # ever finer grids
        grid = [low + (high - low) * k / 400 for k in range(401)]
        best = max(grid, key=log_likelihood)
        width = (high - low) / 100
        low, high = max(grid[0], best - width), min(grid[-1], best + width)
    return best


@pytest.mark.parametrize(("gained", "lost", "items"), [(12, 2, 50), (3, 9, 60), (1, 0, 40), (8, 5, 40)])
def test_tango_ends_where_the_score_statistic_says(gained: int, lost: int, items: int) -> None:
    for difference, wanted in zip(tango(gained, lost, items), (Z95, -Z95), strict=True):
        share = likeliest(gained, lost, items, difference)
        spread = items * (2 * share + difference * (1 - difference))
        assert (gained - lost - items * difference) / math.sqrt(spread) == pytest.approx(wanted, abs=2e-3)


def test_tango_stays_honest_where_nothing_changed() -> None:
    low, high = tango(0, 0, 40)
    assert high == pytest.approx(Z95**2 / (40 + Z95**2))
    assert low == pytest.approx(-high)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
@settings(max_examples=60)
def test_the_interval_holds_the_change_and_mirrors(gained: int, lost: int, same: int) -> None:
    items = max(1, gained + lost + same)
    gained, lost = (gained, lost) if gained + lost + same else (0, 0)
    low, high = tango(gained, lost, items)
    assert -1 <= low <= (gained - lost) / items <= high <= 1
    again = tango(lost, gained, items)
    assert (-again[1], -again[0]) == pytest.approx((low, high), abs=1e-9)


def test_items_for_a_margin_are_the_fewest() -> None:
    least = items_for(0.02)
    assert tango(0, 0, least)[1] <= 0.02 < tango(0, 0, least - 1)[1]


def test_graded_scores_take_the_bootstrap_and_it_comes_again() -> None:
    before, after = [0.1, 0.4, 0.5, 0.2] * 10, [0.3, 0.4, 0.9, 0.3] * 10
    seen = compare(before, after, 1000, 7)
    assert seen.p is None
    assert seen == compare(before, after, 1000, 7)
    assert seen.change == pytest.approx(0.175)
    assert seen.low < seen.change < seen.high
    normal = 1.96 * math.sqrt(sum((b - a - 0.175) ** 2 for a, b in zip(before, after, strict=True)) / 40 / 40)
    assert (seen.high - seen.low) / 2 == pytest.approx(normal, rel=0.2)


def test_the_bootstrap_of_many_items_draws_less() -> None:
    assert bootstrap([0.5, 1.0], 1200, 0)[2] == 1200
    assert bootstrap([0.5] * 300, 10, 0)[2] == 1000  # and never fewer than that


def test_right_and_wrong_take_mcnemar() -> None:
    seen = compare([0.0] * 8 + [1.0] * 2, [1.0] * 8 + [1.0, 0.0], 10_000, 0)
    assert (seen.items, seen.gained, seen.lost, seen.change) == (10, 8, 1, pytest.approx(0.7))
    assert seen.p == pytest.approx(float(by_counting(8, 1)))
