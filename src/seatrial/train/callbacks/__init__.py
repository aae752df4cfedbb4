"""`observe()` inside frameworks that own the loop."""
