"""Data as a pure function: documents, tokens, rows, and what they prove about themselves."""

from seatrial.train.data.opening import open_data
from seatrial.train.data.tokens import IGNORED, Dataset, Sample, stacked

__all__ = ["IGNORED", "Dataset", "Sample", "open_data", "stacked"]
