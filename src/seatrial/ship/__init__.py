"""The one place that builds what travels to the image."""

from seatrial.ship.package import LIMIT_BYTES, Part, package

__all__ = ["LIMIT_BYTES", "Part", "package"]
