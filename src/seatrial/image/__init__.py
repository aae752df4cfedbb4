"""Which image: references, what a registry says that they name, and whether two of them are one.

Nothing is imported here: who only reads references need not load a registry's client.
"""
