"""The trial file as frozen models, the claim registry, and the loader, whose errors name line and column."""

from seatrial.trial.claims import BASELINES, KINDS, REGISTRY, Claim
from seatrial.trial.model import API_VERSION, Trial

__all__ = ["API_VERSION", "BASELINES", "KINDS", "REGISTRY", "Claim", "Trial"]
