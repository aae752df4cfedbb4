"""Connection lines: the only statement that NCCL makes about a pair of ranks.

- P2P: `Channel 00 : 0[101c0] -> 1[101d0] via P2P/IPC`; `/CE` from 2.13, `Channel 00/0 :` from 2.14, `P2P/CUMEM`
  from 2.18.1, decimal `0[0] -> 1[1]` from 2.18.3, `P2P/MNNVL` from 2.20.
- SHM: `via direct shared memory`; `via SHM/direct/direct` from 2.13, `via SHM/direct` at 2.30.7.
- NET: `[send] via NET/AWS Libfabric/0[/GDRDMA][/Shared]`; `(3)` behind the device from 2.12 is PXN, the bytes leave by
  another GPU's interface; `/GDRDMA(PCI)` from 2.26.2.

The sender alone states P2P and SHM, both ends state NET.
Source: NVIDIA/nccl, `src/transport/{p2p,shm,net,coll_net}.cc`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# The connection line, INIT|P2P/SHM/NET, so it is in a default INFO log. `a` and `b` are ranks of one communicator.
CHANNEL = re.compile(
    rb"(?P<a>\d{1,9})(?:\[[0-9a-f]+\])? -> (?P<b>\d{1,9})(?:\[[0-9a-f]+\])? "
    rb"(?:\[(?P<dir>send|receive)\] )?via (?P<path>.+?)(?: comm (?P<comm>0x[0-9a-f]+) nRanks \d+)?$"
)
_NET = re.compile(
    rb"NET/(?P<name>[^/]+)/(?P<dev>\d{1,9})(?:\((?P<pxn>\d+)\))?(?P<gdr>/GDRDMA(?:\(PCI\))?)?(?:/Shared)?$"
)
_P2P = re.compile(rb"P2P/(?P<name>CUMEM|IPC|MNNVL|direct pointer|indirect/\d+\[[^\]]+\])(?:/read)?(?:/CE)?$")
_SHM = re.compile(rb"(?:direct shared memory|SHM(?:/(?:direct|CE)){1,2})$")
_COLLNET = re.compile(rb"COLLNET/(?P<name>[^/]+)/\d+(?:/GDRDMA)?$")


@dataclass(frozen=True)
class TransportPath:
    """The transport of one connection: `kind` is net, p2p, shm or collnet; `name` as NCCL writes it."""

    kind: str
    name: str
    device: int = -1
    gdr: bool = False
    pxn: bool = False

    def __str__(self) -> str:
        if self.kind == "net":
            return f"NET/{self.name}{'/GDRDMA' if self.gdr else ''}"
        return {"p2p": f"P2P/{self.name}", "shm": "SHM", "collnet": f"COLLNET/{self.name}"}[self.kind]


def transport_path(text: bytes) -> TransportPath | None:
    """The path of a connection line; None for what no version writes, which is then torn."""
    if found := _NET.match(text):
        return TransportPath(
            "net", found["name"].decode("utf-8", "replace"), int(found["dev"]), bool(found["gdr"]), bool(found["pxn"])
        )
    if found := _P2P.match(text):
        return TransportPath("p2p", found["name"].decode().partition("[")[0])
    if _SHM.match(text):
        return TransportPath("shm", "SHM")
    if found := _COLLNET.match(text):
        return TransportPath("collnet", found["name"].decode("utf-8", "replace"))
    return None
