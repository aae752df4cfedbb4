"""Lines to facts: every form at every version, behind every wrapper, torn, interleaved and de-duplicated."""

from __future__ import annotations

import gzip
import io
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.probe.nccl.facts import Log
from seatrial.probe.nccl.findings import CORROBORATED, INSUFFICIENT, LOG_ONLY, REFUTED, Moved, findings
from seatrial.probe.nccl.forms import FORMS
from seatrial.probe.nccl.graph import communicators
from seatrial.probe.nccl.logs import files, read
from seatrial.probe.nccl.paths import CHANNEL, transport_path
from seatrial.probe.nccl.reader import Reader, connections
from seatrial.probe.nccl.recognise import recognise
from seatrial.probe.nccl.serialize import pack, unpack
from tests.support.nccl import NCCL, Job

pytestmark = pytest.mark.unit
EFA = {"node-0": Moved(efa=(1 << 30, 1 << 30)), "node-1": Moved(efa=(1 << 30, 1 << 30))}


def log_of(*texts: str | bytes) -> Log:
    reader = Reader()
    for number, text in enumerate(texts):
        reader.read(io.BytesIO(text if isinstance(text, bytes) else text.encode()), f"{number}.log")
    return reader.log


def answers(log: Log, **options) -> dict[str, tuple[str, str]]:
    return {f.question: (f.value, f.word) for f in findings(log, communicators(log), **options)}


@pytest.mark.parametrize("version", NCCL)
@pytest.mark.parametrize(
    ("net", "gdr", "value"),
    [
        ("Libfabric", True, "efa"),
        ("AWS Libfabric", False, "efa"),
        ("Socket", False, "socket"),
        ("IBext_v8", True, "ib"),
    ],
)
def test_a_whole_log_answers_at_every_version(version, net, gdr, value):
    log = log_of(Job(version, net=net, gdr=gdr).text())
    found = answers(log)
    assert found["internode"] == (value, LOG_ONLY), version
    assert found["gpudirect"] == (str(gdr).lower(), LOG_ONLY)
    assert found["intranode"] == ("p2p", LOG_ONLY)
    (communicator,) = communicators(log)
    assert (communicator.size, communicator.nodes, communicator.missing) == (4, 2, [])
    assert log.torn == 0


PATHS = {
    "P2P/IPC": "P2P/IPC", "P2P/IPC/read": "P2P/IPC", "P2P/CUMEM/read/CE": "P2P/CUMEM", "P2P/MNNVL": "P2P/MNNVL",
    "P2P/direct pointer": "P2P/direct pointer", "P2P/indirect/3[1a0]": "P2P/indirect/3",
    "direct shared memory": "SHM", "SHM/direct/direct": "SHM", "SHM/CE/direct": "SHM", "SHM/direct": "SHM",
    "NET/Socket/0": "NET/Socket", "NET/AWS Libfabric/0/GDRDMA/Shared": "NET/AWS Libfabric/GDRDMA",
    "NET/IB/0(3)/GDRDMA": "NET/IB/GDRDMA", "NET/Libfabric/12/GDRDMA(PCI)": "NET/Libfabric/GDRDMA",
    "COLLNET/SHARP/0": "COLLNET/SHARP",
}  # fmt: skip


@pytest.mark.parametrize(("text", "path"), PATHS.items())
def test_paths(text, path):
    found = transport_path(text.encode())
    assert str(found) == path
    assert found.pxn == ("(3)" in text)
    assert transport_path(text.encode() + b"x") is None or "Libfabric" in text


@pytest.mark.parametrize("text", ["NET/Sock", "NET/Libfabric/", "NET/Libfabric/0/GDR", "P2P/CU", "SHM/dir", "", "NET"])
def test_what_is_cut_is_no_path(text):
    assert transport_path(text.encode()) is None


