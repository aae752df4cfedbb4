"""`from seatrial.callbacks.lightning import ObserveCallback`."""

from seatrial.train.callbacks.lightning import ObserveCallback

__all__ = ["ObserveCallback"]
