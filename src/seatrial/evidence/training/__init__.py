"""Facts of the built-in training: from the events of its ranks, of the processes that reload, and of the probes."""
