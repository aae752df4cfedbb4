"""The sealed account of one run: write it, verify it, find it."""

from seatrial.record.seal import latest, read_record, seal
from seatrial.record.verify import Verification, find, find_run, verify

__all__ = ["Verification", "find", "find_run", "latest", "read_record", "seal", "verify"]
