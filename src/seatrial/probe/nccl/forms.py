"""The line forms, three tables: what each line says, in which versions it is written, and where that stands.

`FORMS` are facts and what is often taken for trouble, `TROUBLES` matter when the path is not the one that was meant,
`OF_LIBFABRIC` have no frame of NCCL's. `versions` are those of NCCL (or of the OFI plugin, `ofi`) in which a form was
found. Every form is accepted at every version: vendors backport. Patterns see the message behind the frame.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

NCCL = "github.com/NVIDIA/nccl: src/"
OFI = "github.com/aws/aws-ofi-nccl: src/"
LIBFABRIC = "github.com/ofiwg/libfabric: "


@dataclass(frozen=True)
class Form:
    """One form of a line. `kind` is `fact`, `trouble` (it matters, and `meaning` says why) or `noise`."""

    name: str
    pattern: re.Pattern[bytes]
    versions: str
    meaning: str
    source: str
    kind: str = "fact"


def form(name: str, pattern: str, versions: str, meaning: str, source: str, kind: str = "fact") -> Form:
    return Form(name, re.compile(pattern.encode()), versions, meaning, source, kind)


_INIT = (
    r"(?:\[Rank \d+\] )?(?P<call>ncclComm\w+ )?comm (?P<comm>0x[0-9a-f]+)"
    r" rank (?P<rank>\d{1,7}) n[rR]anks (?P<size>\d{1,7})"
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
        rf"{_INIT} nNodes (?P<nodes>\d{{1,7}}) localRanks (?P<local>\d+) localRank \d+",
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

TROUBLES: tuple[Form, ...] = (
    form(
        "ofi-failed",
        r"NET/OFI (?:aws-ofi-nccl initialization failed|Initializing plugin failed)",
        "ofi 1.2–1.21",
        "the plugin gave up: NCCL goes to its Socket network unless NCCL_NET pins another",
        OFI + "nccl_ofi_net.cpp",
        "trouble",
    ),
    form(
        "ofi-no-protocol",
        r"NET/OFI Unable to find a protocol that worked\.",
        "ofi 1.13–1.21",
        "neither of the plugin's protocols could start",
        OFI + "nccl_ofi_net.cpp",
        "trouble",
    ),
    form(
        "ofi-no-provider",
        r"NET/OFI (?:Couldn't find any optimal provider|No eligible providers were found)",
        "ofi 1.1–1.21",
        "no EFA device in the container, or a libfabric without efa: does the pod ask for vpc.amazonaws.com/efa?",
        OFI + "nccl_ofi_ofiutils.cpp",
        "trouble",
    ),
    form(
        "ofi-getinfo",
        r"NET/OFI OFI fi_getinfo\(\) call failed",
        "ofi 1.1–1.21",
        "libfabric finds no provider: /dev/infiniband not in the pod, memlock too low, or FI_PROVIDER misspelt",
        OFI + "nccl_ofi_ofiutils.cpp",
        "trouble",
    ),
    form(
        "ofi-only-efa",
        r"NET/OFI Only EFA provider is supported",
        "ofi 1.1–1.5",
        "this node has no EFA: normal on sizes without it",
        OFI + "nccl_ofi_net.c",
        "trouble",
    ),
    form(
        "ofi-gdr-required",
        r"NET/OFI GDR disabled on GDR-supported instance type",
        "ofi 1.7.4–1.21",
        "the plugin refuses P instances without GPUDirect RDMA: driver or libfabric lacks HMEM",
        OFI + "nccl_ofi_net.cpp",
        "trouble",
    ),
    form(
        "ofi-gdr-off",
        r"NET/OFI (?:Could not disable CUDA API usage for HMEM, disabling GDR"
        r"|Setting NCCL_PROTO ?[=t].*GDR not supported|Need to force simple protocol: GDR not supported)",
        "ofi 1.7.4–1.21",
        "GPUDirect RDMA is off: normal on G instances, a loss on P instances",
        OFI + "nccl_ofi_api.cpp",
        "trouble",
    ),
    form(
        "ofi-libfabric-old",
        r"NET/OFI EFA provider requires at least libfabric version",
        "ofi 1.8–1.21",
        "another libfabric comes first in LD_LIBRARY_PATH",
        OFI + "nccl_ofi_net.cpp",
        "trouble",
    ),
    form(
        "ofi-nics",
        r"NET/OFI Wrong number of NICs for device",
        "ofi 1.7–1.14",
        "the pod has fewer EFA interfaces than its host",
        OFI + "nccl_ofi_rdma.cpp",
        "trouble",
    ),
    form(
        "ofi-register",
        r"NET/OFI Unable to register memory",
        "ofi 1.1–1.8",
        "nvidia-peermem or GPUDirect missing, or an EFA driver older than 1.29 with NCCL 2.19 and later",
        OFI + "nccl_ofi_sendrecv.c",
        "trouble",
    ),
    form(
        "ofi-unreachable",
        r"NET/OFI Request .* completed with error",
        "ofi 1.1–1.21",
        "a transfer failed; with `No route to host`: the security group "
        "lacks a rule for all traffic to and from itself",
        OFI + "nccl_ofi_cq.cpp",
        "trouble",
    ),
    form(
        "plugin-missing",
        r"(?:NET/Plugin ?: (?:dlerror=|.*No plugin found|Could not find: )|External network plugin )",
        "2.8–2.30",
        "no network plugin was found or usable: NCCL uses its own networks",
        NCCL + "plugin/net.cc",
        "trouble",
    ),
    form(
        "plugin-fallback",
        r"Failed to initialize (?:any )?NET plugin ",
        "2.27–2.30",
        "a network plugin failed",
        NCCL + "plugin/net.cc",
        "trouble",
    ),
    form(
        "shm-segment",
        r"Error while creating shared memory segment",
        "2.8–2.30",
        "/dev/shm is too small; a pod has 64 MiB unless it mounts more",
        NCCL + "misc/shmutils.cc",
        "trouble",
    ),
    form(
        "p2p-disabled",
        r"P2P is disabled between (?:NVLINK )?connected GPUs",
        "2.12–2.30",
        "GPUs that could reach each other may not: ACS, IOMMU or virtualisation",
        NCCL + "graph/paths.cc",
        "trouble",
    ),
    form(
        "ib-gdr-disabled",
        r"NET/\S+ : GPU Direct RDMA Disabled for HCA",
        "2.8–2.30, subsystem NET",
        "nvidia_peermem does not match the driver",
        NCCL + "transport/net_ib.cc",
        "trouble",
    ),
    form(
        "nvls-failed",
        r"Failed to bind NVLink SHARP",
        "2.27–2.30",
        "NVLS could not be set up: fabric manager or driver",
        NCCL + "transport/nvls.cc",
        "trouble",
    ),
    form(
        "peer-gone",
        r"(?:socketProgress: Connection closed by remote peer|NET/IB ?: Got completion from peer)",
        "2.8–2.30",
        "a peer went away or a transfer failed",
        NCCL + "misc/socket.cc",
        "trouble",
    ),
)

# libfabric writes to stderr, with a frame of its own or none.
OF_LIBFABRIC: tuple[Form, ...] = (
    form(
        "fi-no-rdma-read",
        r"FI_EFA_USE_DEVICE_RDMA=1 was set by user, but EFA device has no rdma-read capability",
        "libfabric 1.9 on",
        "the process aborts: unset FI_EFA_USE_DEVICE_RDMA on this size",
        LIBFABRIC + "prov/efa/src/",
        "trouble",
    ),
    form(
        "fi-no-peer",
        r"libfabric:.*Failed to register CUDA buffer with the EFA device",
        "libfabric 1.9 on, FI_LOG_LEVEL=warn",
        "no GPUDirect RDMA: normal on G instances",
        LIBFABRIC + "prov/efa/src/",
        "trouble",
    ),
    form(
        "fi-empty",
        r"libfabric:.*provider efa output empty list",
        "libfabric 1.9 on, FI_LOG_LEVEL=warn",
        "no EFA device is visible in the container",
        LIBFABRIC + "src/fabric.c",
        "trouble",
    ),
)
