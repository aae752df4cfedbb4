"""`seatrial check --server`: the same resources, asked of a live cluster. Only reads, and server-side dry runs."""

MODULES = ("api", "namespaces", "storage", "limits", "nodes")  # of rules, in the order in which they ask
