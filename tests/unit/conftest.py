"""Hypothesis for unit tests: few examples, no data base of its own, no deadline on a busy machine."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "unit", max_examples=100, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unit")
