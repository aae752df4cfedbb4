"""Which form a message has. The first word says which forms can match; patterns are tried for those alone."""

from __future__ import annotations

import re

from seatrial.probe.nccl.forms import FORMS, TROUBLES, Form


def by_first_word() -> dict[bytes, tuple[Form, ...]]:
    """Forms by the words that their lines can begin with; what begins otherwise is none of them."""
    words = {
        "init": ("comm", "[Rank"), "nodes": ("comm", "[Rank"), "end": ("comm",),
        "network": ("Using",), "version": ("NCCL",), "graph": ("Pattern",), "rings": ("Connected",), "nvls": ("NVLS",),
        "socket-init": ("NET/Socket",), "plugin-missing": ("NET/Plugin", "NET/Plugin:", "External"),
        "plugin-fallback": ("Failed",), "nvls-failed": ("Failed",), "shm-segment": ("Error",), "p2p-disabled": ("P2P",),
        "ib-gdr-disabled": ("NET/IB", "NET/IBext", "NET/IBext_v8", "NET/AWS", "NET/Libfabric"),
        "peer-gone": ("socketProgress:", "NET/IB", "NET/IB:"), "no-ib": ("NET/IB", "NET/IB:"),
        "bootstrap": ("Bootstrap", "Bootstrap:"), "no-symbol": ("NET/Plugin", "NET/Plugin:"),
    }  # fmt: skip
    found: dict[bytes, tuple[Form, ...]] = {}
    for each in (*FORMS, *TROUBLES):
        for word in words.get(each.name, ("NET/OFI",) if each.name.startswith("ofi-") else ()):
            found[word.encode()] = (*found.get(word.encode(), ()), each)
    return found


_BY_WORD = by_first_word()
_COMM = tuple(each for each in FORMS if each.name in ("init", "nodes", "end"))
_ENV = tuple(each for each in FORMS if each.name == "env")


def recognise(message: bytes) -> tuple[Form, re.Match[bytes]] | None:
    """The form of a message, and its parts."""
    word = message.partition(b" ")[0]
    forms = _BY_WORD.get(word)
    if forms is None:
        forms = _COMM if word.startswith(b"ncclComm") else _ENV if word.startswith(b"NCCL_") else ()
    for each in forms:
        if found := each.pattern.match(message):
            return each, found
    return None