LINES = {
    "init": [
        "comm 0x7f1 rank 0 nranks 16 cudaDev 0 busId 101c0 - Init COMPLETE",
        "comm 0x7f1 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 53000 commId 0xa1 - Init START",
        "ncclCommSplit comm 0x7f1 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 53000 parent 0x7e0 color 3 key 0 commId 0xa1 - Init START",
        "ncclCommSplit comm 0x7f1 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 53000 parent 0x7e0 splitCount 1 color 3 key 0- Init START",
        "[Rank 2] ncclCommInitRankConfig comm 0x7f1 rank 2 nranks 8 cudaDev 2 nvmlDev 2 busId 53000 commId 0xa1 - Init START",
    ],
    "nodes": ["comm 0x7f1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0"],
    "end": ["comm 0x7f1 rank 0 nranks 16 cudaDev 0 busId 101c0 - Destroy COMPLETE"],
    "network": ["Using network AWS Libfabric", "Using network Socket"],
    "version": ["NCCL version 2.26.2+cuda12.2"],
    "graph": ["Pattern 4, crossNic 0, nChannels 12, bw 20.000000/20.000000, type NVL/PIX, sameChannels 1"],
    "rings": ["Connected all rings", "Connected all rings, use ring PXN 0 GDR 1"],
    "nvls": ["NVLS comm 0x7f1 headRank 0 nHeads 8"],
    "env": ["NCCL_SOCKET_IFNAME set by environment to eth0", "NCCL_IB_DISABLE set by environment to 1.", "NCCL_IB_HCA set to mlx5"],
    "socket-init": ["NET/Socket : Using [0]eth0:10.0.0.1<0>"],
    "ofi-version": ["NET/OFI Using aws-ofi-nccl 1.4.0aws", "NET/OFI Initializing aws-ofi-nccl 1.13.2-aws"],
    "ofi-libfabric": ["NET/OFI Using Libfabric version 1.22"],
    "ofi-provider": [
        "NET/OFI Selected Provider is efa", "NET/OFI Selected Provider is efa (found 4 nics)",
        "NET/OFI Selected provider is efa, fabric is efa-direct (found 16 nics)",
    ],
    "ofi-protocol": ["NET/OFI Using transport protocol RDMA (platform set)", "NET/OFI Using transport protocol SENDRECV"],
    "ofi-failed": ["NET/OFI aws-ofi-nccl initialization failed"],
    "ofi-no-provider": ["NET/OFI Couldn't find any optimal provider", "NET/OFI No eligible providers were found"],
    "ofi-gdr-off": [
        'NET/OFI Setting NCCL_PROTO to "simple" as GDR not supported', "NET/OFI Need to force simple protocol: GDR not supported",
    ],
    "plugin-missing": [
        "NET/Plugin : No plugin found (libnccl-net.so), using internal implementation",
        "NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or directory No plugin found (libnccl-net.so), using internal implementation",
        "NET/Plugin: No plugin found (libnccl-net.so)",
        "NET/Plugin: Could not find: libnccl-net-ofi.so libnccl-net.so. Using internal network plugin.",
    ],
    "no-symbol": ["NET/Plugin: Failed to find ncclCollNetPlugin_v8 symbol."],
    "no-ib": ["NET/IB : No device found."],
    "bootstrap": ["Bootstrap : Using eth0:10.0.0.1<0>", "Bootstrap: Using eth0:10.0.0.1<0>"],
}  # fmt: skip


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in LINES.items() for text in texts])
def test_forms(name, text):
    form, _ = recognise(text.encode())
    assert form.name == name


def test_every_fact_form_has_a_line_here():
    assert {form.name for form in FORMS} <= set(LINES)


def test_what_only_looks_like_a_connection():
    log = log_of("h:1:1 [0] NCCL INFO Channel 00/24 :    0   1   2   3\n")
    assert (log.torn, [p.torn for p in log.processes.values()]) == (0, [0])


WRAPPERS = {
    "ray": "(RayTrainWorker pid=944, ip=10.67.132.117) {}",
    "ray-colour": "\x1b[36m(RayTrainWorker pid=944, ip=10.67.132.117)\x1b[0m {}",
    "ray-nested": "(EngineCore_DP0 pid=1088) (RayWorkerWrapper pid=285, ip=10.0.0.1) {}",
    "torchrun": "[rank0]:{}",
    "tee": "[default0]:{}",
    "mpirun": "[1,26]<stdout>:{}",
    "srun": "2: {}",
    "kubectl": "2025-05-16T16:39:51.208123456Z {}",
    "cloudwatch": " | 2025-05-16T16:39:51.208-07:00 | {}",
    "nccl-time": "[2026-05-05 06:16:47] {}",
    "cri": "2025-05-16T16:39:51.208123456Z stdout F {}",
    "crlf": "{}\r",
}


