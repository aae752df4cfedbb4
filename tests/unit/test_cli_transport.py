"""`seatrial transport` as a user calls it."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from seatrial.cli.main import main
from tests.support.nccl import Job

pytestmark = pytest.mark.unit


@pytest.fixture
def run(capsys, in_tmp):
    """Calls the command line; returns exit code, stdout, stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main(list(arguments))
        out, err = capsys.readouterr()
        return int(end.value.code or 0), out, err

    return call


@pytest.fixture
def job(in_tmp):
    def write(made: Job, folder: str = "logs") -> str:
        Path(folder).mkdir()
        for name, text in made.files().items():
            (Path(folder) / name).write_text(text)
        return folder

    return write


def snapshots(efa: int, net: int, hosts: tuple[str, ...] = ("node-0.internal", "node-1")) -> str:
    lines = []
    for moved in (0, 1):
        for host in hosts:
            counters = {
                "efa/rdmap0s6": {"tx_bytes": str(100 + moved * efa), "rx_bytes": str(moved * efa)},
                "net/eth0": {"tx_bytes": str(moved * net), "rx_bytes": str(moved * net)},
                "net/lo": {"tx_bytes": str(moved << 40), "rx_bytes": str(moved << 40)},
            }
            lines.append(json.dumps({"host": host, "counters": counters}))
    return "\n".join(lines) + "\n"


def test_a_fallback_is_refuted_with_the_lines_that_say_so(run, job):
    made = Job(net="Socket", gdr=False, extra={0: ("NET/OFI aws-ofi-nccl initialization failed",)})
    code, out, _ = run("transport", job(made), "--expect", "efa")
    assert code == 1
    assert out.startswith("between hosts: refuted: efa was expected, inter-node edges use NET/Socket\n")
    assert "[receive] via NET/Socket/0" in out
    assert "NCCL goes to its Socket network" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 120


@pytest.mark.parametrize(
    ("efa", "net", "code", "word"),
    [(1 << 30, 1000, 0, "corroborated"), (0, 1 << 30, 3, "witnesses-disagree"), (None, None, 3, "log-only")],
)
def test_exit_codes(efa, net, code, word, run, job):
    options = []
    if efa is not None:
        Path("counters.jsonl").write_text(snapshots(efa, net))
        options = ["--counters", "counters.jsonl"]
    folder = job(Job())
    found, out, _ = run("transport", folder, "--expect", "efa", *options)
    assert (found, f"between hosts: efa, {word}" in out) == (code, True)
    assert run("transport", folder, *options)[0] == 0


def test_a_snapshot_is_what_counters_takes(run, job):
    folder = job(Job())
    lines = [run("transport", "--snapshot")[1] for _ in (0, 1)]
    Path("here.jsonl").write_text("".join(lines))
    assert "net/lo" in json.loads(lines[0])["counters"]
    assert run("transport", folder, "--counters", "here.jsonl")[1].startswith(
        "between hosts: efa, log-only (no counters of"
    )
    assert run("transport")[0] == 2


