"""seatrial: each thing promised about a training run is shown, or is not."""

__version__ = "0.1.0"
