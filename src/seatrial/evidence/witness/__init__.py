"""Witnesses from outside the training: connections, counters, NCCL's logs, pods; and the statistics of two scores."""
