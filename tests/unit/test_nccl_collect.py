"""Logs of one host on their way into a run: reduced to facts, a copy kept, nothing secret in it."""

from __future__ import annotations

import gzip
import hashlib
import tempfile

import pytest

from seatrial.events import Redactor
from seatrial.probe.nccl import collect
from seatrial.probe.nccl.findings import findings
from seatrial.probe.nccl.graph import communicators
from seatrial.probe.nccl.logs import merged
from seatrial.probe.nccl.serialize import unpack
from tests.support.nccl import Job

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def written(job: Job, run: str = "run") -> dict[str, str]:
    """As NCCL does it where `variables` are set: the folder must be there."""
    collect.folder(run, 1).mkdir(parents=True)
    files = {
        f"r{rank}.{job.host.format(rank // job.local)}.{79 + rank}": text
        for rank, text in enumerate(job.files().values())
    }
    for name, text in files.items():
        (collect.folder(run, 1) / name).write_text(text)
    return files


def test_facts_copies_and_digests(tmp_path):
    files = written(Job())
    events = list(collect.collect("run", 1, tmp_path / "logs/nccl", "logs/nccl", Redactor({})))
    assert [e.name for e in events] == sorted(files)
    for event in events:
        text = files[event.name].encode()
        assert (event.bytes, event.digest) == (str(len(text)), f"sha256:{hashlib.sha256(text).hexdigest()}")
        assert gzip.decompress((tmp_path / event.kept).read_bytes()) == text
    log = merged(unpack(event.facts) for event in events)
    between = findings(log, communicators(log), ranks=4)[0]
    assert (between.value, between.word) == ("efa", "log-only")
    assert not collect.folder("run", 1).parent.exists()


def test_nothing_secret_is_kept(tmp_path):
    files = written(
        Job(extra={0: ("NCCL_FOO set by environment to hunter2-hunter2.", "HF_TOKEN=hf_abcdefghijklmnopqrstuvwx")})
    )
    redactor = Redactor({"MY_TOKEN": "hunter2-hunter2"})
    events = list(collect.collect("run", 1, tmp_path / "kept", "kept", redactor))
    assert [e.name for e in events] == sorted(files)
    for event in events:
        text = gzip.decompress((tmp_path / event.kept).read_bytes())
        assert b"hunter2" not in text
        assert b"hf_abc" not in text


def test_a_long_log_is_read_whole_and_kept_in_part(tmp_path, monkeypatch):
    monkeypatch.setattr(collect, "KEPT_BYTES", 1000)
    monkeypatch.setattr(collect, "BLOCK", 100)
    files = written(Job(nodes=1, local=1))
    (event,) = collect.collect("run", 1, tmp_path / "kept", "kept", Redactor({}))
    (text,) = files.values()
    kept = gzip.decompress((tmp_path / event.kept).read_bytes()).decode()
    assert text.startswith(kept)
    assert len(kept) <= 1000
    assert event.digest == f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def test_a_host_without_logs(tmp_path):
    assert list(collect.collect("run", 1, tmp_path / "kept", "kept", Redactor({}))) == []
    assert not (tmp_path / "kept").exists()


def test_the_file_is_named_before_nccl_starts():
    found = collect.variables("run", 2, 5)
    assert found["NCCL_DEBUG_FILE"] == str(collect.folder("run", 2) / "r5.%h.%p")
    assert found["NCCL_DEBUG"] == "INFO"