@pytest.mark.parametrize("wrapper", WRAPPERS, ids=list(WRAPPERS))
def test_wrappers(wrapper):
    job = Job()
    text = "".join(WRAPPERS[wrapper].format(line) + "\n" for line in job.text().splitlines())
    assert answers(log_of(text))["internode"] == ("efa", LOG_ONLY)


def test_json_records_of_a_log_driver():
    records = [
        json.dumps({"log": f"{line}\n", "stream": "stdout", "time": "2025-05-16T16:39:51Z"}) for line in Job().text().splitlines()
    ]  # fmt: skip
    assert answers(log_of("\n".join(records) + "\n"))["internode"] == ("efa", LOG_ONLY)


def test_partial_lines_of_a_container_runtime_are_joined():
    when, lines = "2025-05-16T16:39:51.2Z stdout", Job().text().splitlines()
    text = "".join(f"{when} P {line[:50]}\n{when} F {line[50:]}\n" for line in lines)
    assert answers(log_of(text))["internode"] == ("efa", LOG_ONLY)
    log = log_of(text + f"{when} P node-0:79:200 [0] NCCL INFO Chan\n")
    assert log.unfinished == 1


def test_parts_of_lines_are_joined_however_few_lines_are_nccl_s(monkeypatch):
    """The end of a line that was cut has no word by which it could be found."""
    monkeypatch.setattr("seatrial.probe.nccl.reader.BLOCK", 2000)
    when = "2025-05-16T16:39:51.2Z stdout"
    other = "".join(f"{when} F step {n}: loss 2.3, tokens 4096\n" for n in range(40))
    text = other + "".join(f"{when} P {line[:50]}\n{when} F {line[50:]}\n{other}" for line in Job().text().splitlines())
    log = log_of(text)
    assert answers(log)["internode"] == ("efa", LOG_ONLY)
    assert (log.torn, log.unfinished, [p.torn for p in log.processes.values()]) == (0, 0, [0] * 4)


def test_a_warning_has_its_own_frame():
    for place in ("misc/socket.cc:416", "plugin/net.cc:334 (ncclNetInit)", "nccl_ofi_net_create:335"):
        log = log_of(
            f"\n[2026-05-05 06:16:47] h:1:2 [3] {place} NCCL WARN NET/OFI aws-ofi-nccl initialization failed\n"
        )
        ((_, process),) = log.processes.items()
        assert list(process.trouble) == ["ofi-failed"]


def test_processes_that_write_into_each_others_lines():
    whole = "node-0:79:200 [0] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/Socket/0"
    other = "node-1:79:200 [0] NCCL INFO Using network Libfabric"
    log = log_of(f"{whole}{other}\n")
    assert [connections(p) for p in log.processes.values()] == [[], []]
    assert sum(p.torn for p in log.processes.values()) == 2


def test_a_torn_tail_is_no_evidence():
    log = log_of("6/0 : 10[2] -> 11[3] via P2P/CUMEM\nNCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/Socket/0\n")
    assert log.processes == {}
    assert log.torn == 1
    cut = log_of("node-0:79:200 [0] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/Libfabric/0")
    assert [connections(p) for p in cut.processes.values()] == [[]]


def test_a_log_that_ray_has_thinned_out_proves_nothing():
    lines = Job().text().splitlines()
    text = "\n".join([*lines[:-1], f"{lines[-1]}\x1b[32m [repeated 15x across cluster]\x1b[0m"]) + "\n"
    log = log_of(text)
    assert log.repeated == 15
    assert answers(log)["internode"] == ("efa", INSUFFICIENT)


def test_one_pid_in_two_pods_is_two_processes():
    """Every pod counts its processes from one."""
    log = log_of(Job(host="pod-{}").text())
    assert len({p.writer for p in log.processes.values()}) == 4


def test_the_same_output_in_two_files_counts_once(tmp_path):
    for name, text in Job().files().items():
        (tmp_path / name).write_text(text)
        (tmp_path / f"again-{name}").write_bytes(gzip.compress(text.encode()))
    log = read(files([tmp_path]))
    assert answers(log)["internode"] == ("efa", LOG_ONLY)
    parts = [read([path]) for path in files([tmp_path])]
    from seatrial.probe.nccl.logs import merged

    assert answers(merged(parts)) == answers(log)


