"""`from seatrial.callbacks.transformers import ObserveCallback`."""

from seatrial.train.callbacks.transformers import ObserveCallback

__all__ = ["ObserveCallback"]
