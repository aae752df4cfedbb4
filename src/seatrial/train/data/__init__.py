"""Data as a pure function: documents, tokens, rows, and what they prove about themselves."""

from seatrial.train.data.tokens import Dataset, open_data

__all__ = ["Dataset", "open_data"]
