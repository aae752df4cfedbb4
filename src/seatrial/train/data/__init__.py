"""The data of a trial: documents, tokens and rows, and their digests."""

from seatrial.train.data.opening import open_data
from seatrial.train.data.tokens import IGNORED, Dataset, Sample, stacked

__all__ = ["IGNORED", "Dataset", "Sample", "open_data", "stacked"]
