"""Counters that the kernel keeps for each network device, cumulative since its driver was loaded.

EFA traffic is in the device's own counters and never in /proc/net/dev. An EFA device has `hw_counters` and no
`port_xmit_data` (amzn-drivers, kernel/linux/efa/src/efa_verbs.c); other RDMA devices have `port_xmit_data` in units of
four octets (Documentation/ABI/stable/sysfs-class-infiniband).
"""

from __future__ import annotations

from pathlib import Path

from seatrial.canon import exact
from seatrial.probe.interfaces import PROC, SYS, rdma, text

EFA_VENDOR = "0x1d0f"
WORD_BYTES = 4
NO_TRAFFIC = {"lifespan"}  # how often the device refreshes the others, in milliseconds
# The columns of /proc/net/dev, in order: eight received, eight sent.
_COLUMNS = ("bytes", "packets", "errs", "drop", "fifo", "frame", "compressed", "multicast")
_KEPT = {"bytes": "bytes", "packets": "packets", "errs": "errors", "drop": "drops"}

Counters = dict[str, dict[str, str]]


def read(proc: Path = PROC, sys: Path = SYS) -> Counters:
    """All of them, by `net/INTERFACE`, `efa/DEVICE` and `ib/DEVICE`, as decimal strings. What cannot be read is absent.

    Interfaces are those of this process's network namespace; the RDMA devices of /sys are the whole machine's.
    """
    return {**_interfaces(proc), **_rdma(sys)}


def _interfaces(proc: Path) -> Counters:
    found: Counters = {}
    for line in text(proc / "net/dev").splitlines():
        name, colon, rest = line.rpartition(":")
        figures = rest.split()
        if not colon or len(figures) != 2 * len(_COLUMNS):
            continue  # the two lines of headings
        halves = (("rx", figures[: len(_COLUMNS)]), ("tx", figures[len(_COLUMNS) :]))
        found[f"net/{name.strip()}"] = {
            f"{way}_{_KEPT[column]}": exact(int(figure))
            for way, half in halves
            for column, figure in zip(_COLUMNS, half, strict=True)
            if column in _KEPT
        }
    return found


def _rdma(sys: Path) -> Counters:
    devices = {path: rdma(path) for path in sorted((sys / "class/infiniband").glob("*"))}
    efa = [path for path, kind in devices.items() if kind.get("vendor") == EFA_VENDOR or kind.get("driver") == "efa"]
    if efa:
        # A machine with EFA has no InfiniBand network: what else shows up there (ibp* on p6-b200) manages NVLink.
        found = {f"efa/{path.name}": _sum(path, "hw_counters") for path in efa}
    else:
        found = {f"ib/{path.name}": _data(path) for path in devices}
    return {name: {k: exact(v) for k, v in sorted(values.items())} for name, values in found.items() if values}


def _sum(device: Path, folder: str) -> dict[str, int]:
    """Every counter of a device, over its ports."""
    found: dict[str, int] = {}
    for path in device.glob(f"ports/*/{folder}/*"):
        figure = text(path)
        if path.name not in NO_TRAFFIC and figure.isdigit():
            found[path.name] = found.get(path.name, 0) + int(figure)
    return found


def _data(device: Path) -> dict[str, int]:
    words = _sum(device, "counters")
    names = {"port_xmit_data": "tx_bytes", "port_rcv_data": "rx_bytes"}
    return {name: words[file] * WORD_BYTES for file, name in names.items() if file in words}