def test_zstd(tmp_path):
    zstandard = pytest.importorskip("zstandard")
    (tmp_path / "all.log.zst").write_bytes(zstandard.ZstdCompressor().compress(Job().text().encode()))
    assert answers(read(files([tmp_path])))["internode"] == ("efa", LOG_ONLY)


def test_several_communicators_share_a_process():
    """HSDP: a world of 4 over two nodes, and a group inside each node: no network is expected there."""
    world = Job()
    inside = {r: Job(nodes=1, local=2, identity=f"0xbeef{r // 2}") for r in range(4)}
    text = ""
    for rank in range(4):
        local = rank % 2
        own = [m.replace("0x5500", f"0x66{rank:02d}") for m in inside[rank].messages(local)]
        text += "".join(f"{world.writer(rank)} NCCL INFO {m}\n" for m in world.messages(rank) + own)
    log = log_of(text)
    assert sorted((c.size, c.nodes, len(c.members)) for c in communicators(log)) == [(2, 1, 2), (2, 1, 2), (4, 2, 4)]
    assert answers(log)["internode"] == ("efa", LOG_ONLY)


@given(st.binary(max_size=2000))
@settings(max_examples=200)
def test_any_bytes(data):
    answers(log_of(data))


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_bytes_in_a_good_log(data):
    text = Job().text().encode()
    at = data.draw(st.integers(0, len(text)))
    junk = data.draw(st.binary(max_size=200))
    answers(log_of(text[:at] + junk + text[at:]))


ORDER = {CORROBORATED: 2, LOG_ONLY: 1, INSUFFICIENT: 0}


@given(st.integers(0, 10_000), st.sampled_from(["Libfabric", "Socket"]), st.booleans())
@settings(max_examples=120, deadline=None)
def test_less_of_a_log_never_says_more(seed, net, shuffled):
    """With the communicators' lines in place, cutting goes down: corroborated, log-only, insufficient; and from refuted
    to insufficient."""
    chance = random.Random(seed)
    lines = Job(net=net, gdr=net != "Socket").text().splitlines(keepends=True)
    kept = [line for line in lines if " comm " in line or "provider" in line or chance.random() > 0.15]
    if shuffled:
        head = [line for line in kept if "Channel" not in line]
        tail = [line for line in kept if "Channel" in line]
        chance.shuffle(tail)
        kept = head + tail
    if kept and chance.random() < 0.5:
        kept[-1] = kept[-1][: chance.randrange(len(kept[-1]))]
    before = answers(log_of("".join(lines)), expect="efa", ranks=4, counters=EFA)["internode"]
    after = answers(log_of("".join(kept)), expect="efa", ranks=4, counters=EFA)["internode"]
    if net == "Socket":
        assert (before[1], after[1] in (REFUTED, INSUFFICIENT)) == (REFUTED, True)
    else:
        assert before[1] == CORROBORATED
        assert ORDER[after[1]] <= ORDER[before[1]]


def test_a_channel_line_is_what_the_grammar_says():
    found = CHANNEL.match(b"7[7] -> 8[0] [send] via NET/AWS Libfabric/0/GDRDMA comm 0xab nRanks 32")
    assert (found["a"], found["b"], found["dir"], found["path"], found["comm"]) == (
        b"7", b"8", b"send", b"NET/AWS Libfabric/0/GDRDMA", b"0xab",
    )  # fmt: skip


@given(st.sampled_from(NCCL), st.sampled_from(["Libfabric", "Socket", "IB"]), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_facts_travel_as_json(version, net, nodes, local):
    log = log_of(Job(version, net=net, nodes=nodes, local=local).text())
    again = unpack(json.loads(json.dumps(pack(log))))
    assert answers(again, expect="efa") == answers(log, expect="efa")
    assert again == log


def test_what_is_no_packed_log():
    for document in ({}, {"processes": [1]}, {**pack(Log()), "processes": [{"writer": {}}]}):
        with pytest.raises(ValueError, match="no facts of a log"):
            unpack(document)
