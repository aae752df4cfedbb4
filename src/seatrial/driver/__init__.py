"""Runs one trial beside Ray: prepare, freeze claims, probes and workers, judge, seal."""
