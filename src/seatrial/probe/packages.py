"""The Python packages of this interpreter, by their own metadata."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.metadata import distributions


def installed(folders: Sequence[str] | None = None) -> dict[str, str]:
    """`{name: "version#digest of RECORD"}` of this interpreter, or of some folders of packages.

    With the digest a rebuilt wheel differs; where there is no RECORD, there is none.
    """
    found: dict[str, str] = {}
    for package in distributions() if folders is None else distributions(path=list(folders)):
        name = (package.metadata["Name"] or "").lower().replace("_", "-")
        # The first on sys.path is the one that imports. seatrial has a layer of its own, by its files.
        if name and name != "seatrial" and name not in found:
            record = package.read_text("RECORD")
            mark = "#" + hashlib.sha256(record.encode()).hexdigest()[:12] if record else ""
            found[name] = f"{package.version}{mark}"
    return dict(sorted(found.items()))