def test_a_probe_s_file_is_a_witness(run, job):
    for host in ("node-0", "node-1"):
        counters = [{"efa/a": {"tx_bytes": str(n), "rx_bytes": str(n)}} for n in (5, 5 + (1 << 30))]
        events = [{"event": "opened"}, *({"event": "host_sample", "counters": c} for c in counters)]
        events.append({"event": "nccl_log", "name": f"r0.{host}.79"})
        Path(f"probe-{host}.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events))
    options = [option for host in ("node-0", "node-1") for option in ("--counters", f"probe-{host}.jsonl")]
    assert run("transport", job(Job()), "--expect", "efa", *options)[0] == 0


def test_what_was_seen_and_what_was_not(run, job):
    folder = job(Job())
    assert "only these were seen" in run("transport", folder)[1]
    assert "only these were seen" not in run("transport", folder, "--ranks", "4")[1]
    code, out, _ = run("transport", folder, "--ranks", "8", "--expect", "efa")
    assert (code, "4 ranks, 8 were expected" in out) == (3, True)


def test_json_is_one_document(run, job):
    code, out, _ = run("transport", job(Job()), "--json")
    document = json.loads(out)
    assert code == 0
    assert document["schema"] == "seatrial.transport/1"
    assert [f["question"] for f in document["findings"]] == ["internode", "gpudirect", "intranode"]
    assert document["versions"]["nccl"] == {"2.27.5": []}
    assert {"from": "node-0", "to": "node-1", "paths": {"NET/Libfabric/GDRDMA": 2}} in document["paths"]


def test_versions_that_differ_are_named(run, in_tmp):
    Path("a.log").write_text("\n".join(Job().lines(0)) + "\n")
    Path("b.log").write_text("\n".join(Job("2.26.2").lines(3)) + "\n")
    assert "nccl differs: 2.26.2 on node-1:80; 2.27.5 on node-0:79" in run("transport", "a.log", "b.log")[1]


def test_standard_input(run, monkeypatch):
    class Given:
        buffer = io.BytesIO(Job().text().encode())

    monkeypatch.setattr(sys, "stdin", Given)
    assert run("transport", "-", "--expect", "efa")[1].startswith("between hosts: efa, log-only")


def test_many_hosts_are_summed_up(run, job):
    out = run("transport", job(Job(nodes=20, local=1)))[1]
    assert "NET/Libfabric/GDRDMA: 20 pairs between hosts" in out


def test_a_page(run, job):
    made = Job(net="Socket", gdr=False, host="<b>node-{}")
    assert run("transport", job(made), "--html", "paths.html", "--expect", "efa")[0] == 1
    page = Path("paths.html").read_text()
    assert "&lt;b&gt;node-0" in page
    assert "NET/Socket" in page
    assert "<b>node" not in page
    assert "http" not in page.replace('lang="en"', "")


TESTED = """# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid   9001 on     node-0 device  0 [0000:10:1c] NVIDIA A100-SXM4-40GB
#  Rank  1 Group  0 Pid   9001 on     node-1 device  0 [0000:10:1c] NVIDIA A100-SXM4-40GB
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    110.2    9.51    9.51      0    109.8    9.55    9.55      0
   134217728      33554432     float     sum      -1   7071.6   18.98   18.98      0   7070.1   18.98   18.98    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 14.255
#
"""
OLDER = """#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
     1048576        262144   float     sum    110.2    9.51    8.51  2e-07    109.8    9.55    9.55  2e-07
     104
"""


def test_results_of_nccl_tests_are_shown_beside(run, job):
    folder = job(Job())
    Path("new.txt").write_text(TESTED)
    Path("old.txt").write_text(OLDER)
    code, out, _ = run("transport", folder, "--expect", "efa", "--nccl-tests", "new.txt")
    assert code == 3  # they corroborate nothing
    assert "all_reduce, 2 ranks on 2 hosts: busbw 18.98 GB/s at 134217728 bytes" in " ".join(out.split())
    document = json.loads(run("transport", folder, "--json", "--nccl-tests", "new.txt", "--nccl-tests", "old.txt")[1])
    new, old = document["connectivity"]
    assert (new["average"], new["best_busbw"], new["wrong"], new["hosts"]) == (14.255, 18.98, 0, ["node-0", "node-1"])
    assert old["rows"] == [[1048576, 8.51, None]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("no.log",), "no.log: does not exist; expected a log file"),
        (("empty",), "empty: holds no file"),
        (("cut.gz",), "cut.gz: cannot be read"),
        (("cut.zst",), "cut.zst: cannot be read"),
        (("ok.log", "--counters", "no.jsonl"), "no.jsonl: --counters: cannot be read"),
        (("ok.log", "--counters", "ok.log"), "ok.log:1:1: --counters: is no JSON object"),
        (("ok.log", "--counters", "one.jsonl"), "--counters: one snapshot of a"),
        (("ok.log", "--counters", "text.jsonl"), "text.jsonl:1:1: --counters: efa/x holds what is no count"),
        (("ok.log", "--counters", "nameless.jsonl"), "nameless.jsonl:2:1: --counters: names no host"),
        (("ok.log", "--nccl-tests", "ok.log"), "ok.log: --nccl-tests: holds no result"),
        (("ok.log", "--nccl-tests", "no.txt"), "no.txt: --nccl-tests: cannot be read"),
        (("ok.log", "--html", "empty"), "empty: --html: cannot be written"),
    ],
)
def test_a_mistake_is_one_line(arguments, said, run, in_tmp):
    import gzip

    Path("empty").mkdir()
    Path("ok.log").write_text(Job().text())
    Path("cut.gz").write_bytes(gzip.compress(Job().text().encode())[:-20])
    Path("cut.zst").write_bytes(b"\x28\xb5\x2f\xfdnot zstd")
    sample = '{"event": "host_sample", "counters": {"efa/x": {"tx_bytes": "1"}}}\n'
    Path("nameless.jsonl").write_text('{"event": "opened"}\n' + sample)
    Path("one.jsonl").write_text('{"host": "a", "counters": {"efa/x": {"tx_bytes": "1"}}}\n')
    Path("text.jsonl").write_text('{"host": "a", "counters": {"efa/x": {"tx_bytes": "many"}}}\n')
    code, out, err = run("transport", *arguments)
    assert code == 2
    assert said in err
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in out + err
