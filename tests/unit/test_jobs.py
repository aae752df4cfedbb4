"""A run on a cluster, seen from the client: what it is told, what it brings home, what it says when it cannot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seatrial.cli.main import main
from seatrial.driver.deliver import lines, pack
from seatrial.driver.tell import Progress
from seatrial.errors import EvidenceError, InputError, RunError
from seatrial.events import Layout
from seatrial.launch import jobs, jobs_collect, jobs_submitted
from seatrial.launch.jobs import LogTail, differences, follow, stop
from seatrial.launch.jobs_collect import collect
from seatrial.launch.jobs_dashboard import Dashboard, Versions
from seatrial.launch.jobs_package import local_paths, refuse_secrets
from seatrial.launch.jobs_submitted import Submission
from tests.support.trials import tiny
from tests.unit.jobs_server import Answers, serving
from tests.unit.test_jobs_delivery import sealed
from tests.unit.test_rooms import HEAVY, loaded

pytestmark = pytest.mark.unit

NAME = "seatrial-1"


@pytest.fixture(autouse=True)
def quick_and_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting, and a home of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    for module in (jobs, jobs_collect):
        monkeypatch.setattr(module, "POLL_S", 0.01)
        monkeypatch.setattr(module, "GUARD_S", 0.05)
    monkeypatch.setattr(jobs, "SHARE", 0)


@pytest.fixture
def server() -> Iterator[Answers]:
    with serving() as answers:
        yield answers


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    return sealed(tmp_path_factory.mktemp("storage"), {"worker.log": b"died\n"})


def job_log(layout: Layout, directory: str = "") -> str:
    """What the driver of a sealed run says."""
    delivery = pack(layout.root)
    where = directory or str(layout.root)
    last = f"seatrial: record {delivery.head.record} in {where}"
    return "\n".join([f"seatrial: run directory {where}", "said", *lines(delivery), last, ""])


def test_a_log_is_said_once_by_whole_lines_without_the_delivery(server: Answers, layout: Layout) -> None:
    log = job_log(layout)
    said: list[str] = []
    tail = LogTail(Dashboard(server.address), NAME)
    for end in (0, 30, 70, 90, 4000, len(log)):
        server.job("RUNNING", log[:end])
        said += tail.more()
    assert said == [line for line in log.splitlines() if not line.startswith("seatrial-record ")]


def test_following_outlasts_a_dashboard_that_fails_for_a_while(server: Answers) -> None:
    server.job("RUNNING", "one\n")
    server.say(f"/api/jobs/{NAME}", "no upstream", status=503, kind="text/plain")
    server.say(f"/api/jobs/{NAME}", {"submission_id": NAME, "status": "SUCCEEDED", "metadata": {}})
    server.say(f"/api/jobs/{NAME}/logs", {"logs": "one\ntwo"})
    said: list[str] = []
    assert follow(Dashboard(server.address), NAME, said.append).status == "SUCCEEDED"
    assert [said[0], said[-1]] == ["one", "two"]
    assert "HTTP 503: no upstream; asking again" in said[1]


def test_following_ends_when_there_is_no_answer_for_too_long(server: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "LOST_S", 0.03)
    server.say(f"/api/jobs/{NAME}", "no upstream", status=503, kind="text/plain")
    with pytest.raises(RunError, match=rf"the run goes on there: `seatrial attach {NAME}`"):
        follow(Dashboard(server.address), NAME, print)


def test_what_is_wrong_only_later_is_no_wrong_input(server: Answers) -> None:
    server.job("RUNNING", "one\n")
    server.say(f"/api/jobs/{NAME}", "Forbidden", status=403, kind="text/plain")
    with pytest.raises(RunError, match="the run goes on there"):
        follow(Dashboard(server.address), NAME, print)
    server.by_path.clear()
    with pytest.raises(RunError, match="was the cluster started anew"):
        follow(Dashboard(server.address), NAME, print)


def test_a_record_is_collected_through_the_log(server: Answers, layout: Layout, tmp_path: Path) -> None:
    server.job("FAILED", job_log(layout, "/not/mounted/here"))
    dashboard = Dashboard(server.address)
    found = collect(dashboard, dashboard.job(NAME), None, tmp_path / "runs")
    assert found.record == tmp_path / "runs" / layout.root.name / "record.json"
    assert found.content["exit_code"] == 4
    again = collect(dashboard, dashboard.job(NAME), None, tmp_path / "runs")
    assert again.digest == found.digest
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [layout.root.name]


def test_mounted_storage_is_taken_for_its_digest_not_its_name(server: Answers, layout: Layout, tmp_path: Path) -> None:
    server.job("FAILED", job_log(layout))
    dashboard = Dashboard(server.address)
    job = dashboard.job(NAME)
    assert collect(dashboard, job, None, tmp_path / "runs").record == layout.record
    copied = collect(dashboard, job, tmp_path / "copy", tmp_path / "runs")
    assert copied.record.is_relative_to(tmp_path / "copy")
    other = tmp_path / layout.root.name
    other.mkdir()
    (other / "record.json").write_text("{}")
    server.job("FAILED", job_log(layout, str(other)))
    assert collect(dashboard, job, None, tmp_path / "runs").record.is_relative_to(tmp_path / "runs")


def test_another_record_in_its_place_is_left_alone(server: Answers, layout: Layout, tmp_path: Path) -> None:
    server.job("FAILED", job_log(layout, "/not/mounted/here"))
    dashboard = Dashboard(server.address)
    (tmp_path / layout.root.name).mkdir()
    (tmp_path / layout.root.name / "record.json").write_text("{}")
    with pytest.raises(InputError, match="exists and holds another record"):
        collect(dashboard, dashboard.job(NAME), tmp_path, tmp_path)
    assert (tmp_path / layout.root.name / "record.json").read_text() == "{}"


@pytest.mark.parametrize(
    ("status", "log", "message", "error", "said"),
    [
        ("RUNNING", "", "", InputError, "has not ended (RUNNING)"),
        ("PENDING", "", "", InputError, "has not ended (PENDING)"),
        ("FAILED", "", "runtime_env setup failed: no network", RunError, "before it began: runtime_env setup failed"),
        ("STOPPED", "", "", RunError, "before it began: no log"),
        ("FAILED", "seatrial: storage.path: cannot write\n", "", RunError, "before it began: seatrial: storage.path"),
        ("FAILED", "seatrial: run directory /fsx/r\n", "", RunError, "holds no record; where the cluster's storage"),
        ("FAILED", "seatrial: run directory /fsx/r\nseatrial-record 1/9 x\n", "", RunError, "without its first line"),
    ],
)
def test_what_cannot_be_collected(
    server: Answers, tmp_path: Path, status: str, log: str, message: str, error: type[Exception], said: str
) -> None:
    server.job(status, log, message=message)
    dashboard = Dashboard(server.address)
    with pytest.raises(error) as caught:
        collect(dashboard, dashboard.job(NAME), None, tmp_path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_torn_copy_leaves_nothing_behind(server: Answers, layout: Layout, tmp_path: Path) -> None:
    log = job_log(layout, "/fsx/run")
    server.job("FAILED", log.replace("seatrial-record 2/", "seatrial-record 3/"))
    dashboard = Dashboard(server.address)
    with pytest.raises(RunError, match=r"piece 2/\d+ is missing; where the cluster's storage is mounted, .* /fsx/run"):
        collect(dashboard, dashboard.job(NAME), tmp_path / "runs", tmp_path)
    assert not (tmp_path / "runs").exists()


def test_a_copy_that_is_not_what_was_sealed_is_refused(server: Answers, tmp_path: Path) -> None:
    changed = sealed(tmp_path / "storage", {"worker.log": b"died\n"})
    (changed.logs / "worker.log").write_bytes(b"lived\n")
    server.job("FAILED", job_log(changed, "/not/mounted/here"))
    dashboard = Dashboard(server.address)
    with pytest.raises(EvidenceError, match=r"is not what was sealed: logs/worker.log: changed"):
        collect(dashboard, dashboard.job(NAME), tmp_path / "runs", tmp_path)
    assert list((tmp_path / "runs").iterdir()) == []


def test_stop_waits_for_the_seal(server: Answers) -> None:
    dashboard = Dashboard(server.address)
    server.job("RUNNING", "seatrial: run directory /fsx/r\n")
    job = dashboard.job(NAME)
    server.say(f"/api/jobs/{NAME}/stop", {"stopped": True})
    server.by_path[f"/api/jobs/{NAME}"] = []
    server.say(f"/api/jobs/{NAME}", {"submission_id": NAME, "status": "STOPPED", "metadata": {}})
    for log in ("", "seatrial: run directory /fsx/r\nseatrial: sealed /fsx/r/record.json\n"):
        server.say(f"/api/jobs/{NAME}/logs", {"logs": log or "seatrial: run directory /fsx/r\n"})
    said: list[str] = []
    assert stop(dashboard, job, said.append) == "/fsx/r/record.json"
    assert "seatrial: run directory /fsx/r" not in said
    assert ("POST", f"/api/jobs/{NAME}/stop", "") in server.asked


def test_stop_says_that_there_is_no_seal(server: Answers) -> None:
    dashboard = Dashboard(server.address)
    server.job("STOPPED", "")
    assert stop(dashboard, dashboard.job(NAME), print) == ""
    server.job("FAILED", "seatrial: run directory /fsx/r\n")
    with pytest.raises(RunError, match="ended unsealed; `seatrial judge /fsx/r` seals it"):
        stop(dashboard, dashboard.job(NAME), print)


def test_differences_are_named_and_an_old_python_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "version", lambda _: "2.58.1")
    monkeypatch.setattr("platform.python_version", lambda: "3.11.7")
    assert differences(Versions("2.58.0", "3.11.2")) == []
    assert "runs Ray 2.60.0, this client 2.58.1" in differences(Versions("2.60.0", "3.11.2"))[0]
    assert "older than 2.56" in differences(Versions("2.9.3", "3.11.2"))[1]
    assert "runs Python 3.13.0, this client 3.11.7" in differences(Versions("2.58.1", "3.13.0"))[0]
    assert "could not be seen" in differences(Versions("2.58.1", ""))[0]
    with pytest.raises(InputError, match=r"runs Python 3\.10\.4; expected Python 3\.11"):
        differences(Versions("2.58.1", "3.10.4"))


def test_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EvidenceError, match="no run was submitted from here"):
        jobs_submitted.find("last")
    names = ("seatrial-20260101-a", "seatrial-20260102-b", "seatrial-20260102-c")
    notes = [Submission(name, "http://head:8265", "tiny", "2026-01-01T00:00:00Z") for name in names]
    for note in notes:
        jobs_submitted.keep(note)
    assert jobs_submitted.folder() == tmp_path / ".local/state/seatrial/runs"
    assert jobs_submitted.find(names[0]) == jobs_submitted.find("20260101") == notes[0]
    with pytest.raises(EvidenceError, match="2 runs match"):
        jobs_submitted.find("20260102")
    with pytest.raises(EvidenceError, match="no run matches"):
        jobs_submitted.find("x")
    (jobs_submitted.folder() / f"{names[1]}.json").write_text("{}")
    with pytest.raises(EvidenceError, match="is no file of a submitted run"):
        jobs_submitted.find("20260102-b")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert jobs_submitted.folder() == tmp_path / "state/seatrial/runs"


def test_a_secret_is_refused_before_anything_is_asked() -> None:
    trial = tiny({"runtimeEnv": {"env_vars": {"HF_TOKEN": "hf_abcdefghijklmnopqrstuvwxyz"}}})
    with pytest.raises(InputError, match=r"runtimeEnv\.env_vars\.HF_TOKEN: looks like a secret") as caught:
        refuse_secrets(trial)
    assert "hf_abc" not in str(caught.value)
    refuse_secrets(tiny({"runtimeEnv": {"env_vars": {"NCCL_DEBUG": "INFO", "MAX_TOKENS": "2048"}}}))


def test_paths_of_this_machine_are_named(tmp_path: Path) -> None:
    data = {"train": f"{tmp_path}/train", "heldout": "/fsx/heldout"}
    trial = tiny({"storage": {"path": f"{tmp_path}/runs"}}, data=data)
    said = list(local_paths(trial, tmp_path))
    assert [line.partition(":")[0] for line in said] == ["storage.path", "workload.data.train"]
    assert list(local_paths(trial, None)) == list(local_paths(trial, tmp_path / "elsewhere")) == []


def test_progress_says_a_step_when_all_ranks_have_made_it() -> None:
    progress = Progress(tiny(steps=2))
    said = [
        line
        for name, event in (
            ("driver", {"event": "phase_started", "phase": "train"}),
            ("driver", {"event": "train_attempt", "attempt": 2, "status": "RUNNING", "workers": [{"node": "a"}] * 2}),
            ("driver", {"event": "train_attempt", "attempt": 2, "status": "RUNNING", "workers": [{"node": "a"}] * 2}),
            ("rank-0", {"event": "evaluated", "phase": "before", "items": [[0, 20.0, 10, 10]]}),
            ("rank-1", {"event": "evaluated", "phase": "before", "items": [[1, 40.0, 10, 10]]}),
            ("rank-0", {"event": "step", "step": 1, "loss": 2.0}),
            ("rank-1", {"event": "step", "step": 1, "loss": 4.0}),
            ("rank-0", {"event": "step", "step": 2, "loss": None}),
            ("reload-0", {"event": "evaluated", "phase": "reload", "items": []}),
            ("rank-1", {"event": "step", "step": 2, "loss": 1.0}),
        )
        for line in progress.lines(name, event)
    ]
    attempt = "attempt 2 running, 2 ranks on 1 host"
    expected = ["train starts", attempt, "held-out before: 3.000 nats/token", "step 1/2, loss 3", "step 2/2"]
    assert said == [f"seatrial: {line}" for line in expected]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "--detach"), "--detach without --on"),
        (("run", "local.yaml", "--on", "head:8265"), "storage.path"),
        (("run", "trial.yaml", "--on", "head:8265"), "seatrial: --on: saw head:8265; expected"),
        (("run", "trial.yaml", "--on", "http://127.0.0.1:1"), "seatrial: --on: http://127.0.0.1:1 cannot be reached"),
        (("attach",), "no run was submitted from here"),
        (("stop", "last"), "no run was submitted from here"),
        (("collect", "x"), "no run was submitted from here"),
    ],
)
def test_mistakes_are_one_line(words: tuple[str, ...], said: str, in_tmp: Path, capsys: Any) -> None:
    for name, path in (("trial", "/fsx/runs"), ("local", "s3://bucket/runs")):
        (in_tmp / f"{name}.yaml").write_text(json.dumps(tiny({"storage": {"path": path}}).resolved()))
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_a_run_submitted_elsewhere_is_found_on_its_cluster(
    server: Answers, layout: Layout, in_tmp: Path, capsys: Any
) -> None:
    server.job("FAILED", job_log(layout, "/not/mounted/here"))
    listed = [{"submission_id": name, "status": "FAILED", "metadata": {}} for name in ("raysubmit_x", NAME)]
    server.say("/api/jobs/", listed)
    with pytest.raises(SystemExit) as ended:
        main(["collect", "last", "--on", server.address, "--json"])
    assert ended.value.code == 4
    assert json.loads(capsys.readouterr().out)["run"] == layout.root.name
    assert (in_tmp / "runs" / layout.root.name / "report.html").is_file()


def test_to_attach_stop_and_collect_needs_no_ray() -> None:
    names = ("cli.attach", "cli.stop", "cli.collect", "launch.jobs", "launch.jobs_package")
    assert loaded("\n".join(f"import seatrial.{name}" for name in names)) & HEAVY == set()
