"""Images: references, the digests that registries give for them, and whether two references name the same image.

This file imports nothing: code that only reads references must not load a registry client.
"""
