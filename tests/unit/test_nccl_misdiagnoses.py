"""What people believed in public issues, and what their logs say: one job for each row, written in the same grammar.

Rows and their sources are those of the table in docs/transport.md.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, replace

import pytest

from seatrial.probe.nccl.facts import Log
from seatrial.probe.nccl.findings import Moved, findings
from seatrial.probe.nccl.graph import communicators
from seatrial.probe.nccl.reader import Reader
from seatrial.probe.nccl.summary import summary
from tests.support.nccl import Job

pytestmark = pytest.mark.unit

FAILED = "NET/OFI aws-ofi-nccl initialization failed"
GETINFO = "NET/OFI OFI fi_getinfo() call failed: No data available"
NO_PROVIDER = "NET/OFI Couldn't find any optimal provider"
SOCKET = Job(net="Socket", gdr=False)
EFA = Job()
ONE_NODE = Job(nodes=1, local=4, net="Socket", gdr=False)


def saying(job: Job, *messages: str) -> Job:
    return replace(job, extra=dict.fromkeys(range(job.size), messages))


@dataclass(frozen=True)
class Row:
    """Row `number`: what is believed, the log, and for each question value and word; `troubles` that must be named."""

    number: int
    believed: str
    job: Job | str
    internode: tuple[str, str] = ("efa", "log-only")
    gpudirect: str = ""
    intranode: str = ""
    troubles: tuple[str, ...] = ()
    counters: dict[str, Moved] | None = None
    reason: str = ""


def thinned(job: Job) -> str:
    """As Ray's driver shows it: of like lines the last one, with a count."""
    lines = [line for line in job.text().splitlines() if "Channel" not in line]
    shown = [line for line in job.text().splitlines() if "Channel" in line][-1]
    return "\n".join([*lines, f"(RayTrainWorker pid=944, ip=10.0.0.1) {shown} [repeated 15x across cluster]"]) + "\n"


def mixed(job: Job, other: Job, ranks: set[int]) -> str:
    return "".join("\n".join((other if rank in ranks else job).lines(rank)) + "\n" for rank in range(job.size))


