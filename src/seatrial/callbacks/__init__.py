"""Callbacks of other training frameworks, on top of `seatrial.observe`."""
