"""Builds the zips of seatrial that travel to the image."""

from seatrial.ship.package import LIMIT_BYTES, Part, package

__all__ = ["LIMIT_BYTES", "Part", "package"]
