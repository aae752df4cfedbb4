"""The Python packages of this interpreter, by their own metadata."""

from __future__ import annotations

import hashlib
from importlib.metadata import distributions


def installed() -> dict[str, str]:
    """`{name: "version#digest of RECORD"}`, so that a rebuilt wheel differs; no digest where there is no RECORD."""
    found: dict[str, str] = {}
    for package in distributions():
        name = (package.metadata["Name"] or "").lower().replace("_", "-")
        # The first on sys.path is the one that imports. seatrial has a layer of its own, by its files.
        if name and name != "seatrial" and name not in found:
            record = package.read_text("RECORD")
            mark = "#" + hashlib.sha256(record.encode()).hexdigest()[:12] if record else ""
            found[name] = f"{package.version}{mark}"
    return dict(sorted(found.items()))
