"""Which job is meant, by what a dashboard answers; and a command that starts nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seatrial.cli.main import main
from seatrial.errors import InputError
from seatrial.events.layers import Train
from seatrial.launch.inspect import choose, dashboard
from tests.support.layers import lost
from tests.unit.jobs_server import Answers, serving

pytestmark = pytest.mark.unit

ACTORS = (
    "/api/v0/actors?limit=10000&filter_keys=class_name&filter_keys=state&filter_predicates=%3D&filter_predicates=%3D"
    "&filter_values=RayTrainWorker&filter_values=ALIVE"
)
CONTROLLERS = ACTORS.replace("RayTrainWorker", "TrainController")
NODES, JOBS, RUNS = "/api/v0/nodes?limit=10000", "/api/jobs/", "/api/train/v2/runs/v1"
OFF = "Train state data is not available. … by setting the RAY_TRAIN_ENABLE_STATE_TRACKING environment variable"


def job(ray: str, submission: str | None, status: str = "RUNNING") -> dict[str, Any]:
    return {
        "job_id": ray,
        "submission_id": submission,
        "status": status,
        "type": "SUBMISSION",
        "entrypoint": "python t",
    }


def worker(ray: str, pid: int, node: str = "n1") -> dict[str, Any]:
    return {"actor_id": f"a{pid}", "class_name": "RayTrainWorker", "job_id": ray, "node_id": node, "pid": pid}


def state(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"result": True, "msg": "", "data": {"result": {"total": len(rows), "result": list(rows)}}}


@pytest.fixture
def there() -> Iterator[Answers]:
    """A job that trains on two nodes, one that only runs, and one that has ended."""
    with serving() as answers:
        answers.say(JOBS, [job("02", "tune-1"), job("03", "serve-1"), job("04", "tune-0", "FAILED")])
        answers.say(ACTORS, state(worker("02", 7), worker("02", 8, "n2"), worker("02", 9)))
        answers.say(CONTROLLERS, state(worker("02", 5, "head"), worker("03", 6, "elsewhere")))
        answers.say(NODES, state({"node_id": "n1", "node_ip": "10.0.0.1", "node_name": "10.0.0.1", "state": "ALIVE"}))
        answers.say(RUNS, OFF, 500, "text/plain")
        yield answers


def open_(answers: Answers) -> dashboard.StateDashboard:
    return dashboard.StateDashboard.open(answers.address)[0]


@pytest.mark.parametrize("asked", ["", "tune-1", "tune", "02"])
def test_the_job_that_trains(there: Answers, asked: str) -> None:
    if asked == "tune":
        there.by_path[JOBS] = []
        there.say(JOBS, [job("02", "tune-1"), job("03", "serve-1")])
    chosen = choose.choose(open_(there), asked)
    assert (chosen.job, chosen.name, chosen.nodes()) == ("02", "tune-1", {"head": [], "n1": [7, 9], "n2": [8]})
    assert chosen.training() == {"n1": [7, 9], "n2": [8]}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("tune-9", "there is no job tune-9; did you mean tune-"),
        ("zzz", "there is no job zzz; training now: tune-1"),
        ("serve-1", "serve-1 has no worker of Ray Train now; it is RUNNING; expected a job that trains"),
        ("tune-0", "tune-0 has no worker of Ray Train now; it is FAILED"),
        ("tun", "2 jobs begin with tun"),
    ],
)
def test_a_job_that_is_not_there_or_does_not_train(there: Answers, asked: str, said: str) -> None:
    with pytest.raises(InputError) as raised:
        choose.choose(open_(there), asked)
    assert said in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_several_that_train_and_none(there: Answers) -> None:
    there.by_path[ACTORS] = []
    there.say(ACTORS, state(worker("02", 7), worker("03", 8)))
    there.say(ACTORS, state())
    cluster = open_(there)
    with pytest.raises(InputError, match="2 jobs train there: tune-1, serve-1; expected one of them"):
        choose.choose(cluster, "")
    with pytest.raises(InputError, match="2 jobs are running, without workers of Ray Train yet"):
        choose.choose(cluster, "")


def test_ray_trains_state(there: Answers) -> None:
    cluster = open_(there)
    assert "RAY_TRAIN_ENABLE_STATE_TRACKING=1" in cluster.train_runs("02")["unknown"]
    attempts = [
        {
            "attempt_id": str(n),
            "status": s,
            "start_time_ns": n,
            "workers": [{"world_rank": 0, "node_id": "n1", "pid": n}],
        }
        for n, s in ((2, "RUNNING"), (1, "ERRORED"))
    ]
    run = {"id": "r", "name": "tune", "job_id": "02", "status": "RUNNING", "attempts": attempts}
    settings = {"run_settings": {"run_config": {"storage_path": "s3://bucket/x"}}}
    there.by_path[RUNS] = []
    there.say(RUNS, {"train_runs": [{**run, **settings}, {**run, "job_id": "09"}]})
    state = cluster.train_runs("02")
    (found,) = state["runs"]
    assert lost(Train, state) == []
    assert [attempt["status"] for attempt in found["attempts"]] == ["ERRORED", "RUNNING"]
    assert found["storage_path"] == "s3://bucket/x"
    there.by_path[RUNS] = []
    there.say(RUNS, {"train_runs": [{"job_id": "02"}]})
    assert "another form" in cluster.train_runs("02")["unknown"]


def command(*words: str) -> Any:
    with pytest.raises(SystemExit) as ended:
        main(["inspect", *words])
    return ended.value.code


def test_without_actors_what_ray_says_is_sealed(
    there: Answers, in_tmp: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    claims = in_tmp / "claims.yaml"
    claims.write_text("claims: [{claim: transport.internode, equals: efa}]")
    code = command("--address", there.address, "--no-actors", "--claims", str(claims), "--json")
    shown = json.loads(capsys.readouterr().out)
    assert code == 3
    assert shown["evidence"]["execution"]["execution.job"]["value"]["submission_id"] == "tune-1"
    (verdict,) = shown["verdicts"]
    assert verdict["seen"].startswith("no training process was seen")
    assert {method for method, _, _ in there.asked} == {"GET"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("claims: [{claim: transport.internod, equals: efa}]", "claims.yaml:1:18: claims.0.claim: unknown claim"),
        ("claims: []", "claims.yaml:1:9: claims:"),
        ("- x", "expected a map with `claims`"),
        ("clams: []", "did you mean claims?"),
    ],
)
def test_claims_are_read_before_anything_is_asked(
    there: Answers, in_tmp: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    (in_tmp / "claims.yaml").write_text(text)
    assert command("--address", there.address, "--claims", "claims.yaml") == 2
    assert said in capsys.readouterr().err
    assert there.asked == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "nothing to look at; expected rayjob/NAME, raycluster/NAME, or --address"),
        (("--job", "x"), "--job: given without --address"),
        (("--address", "localhost"), "--address: saw localhost"),
        (("--address", "http://127.0.0.1:9"), "cannot be reached"),
    ],
)
def test_a_mistake_is_one_line(
    in_tmp: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert command(*words) == 2
    out, error = capsys.readouterr()
    assert said in error
    assert (out, len(error.splitlines())) == ("", 1)
    assert list(in_tmp.iterdir()) == []