BOTH = {"node-0": Moved(efa=(9 << 30, 9 << 30)), "node-1": Moved(efa=(9 << 30, 9 << 30))}
ETHERNET = {"node-0": Moved(net=(9 << 30, 9 << 30)), "node-1": Moved(net=(9 << 30, 9 << 30))}
ROWS = [
    Row(1, "p5 with Ray Train uses EFA", thinned(saying(SOCKET, FAILED)), ("socket", "refuted"), troubles=("ofi-failed",)),
    Row(2, "Batch uses EFA", saying(SOCKET, "NET/Plugin : No plugin found (libnccl-net.so), using internal implementation"), ("socket", "refuted"), troubles=("plugin-missing",)),
    Row(3, "EFA", saying(SOCKET, "NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or directory No plugin found (libnccl-net.so), using internal implementation"), ("socket", "refuted"), troubles=("plugin-missing",)),
    Row(4, "EFA in an NGC image", saying(SOCKET, "NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin."), ("socket", "refuted"), troubles=("plugin-missing",)),
    Row(5, "EFA in a p5 pod", saying(SOCKET, GETINFO, FAILED), ("socket", "refuted"), troubles=("ofi-getinfo", "ofi-failed")),
    Row(6, "p4d has GPUDirect", saying(SOCKET, "NET/OFI GDR disabled on GDR-supported instance type p4d.24xlarge", FAILED), ("socket", "refuted"), troubles=("ofi-gdr-required", "ofi-failed")),
    Row(7, "NVLS hangs", saying(SOCKET, "NET/OFI No eligible providers were found"), ("socket", "refuted"), troubles=("ofi-no-provider",)),
    Row(8, "EFA is broken on a g5.xlarge", saying(SOCKET, "NET/OFI Only EFA provider is supported"), ("socket", "refuted"), troubles=("ofi-only-efa",)),
    Row(9, "a libibverbs warning is the cause", saying(SOCKET, NO_PROVIDER), ("socket", "refuted"), troubles=("ofi-no-provider",)),
    Row(10, "g6e should do GPUDirect", saying(replace(EFA, gdr=False), "NET/OFI Need to force simple protocol: GDR not supported"), ("efa", "log-only"), gpudirect="false", troubles=("ofi-gdr-off",)),
    Row(11, "p4d at full speed", replace(EFA, gdr=False, channels=2, net="AWS Libfabric", version="2.18.6"), gpudirect="false"),
    Row(12, "p4d after an upgrade", saying(SOCKET, NO_PROVIDER, FAILED), ("socket", "refuted"), troubles=("ofi-no-provider",)),
    Row(13, "the network is fine", saying(EFA, "NET/OFI Request 0x1 completed with error: err: 113 (No route to host)"), troubles=("ofi-unreachable",)),
    Row(14, "GPUDirect is on, the module is loaded", saying(replace(EFA, net="IB", gdr=False), "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'"), ("ib", "refuted"), gpudirect="false", troubles=("ib-gdr-disabled",)),
    Row(15, "NVSwitch is in use", replace(EFA, inside="SHM/direct/direct"), intranode="shm"),
    Row(16, "Socket is used and slow", ONE_NODE, ("", "insufficient"), intranode="p2p", reason="inside one node"),
    Row(17, "NVLink inside the node", replace(ONE_NODE, inside="NET/IBext/0"), ("", "insufficient"), intranode="net", reason="inside one node"),
    Row(18, "NCCL_IB_DISABLE forces Socket", saying(replace(EFA, net="IBext_v8"), "NCCL_IB_DISABLE set by environment to 1."), ("ib", "refuted")),
    Row(19, "FI_EFA_USE_DEVICE_RDMA=1 is always good", EFA.text() + "FI_EFA_USE_DEVICE_RDMA=1 was set by user, but EFA device has no rdma-read capability.  Application will abort().\n", troubles=("fi-no-rdma-read",)),
    Row(20, "RDMA write is not used, so EFA is not", EFA, ("efa", "corroborated"), counters=BOTH),
    Row(21, "a pod with part of the GPUs", replace(EFA, local=1), intranode=""),
    Row(22, "NVLS between nodes", saying(EFA, "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 1 : CUDA error 401"), troubles=("nvls-failed",)),
    Row(23, "a regression of NCCL", replace(EFA, version="2.20.5", inside="SHM/direct/direct"), intranode="shm"),
    Row(24, "gloo's interface is in NCCL's log", "node-0: [Gloo] connectFullMesh failed with local=[127.0.0.1]\n", ("", "insufficient"), reason="no line of NCCL's"),
    Row(25, "10 EFA devices on p6-b200", EFA, ("efa", "log-only")),
    Row(26, "a missing NCCL_NET is fine", SOCKET, ("socket", "refuted")),
    Row(27, "NCCL is out of memory", saying(EFA, "Error while creating shared memory segment /dev/shm/nccl-abc (size 9637888)"), troubles=("shm-segment",)),
    Row(28, "P2P is on", saying(replace(EFA, inside="SHM/direct/direct"), "P2P is disabled between connected GPUs 1 and 0. You can repress this message with NCCL_IGNORE_DISABLED_P2P=1."), intranode="shm", troubles=("p2p-disabled",)),
    Row(29, "efa was selected, so it works", EFA, ("efa", "witnesses-disagree"), counters=ETHERNET),
    Row(30, "peer registration", saying(EFA, "NET/OFI Unable to register memory (type = 2) for device 0. RC: -22"), troubles=("ofi-register",)),
    Row(31, "the bootstrap's interface is the data's", saying(EFA, "Bootstrap : Using ib0:10.1.0.1<0>"), ("efa", "log-only")),
]  # fmt: skip


def log_of(job: Job | str) -> Log:
    reader = Reader()
    reader.read(io.BytesIO((job if isinstance(job, str) else job.text()).encode()), "job.log")
    return reader.log


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.number}-{row.believed}")
def test_row(row):
    log = log_of(row.job)
    found = communicators(log)
    answers = findings(log, found, expect="efa", counters=row.counters)
    by_question = {a.question: a for a in answers}
    between = by_question["internode"]
    assert (between.value, between.word) == row.internode, between
    assert row.reason in between.reason
    if row.gpudirect:
        assert by_question["gpudirect"].value == row.gpudirect
    if row.intranode:
        assert by_question["intranode"].value == row.intranode
    named = {trouble["trouble"] for trouble in summary(log, found, answers)["troubles"]}
    assert set(row.troubles) <= named


