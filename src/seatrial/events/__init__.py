"""The ONE contract between running and judging: typed events, the run directory, writer and reader."""

from seatrial.events.layout import Layout
from seatrial.events.reader import Stream, read
from seatrial.events.redact import Redactor
from seatrial.events.writer import Writer

__all__ = ["Layout", "Redactor", "Stream", "Writer", "read"]
