"""The line forms, one table: what each says, in which versions it is written, and where that stands.

`versions` are those of NCCL (or of the OFI plugin, `ofi`) in which a form was found; every form is accepted at every
version, because vendors backport. Patterns see the message behind the frame. A form's first word finds it.
"""

from __future__ import annotations

import re

from seatrial.probe.nccl.form import NCCL, OFI, Form, form
from seatrial.probe.nccl.troubles import TROUBLES

_INIT = (
    r"(?:\[Rank \d+\] )?(?P<call>ncclComm\w+ )?comm (?P<comm>0x[0-9a-f]+) rank (?P<rank>\d+) n[rR]anks (?P<size>\d+)"
)
_ID = r"(?: commId (?P<id>0x[0-9a-f]+))?"
FORMS: tuple[Form, ...] = (
    form(
        "init",
        rf"{_INIT} cudaDev (?P<dev>\d+)(?: nvmlDev \d+)? busId [0-9a-f]+(?: parent (?P<parent>0x[0-9a-f]+))?"
        r"(?: (?:splitCount|childCount) \d+)?(?: color (?P<color>-?\d+) key -?\d+)?"
        rf"{_ID} ?- (?P<stage>Init START|Init COMPLETE)",
        "2.8–2.30; COMPLETE only before 2.18.3, commId from 2.16, nvmlDev from 2.18.3, the call's name from 2.21",
        "a rank of a communicator",
        NCCL + "init.cc",
    ),
    form(
        "nodes",
        rf"{_INIT} nNodes (?P<nodes>\d+) localRanks (?P<local>\d+) localRank \d+",
        "2.20–2.30",
        "how many nodes a communicator spans",
        NCCL + "init.cc",
    ),
    form(
        "end",
        rf"{_INIT} cudaDev \d+ busId [0-9a-f]+ - (?P<stage>Destroy|Abort|Revoke) COMPLETE",
        "2.12–2.30; not in the default subsystems from 2.28",
        "a communicator was given up",
        NCCL + "init.cc",
    ),
    form(
        "network", r"Using network (?P<name>.+?)\s*$", "2.8–2.30", "the network of the communicator", NCCL + "init.cc"
    ),
    form("version", r"NCCL version (?P<version>\d+\.\d+\.\d+)\S*", "2.8–2.30", "the NCCL that runs", NCCL + "init.cc"),
    form(
        "graph",
        r"Pattern \d+, crossNic \d+, nChannels \d+, (?:bw|speed) \S+, type (?P<intra>\w+)/(?P<inter>\w+)",
        "2.8–2.30, subsystem GRAPH",
        "the link types that the topology search found",
        NCCL + "graph/search.cc",
    ),
    form(
        "rings",
        r"Connected all rings(?:, use ring PXN \d GDR (?P<gdr>\d))?",
        "2.8–2.30",
        "connections are made",
        NCCL + "init.cc",
    ),
    form(
        "nvls",
        r"NVLS comm 0x[0-9a-f]+ headRank",
        "2.18–2.30",
        "NVLS is set up inside a node",
        NCCL + "transport/nvls.cc",
    ),
    form(
        "env",
        r"(?P<name>NCCL_\w+) set (?:by environment )?to (?P<value>.*?)\.?\s*$",
        "2.8–2.30",
        "a setting",
        NCCL + "misc/param.cc",
    ),
    form(
        "socket-init",
        r"NET/Socket ?: Using ",
        "2.8–2.30",
        "the Socket network was initialised",
        NCCL + "transport/net_socket.cc",
    ),
    form(
        "ofi-version",
        r"NET/OFI (?:Using|Initializing) aws-ofi-nccl (?P<version>\S+)",
        "ofi 1.1.4–1.21",
        "the plugin was loaded",
        OFI + "nccl_ofi_net.cpp",
    ),
    form(
        "ofi-libfabric",
        r"NET/OFI Using Libfabric version (?P<version>\S+)",
        "ofi 1.8–1.21",
        "the libfabric that was loaded",
        OFI + "nccl_ofi_net.cpp",
    ),
    form(
        "ofi-provider",
        r"NET/OFI Selected [pP]rovider is (?P<name>[^ ,]+)(?:, fabric is (?P<fabric>[^ ,]+))?"
        r"(?: \(found (?P<nics>\d+) nics\))?",
        "ofi 1.1–1.21",
        "the provider that the plugin chose; it may still fail",
        OFI + "nccl_ofi_net.cpp",
    ),
    form(
        "ofi-protocol",
        r"NET/OFI Using transport protocol (?P<name>\w+)",
        "ofi 1.7–1.21",
        "the plugin's protocol",
        OFI + "nccl_ofi_net.cpp",
    ),
    # Often taken for trouble.
    form(
        "no-ib",
        r"NET/IB ?: No device found",
        "2.8–2.30",
        "normal beside EFA: NCCL's own InfiniBand network has no device",
        NCCL + "transport/net_ib.cc",
        "noise",
    ),
    form(
        "bootstrap",
        r"Bootstrap ?: Using ",
        "2.8–2.30",
        "out of band, always TCP: says nothing about the data's path",
        NCCL + "bootstrap.cc",
        "noise",
    ),
    form(
        "no-symbol",
        r"NET/Plugin ?: Failed to find nccl\w+ symbol",
        "2.8–2.30",
        "an older plugin interface is used",
        NCCL + "plugin/net.cc",
        "noise",
    ),
)


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
