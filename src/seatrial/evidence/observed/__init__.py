"""Facts about a job that already ran when it was looked at: what its hosts' observers, Ray and Kubernetes said.

Nothing here was told by the training itself. What only a training that is told beforehand can show is unknown, each
time with the reason.
"""
