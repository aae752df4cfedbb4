"""`seatrial check --server`: what a live cluster says about the resources. It only reads, and makes dry runs."""

MODULES = ("api", "namespaces", "storage", "limits", "nodes")  # of rules, in the order in which they run
