"""Facts of a team's own script: what Ray Train and the probes say from outside, and its ranks where they observe."""
