"""Judges of performance: the ranks' own clocks, against what a probe outside of them saw of their steps."""

from __future__ import annotations

from seatrial.evidence.facts import performance
from seatrial.evidence.facts.reasons import Reason
from seatrial.evidence.judges.look import Answer, Look, count, not_established, refuted, supported
from seatrial.evidence.judges.transport import beside
from seatrial.trial.claims import Claim

FEWEST_STEPS = 20  # of which a 95th percentile can be told


def throughput(asked: Claim, look: Look) -> Answer:
    """Tokens per second, with the path of the bytes beside it."""
    seen, wanted = look.value(performance.TOKENS_PER_SECOND), asked.number("min")
    over = count(seen.steps, "step")
    shown = f"{seen.tokens_per_second:,.0f} tokens/s over {over} (claimed: {wanted:,g}); {beside(look)}"
    return _doubtful(look) or _held(seen.tokens_per_second >= wanted, shown)


def step_time(asked: Claim, look: Look) -> Answer:
    """The 95th percentile of step time."""
    seen, wanted = look.value(performance.STEP_TIME), asked.number("max")
    shown = f"p95 of step time {seen.p95:.3f} s over {count(seen.steps, 'step')} (claimed: at most {wanted:g} s)"
    if seen.steps < FEWEST_STEPS:
        why = f"{shown}; a 95th percentile needs at least {FEWEST_STEPS} steps"
        return not_established(Reason.UNSTABLE, why)
    return _doubtful(look) or _held(seen.p95 <= wanted, shown)


def _held(holds: bool, shown: str) -> Answer:
    return supported(shown) if holds else refuted(Reason.VALUE, shown)


def _doubtful(look: Look) -> Answer | None:
    """None if ranks agree among themselves and with the probes' clocks, else why their times are not evidence."""
    clocks, probe = look.value(performance.CLOCKS), look.fact(performance.WINDOW_BY_PROBE)
    if clocks.relative_spread > clocks.tolerance:
        return not_established(Reason.CONTRADICTION, f"the ranks' clocks differ by {clocks.relative_spread:.0%}")
    if not probe.known:
        return not_established(Reason.UNCORROBORATED, f"the ranks timed themselves: {probe.reason}")
    window = probe.value
    if not window.at_least_s - window.slack_s <= window.ranks_s <= window.at_most_s + window.slack_s:
        by_probes = f"{window.at_least_s:.1f} to {window.at_most_s:.1f} by the probes"
        said = f"the window took {window.ranks_s:.1f} s by the ranks, {by_probes}"
        return not_established(Reason.CONTRADICTION, said)
    return None