def test_all_rows_are_here():
    assert [row.number for row in ROWS] == list(range(1, 32))


@pytest.mark.parametrize(
    ("text", "value", "word", "reason"),
    [
        (mixed(EFA, replace(SOCKET, identity=EFA.identity), {2, 3}), "efa and socket", "refuted", "NET/Socket"),
        (saying(replace(EFA, provider="tcp")).text(), "libfabric over tcp", "refuted", "efa was expected"),
        ("".join("\n".join(EFA.lines(rank)) + "\n" for rank in (0, 1, 2)), "efa", "insufficient", "of 4 ranks, 3 said"),
        ("\n".join(line for line in EFA.text().splitlines() if "Channel" not in line) + "\n", "", "insufficient", "no connection"),
        ("\n".join(line for line in EFA.text().splitlines() if "Selected" not in line) + "\n", "libfabric", "insufficient", "provider"),
        ("\n".join(line for line in EFA.text().splitlines() if "[receive]" not in line) + "\n", "efa", "insufficient", "two ends"),
        ("\n".join(line for line in EFA.text().splitlines() if " comm " not in line) + "\n", "", "insufficient", "no communicator"),
        ("\nh:1:2 [0] misc/socket.cc:1 NCCL WARN something\n", "", "insufficient", "warnings only"),
        ("NCCL version 2.21.5+cuda12.4\n", "", "insufficient", "warnings only"),
        ("", "", "insufficient", "no line of NCCL's"),
        (EFA.text().replace("Init COMPLETE", "Init HALF"), "efa", "insufficient", "did not finish"),
        (EFA.text().replace("node-1", "node-0"), "", "insufficient", ""),
        ("\n".join(x for x in SOCKET.text().splitlines() if "Channel" not in x) + "\n", "socket", "refuted", "was chosen"),
    ],
)  # fmt: skip
def test_what_is_missing_or_mixed(text, value, word, reason):
    log = log_of(text)
    between = findings(log, communicators(log), expect="efa")[0]
    assert (between.value, between.word) == (value, word), between
    assert reason in between.reason


@pytest.mark.parametrize(
    ("counters", "word", "reason"),
    [
        (None, "log-only", "no counters were given"),
        ({"node-0": BOTH["node-0"]}, "log-only", "no counters of node-1"),
        (BOTH, "corroborated", "2 hosts"),
        (ETHERNET, "witnesses-disagree", "another way on node-0, node-1"),
        ({**BOTH, "node-1": ETHERNET["node-1"]}, "witnesses-disagree", "another way on node-1"),
        ({**BOTH, "node-1": Moved(efa=(0, 0))}, "witnesses-disagree", "did not move on node-1"),
        ({**BOTH, "node-1": Moved(efa=(9 << 30, 0))}, "witnesses-disagree", "did not move on node-1"),
    ],
)
def test_the_second_witness(counters, word, reason):
    log = log_of(EFA)
    between = findings(log, communicators(log), expect="efa", counters=counters)[0]
    assert between.word == word
    assert reason in between.reason


def test_gpudirect_at_one_end_only():
    text = EFA.text().replace("[receive] via NET/Libfabric/0/GDRDMA", "[receive] via NET/Libfabric/0")
    log = log_of(text)
    found = {f.question: f for f in findings(log, communicators(log))}
    assert (found["gpudirect"].value, found["gpudirect"].word) == ("mixed", "insufficient")
    assert "two ends" in found["gpudirect"].reason


def test_links_that_the_topology_names():
    for types, value in ((("NVL",), "nvlink"), (("PIX",), "pcie-p2p"), (("NVL", "PHB"), "p2p")):
        lines = [f"Pattern 4, crossNic 0, nChannels 2, bw 20.0/20.0, type {t}/PIX, sameChannels 1" for t in types]
        log = log_of(saying(EFA, *lines))
        assert {f.question: f for f in findings(log, communicators(log))}["intranode"].value == value
