"""What an observer reads of a host: real /proc of this process, and made-up ones."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from seatrial.driver import block
from seatrial.errors import EvidenceError
from seatrial.probe import gpus, loaded, observed, tcp_info, train_logs
from seatrial.probe.sockets import socket_inodes

pytestmark = pytest.mark.unit


def test_a_connection_has_carried_what_went_over_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as one:
        two, _ = server.accept()
        with two:
            before = tcp_info.by_inode()[str(os.fstat(one.fileno()).st_ino)]
            one.sendall(b"x" * 100_000)
            read = 0
            while read < 100_000:
                read += len(two.recv(1 << 17))
            table = tcp_info.by_inode()
            there, here = table[str(os.fstat(two.fileno()).st_ino)], table[str(os.fstat(one.fileno()).st_ino)]
            assert there.received == 100_000
            assert here.sent - before.sent == 100_000
            assert (here.local, here.remote) == (there.remote, there.local)
            assert here.local == f"127.0.0.1:{one.getsockname()[1]}"
            assert str(os.fstat(one.fileno()).st_ino) in (socket_inodes(os.getpid()) or ())


def test_what_this_interpreter_has_loaded() -> None:
    assert loaded.python(os.getpid()) == f"{sys.version_info[0]}.{sys.version_info[1]}"
    folders = loaded.sites(os.getpid())
    assert any((Path(folder) / "pydantic_core").is_dir() for folder in folders)
    assert loaded.devices(os.getpid()) == []
    assert loaded.libraries(2**22 + 1) is None


def fake(tmp_path: Path, pid: int, maps: Sequence[tuple[Path, int | None]], start: int = 1000, title: str = "") -> Path:
    """A /proc with one process, whose maps name files with their inodes, or with None a deleted one."""
    proc = tmp_path / "proc"
    folder = proc / str(pid)
    (folder / "fd").mkdir(parents=True, exist_ok=True)
    rows = []
    for path, inode in maps:
        mark = f"{path} (deleted)" if inode is None else str(path)
        rows.append(f"7f00-7f01 r-xp 00000000 fe:01 {inode or 7} {mark}\n")
    (folder / "maps").write_text("".join(rows))
    (folder / "cmdline").write_text(title)
    (proc / "uptime").write_text("100000.0 1.0")
    stat(proc, pid, start)
    if not (folder / "root").is_symlink():
        (folder / "root").symlink_to("/")
    return proc


def stat(proc: Path, pid: int, start: int) -> None:
    (proc / str(pid) / "stat").write_text(f"{pid} (ray::Ray (x) y) S " + "0 " * 18 + f"{start} 0 0\n")


def library(tmp_path: Path, name: str) -> Path:
    path = tmp_path / "lib" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"\x7fELF")
    return path


def test_a_version_is_the_packages_or_the_file_names(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    (site / "nvidia_nccl_cu13-2.29.7.dist-info").mkdir(parents=True)
    (site / "nvidia_nccl_cu13-2.29.7.dist-info/METADATA").write_text("Name: nvidia-nccl-cu13\nVersion: 2.29.7\n")
    nccl = site / "nvidia/nccl/lib/libnccl.so.2"
    nccl.parent.mkdir(parents=True)
    nccl.write_bytes(b"")
    fabric, plugin = library(tmp_path, "libfabric.so.1.27.0"), library(tmp_path, "libnccl-net-ofi.so")
    maps = [(path, path.stat().st_ino) for path in (nccl, fabric, plugin)]
    found = loaded.libraries(9, fake(tmp_path, 9, maps)) or {}
    assert found["nccl"]["version"] == "2.29.7"
    assert found["nccl"]["from"] == "package nvidia-nccl-cu13"
    assert found["libfabric"]["version"] == "1.27.0"
    assert "neither a package nor" in found["ofi-plugin"]["unknown"]
    assert "torch" not in found


def test_a_file_that_was_replaced_has_no_version(tmp_path: Path) -> None:
    fabric, nccl = library(tmp_path, "libfabric.so.1.27.0"), library(tmp_path, "libnccl.so.2.29.7")
    proc = fake(tmp_path, 9, [(fabric, None), (nccl, nccl.stat().st_ino + 1)])
    found = loaded.libraries(9, proc) or {}
    assert "replaced" in found["libfabric"]["unknown"]
    assert "replaced" in found["nccl"]["unknown"]
    # The same other inode, of a file that lay there before the process started: a layered file system.
    stat(proc, 9, int((100_000 + 60) * os.sysconf("SC_CLK_TCK")))
    assert (loaded.libraries(9, proc) or {})["nccl"]["version"] == "2.29.7"


def test_a_pid_that_started_anew_is_another_process(tmp_path: Path) -> None:
    proc = fake(tmp_path, 9, [], title="ray::RayTrainWorker.execute")
    window = observed.Window([9, 10], proc, tmp_path)
    window.look()
    assert list(window.started) == [9]
    stat(proc, 9, 2000)
    window.look()
    assert window.json()["gone"] == {"9": "ended; another process has its pid now"}


def test_another_process_with_a_workers_pid_is_not_watched(tmp_path: Path) -> None:
    assert observed.Window([9], fake(tmp_path, 9, [], title="nginx: worker"), tmp_path).started == {}


def log(folder: Path, name: str, *rows: dict[str, object]) -> None:
    path = folder / "train" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"torn": ')


def test_ray_trains_logs_tell_ranks_attempts_and_checkpoints(tmp_path: Path) -> None:
    base = {"job_id": "02", "run_name": "r", "process": 7}
    made = "Checkpoint successfully created at: Checkpoint(filesystem=local, path={})"
    now = time.time_ns()
    log(
        tmp_path,
        "ray-train-sys-worker-a.log",
        {**base, "message": "x", "world_rank": 3, "local_rank": 1, "node_rank": 1},
        {**base, "message": made.format("/old"), "timestamp_ns": now - 10**11},
        {**base, "message": made.format(tmp_path), "timestamp_ns": now - 10**10},
        {**base, "job_id": "03", "message": made.format("/another/job"), "timestamp_ns": now},
    )
    log(tmp_path, "ray-train-sys-worker-b.log", {**base, "job_id": "03", "process": 8, "world_rank": 0})
    starts = [{**base, "message": f"Started training worker group of size {n}: \n-", "timestamp_ns": n} for n in (4, 2)]
    log(tmp_path, "ray-train-sys-controller-c.log", *starts)
    assert train_logs.ranks(tmp_path, "02")[7]["world_rank"] == 3
    assert list(train_logs.ranks(tmp_path, "02")) == [7]
    assert [a["workers"] for a in train_logs.attempts(tmp_path, "02")] == [2, 4]
    newest = train_logs.checkpoint(tmp_path, "02") or {}
    assert (newest["path"], newest["there"]) == (str(tmp_path), True)
    assert 10 <= newest["age_s"] <= 10.1 + (time.time_ns() - now) / 1e9  # it is rounded to a tenth
    assert train_logs.checkpoint(tmp_path, "04") is None


def test_nvidia_smi_is_read_or_not() -> None:
    read = gpus.read("0, GPU-1, NVIDIA L4, 97, 20000, 23034\n1, GPU-2, NVIDIA L4, [N/A], 0, 23034\n")["gpus"]
    assert (read[0]["utilization_percent"], read[0]["memory_used_mib"]) == (97, 20000)
    assert "utilization_percent" not in read[1]
    assert "unknown" in gpus.read("No devices were found")


def test_a_document_comes_whole_through_a_log() -> None:
    document = {"hosts": {f"node{n}": {"packages": {f"p{m}": "1.0" for m in range(50)}} for n in range(20)}}
    rows = block.encode(document).splitlines()
    noise = [line for row in rows for line in (row, "(pid=7) something else")]
    assert block.decode("\n".join(noise)) == document
    assert block.decode("nothing of it") is None
    altered = rows[3][:-3] + ("AAA" if not rows[3].endswith("AAA") else "BBB")
    for broken in (rows[:-1], [*rows[:3], altered, *rows[4:]], rows[1:], [*rows, *rows]):
        with pytest.raises(EvidenceError):
            block.decode("\n".join(broken))
