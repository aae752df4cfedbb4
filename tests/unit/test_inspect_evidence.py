"""What is made of a look at a job: facts, verdicts, and lies that must not pass for the training's path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from seatrial import report
from seatrial.cli.inspect_text import lines
from seatrial.cli.main import group
from seatrial.record import read_record, seal, verify
from seatrial.trial.claims import REGISTRY
from tests.support import observations as o

pytestmark = pytest.mark.unit

TCP = {"claim": "transport.internode", "equals": "tcp"}
EFA = {"claim": "transport.internode", "equals": "efa"}
PATH = "transport.internode.path"
EVERY: list[dict[str, Any]] = [
    {"claim": "execution.completed"},
    {"claim": "execution.all_ranks_participated"},
    {"claim": "execution.finished"},
    {"claim": "transport.gpudirect", "equals": True},
    {"claim": "transport.min_busbw", "min": 1.0},
    {"claim": "performance.tokens_per_second", "min": 1.0},
    {"claim": "performance.step_time_p95", "max": 9.0},
    {"claim": "learning.heldout.loss", "max": 9.0},
    {"claim": "learning.heldout.bits_per_byte", "max": 9.0},
    {"claim": "recovery.checkpoint_reloads"},
    {"claim": "recovery.worker_kill", "max_lost_steps": 50},
]


def record(tmp_path: Path, *hosts: dict[str, Any], **changes: Any) -> dict[str, Any]:
    path, _ = o.sealed(o.look(*hosts, **changes), tmp_path / "runs")
    return read_record(path)[0]


def fact(found: dict[str, Any], name: str) -> Any:
    return found["evidence"][name.partition(".")[0]][name]


def verdicts(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(v["verdict"], v["reason"]) for v in found["verdicts"]]


def test_a_clean_look_knows_the_path(tmp_path: Path) -> None:
    found = record(tmp_path, o.host(1), o.host(2), claims=[TCP, EFA])
    assert fact(found, PATH)["value"] == {"path": "tcp", "interfaces": ["eth0"], "word": "corroborated", "reasons": []}
    assert verdicts(found) == [("supported", ""), ("refuted", "different")]
    assert found["observed"] is True
    assert found["exit_code"] == 1


def test_what_only_a_run_can_show_is_unknown_with_the_reason(tmp_path: Path) -> None:
    found = record(tmp_path, o.host(1), o.host(2), claims=EVERY)
    assert {v["verdict"] for v in found["verdicts"]} == {"not-established"}
    assert all(v["seen"] and "no such evidence in this run" not in v["seen"] for v in found["verdicts"][:-1])
    judged = {v["claim"] for v in found["verdicts"]}
    seen_here = {"transport.internode", "transport.intranode", "environment.image_ran", "environment.hosts_agree"}
    built = {
        name for name in REGISTRY if name.split(".")[0] in ("execution", "transport", "performance", "environment")
    }
    assert built - judged <= seen_here
    assert found["exit_code"] == 3


# Each of these once looked like the training's path over eth0, or would.
LIES: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "another tenant's bytes, and no connection between the ranks": (
        o.host(1, carried=0), o.host(2, carried=0), "insufficient", "whose they were is not known",
    ),
    "another tenant's bytes, and connections that carry next to nothing": (
        o.host(1, carried=900), o.host(2, carried=900), "insufficient", "carried only 900 bytes",
    ),
    "libnccl is mapped, and nobody is connected": (
        o.with_process(o.host(1, carried=0), libraries={"torch": o.TORCH, "nccl": o.NCCL}),
        o.with_process(o.host(2, carried=0), libraries={"torch": o.TORCH, "nccl": o.NCCL}),
        "insufficient", "NCCL_DEBUG was not set when the process started",
    ),
    "the interface stood still while its connections moved": (
        o.host(1, moved=0), o.host(2), "witnesses-disagree", "its counter moved by 0",
    ),
    "a counter that went backwards": (
        o.window(o.host(1), backwards=["net/eth0"]), o.host(2), "insufficient", "went backwards",
    ),
    "the other end is no rank": (
        o.window(o.host(1), connections={"101": [["10.0.0.1:4001", "10.9.9.9:443", str(1 << 30), "0"]]}), o.host(2),
        "insufficient", "no connection between ranks",
    ),
    "RDMA devices are open, and their counters moved more": (
        o.with_process(
            o.window(o.host(1), counters=[
                o.counters(0) | o.counters(0, "efa/rdmap0"), o.counters(104 * o.MiB) | o.counters(1 << 34, "efa/rdmap0")
            ]),
            devices=["/dev/infiniband/uverbs0"],
        ),
        o.host(2), "insufficient", "do not say whose bytes they were",
    ),
    "RDMA devices are open, and their counters cannot be read": (
        o.with_process(o.host(1), devices=["/dev/infiniband/uverbs0"]), o.host(2),
        "insufficient", "the counters of pod-1 cannot be read",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LIES)
def test_a_lie_does_not_become_the_path(tmp_path: Path, name: str) -> None:
    one, two, word, said = LIES[name]
    found = record(tmp_path, one, two, claims=[TCP, EFA])
    value = fact(found, PATH)["value"]
    assert value["word"] == word
    assert said in " ".join(value["reasons"])
    assert {verdict for verdict, _ in verdicts(found)} == {"not-established"}


@pytest.mark.parametrize(
    ("hosts", "changes", "said"),
    [
        (
            (o.host(1),),
            {"problems": {"node2": "its observer did not answer within 60 s"}},
            "not every host was watched",
        ),
        (
            (o.window(o.host(1), connections={"unknown": "Operation not permitted"}), o.host(2)),
            {},
            "does not tell what each connection carried: Operation not permitted",
        ),
        ((), {}, "no training process was seen"),
        ((o.host(1), {**o.host(2), "processes": {}, "not_there": [102]}), {}, "process 102 on pod-2"),
        (
            (o.window(o.host(1), gone={"101": "ended; another process has its pid now"}), o.host(2)),
            {},
            "the training processes on pod-1 ended",
        ),
    ],
)
def test_what_was_not_watched_makes_the_path_unknown(
    tmp_path: Path, hosts: tuple[dict[str, Any], ...], changes: dict[str, Any], said: str
) -> None:
    found = record(tmp_path, *hosts, claims=[TCP], **changes)
    assert fact(found, PATH)["state"] == "unknown"
    assert said in fact(found, PATH)["reason"]
    assert verdicts(found) == [("not-established", "unknown")]


def test_nccl_over_sockets_is_told_from_gloo_by_its_threads(tmp_path: Path) -> None:
    hosts = [o.with_process(o.host(n), nccl_threads=["NCCL Progress 0"], libraries={"nccl": o.NCCL}) for n in (1, 2)]
    assert fact(record(tmp_path, *hosts), PATH)["value"]["path"] == "socket"


def test_rdma_that_is_open_and_stands_still_is_not_the_path(tmp_path: Path) -> None:
    """The silent fallback: EFA devices are open, and the bytes go over TCP."""
    still = o.counters(7, "efa/rdmap0")
    hosts = [
        o.with_process(
            o.window(o.host(n), counters=[o.counters(0) | still, o.counters(104 * o.MiB) | still]),
            devices=["/dev/infiniband/uverbs0"], nccl_threads=["NCCL Progress 0"], libraries={"nccl": o.NCCL},
        )
        for n in (1, 2)
    ]  # fmt: skip
    found = record(tmp_path, *hosts, claims=[EFA])
    assert fact(found, PATH)["value"]["path"] == "socket"
    assert verdicts(found) == [("refuted", "different")]


def test_ranks_of_ray_trains_state_come_before_those_of_its_log(tmp_path: Path) -> None:
    attempt = {
        "status": "RUNNING",
        "workers": [{"node_id": f"node{n}", "pid": 100 + n, "world_rank": 2 - n} for n in (1, 2)],
    }
    train = {"runs": [{"name": "r", "status": "RUNNING", "storage_path": "s3://b", "attempts": [attempt]}]}
    found = record(tmp_path, o.host(1), o.host(2), train=train)
    assert [(row["rank"], row["pid"]) for row in fact(found, "execution.processes")["value"]["by_rank"]] == [
        (0, 102),
        (1, 101),
    ]


def test_a_rank_that_nobody_knows_is_unknown(tmp_path: Path) -> None:
    hosts = [o.with_process(o.host(n), rank=None) for n in (1, 2)]
    ranks = fact(record(tmp_path, *hosts), "execution.processes")["value"]
    assert ranks["rank_unknown"] == 2
    assert [row["rank"] for row in ranks["by_rank"]] == [None, None]


@pytest.mark.parametrize(("second", "verdict"), [("sha256:same", "supported"), ("sha256:other", "not-established")])
def test_hosts_agree_or_not(tmp_path: Path, second: str, verdict: str) -> None:
    hosts = [o.host(1), o.with_process(o.host(2), packages=second)]
    found = record(tmp_path, *hosts, claims=[{"claim": "environment.hosts_agree"}])
    assert verdicts(found)[0][0] == verdict


def pod(number: int, image: str, asked: str = "repo/img@sha256:" + "a" * 64) -> dict[str, Any]:
    return {
        "name": f"pod-{number}",
        "image": asked,
        "image_id": image,
        "ip": f"10.0.0.{number}",
        "phase": "Running",
        "ready": True,
        "restarts": 0,
        "node": "n",
    }


@pytest.mark.parametrize(
    ("images", "verdict"),
    [
        (("repo/img@sha256:" + "a" * 64,) * 2, ("supported", "")),
        (("repo/img@sha256:" + "b" * 64,) * 2, ("refuted", "different")),
        (("repo/img@sha256:" + "a" * 64, "repo/img@sha256:" + "b" * 64), ("not-established", "unknown")),
        (("repo/img@sha256:" + "a" * 64, ""), ("not-established", "unknown")),
    ],
)
def test_the_image_that_ran_is_the_pods(tmp_path: Path, images: tuple[str, str], verdict: tuple[str, str]) -> None:
    kubernetes = {"pods": [pod(n + 1, image) for n, image in enumerate(images)]}
    claims = [{"claim": "environment.image_ran"}]
    found = record(tmp_path, o.host(1), o.host(2), claims=claims, kubernetes=kubernetes)
    assert verdicts(found) == [verdict]


def test_a_host_that_is_no_pod_leaves_the_image_unknown(tmp_path: Path) -> None:
    kubernetes = {"pods": [pod(1, "repo/img@sha256:" + "a" * 64)]}
    found = record(tmp_path, o.host(1), o.host(2), kubernetes=kubernetes)
    assert "pod-2 is none of the pods" in fact(found, "environment.image.ran")["reason"]


def test_a_host_that_has_another_name_is_known_by_its_address(tmp_path: Path) -> None:
    image = "repo/img@sha256:" + "a" * 64
    hosts = [{**o.host(n), "name": f"ip-10-0-0-{n}"} for n in (1, 2)]
    found = record(tmp_path, *hosts, kubernetes={"pods": [pod(1, image), pod(2, image)]})
    assert fact(found, "environment.image.ran")["value"] == image
    rows = fact(found, "environment.pods")["value"]
    assert [(row["name"], row["processes"]) for row in rows] == [("pod-1", ["rank 0"]), ("pod-2", ["rank 1"])]
    assert f"                  {image}" in list(lines(found))


def test_nothing_claimed_is_shown_and_sealed(tmp_path: Path) -> None:
    path, found = o.sealed(o.look(o.host(1), o.host(2)), tmp_path)
    assert (found["exit_code"], found["ended_early"]) == (0, None)
    assert verify(path).problems == []
    assert "  between hosts tcp over eth0 (corroborated)" in list(lines(found))


def test_cut_short_is_ended_early(tmp_path: Path) -> None:
    found = record(tmp_path, o.host(1), o.host(2), claims=[TCP], cut_short="the job ended while it was looked at")
    assert (found["exit_code"], found["ended_early"]) == (4, "the job ended while it was looked at")


@pytest.mark.parametrize("lost", ["events/driver.jsonl", "events/a1/probe-node1.jsonl", "claims.json", "trial.json"])
def test_a_file_that_is_lost_never_makes_it_better(tmp_path: Path, lost: str) -> None:
    path, before = o.sealed(o.look(o.host(1), o.host(2), claims=[TCP]), tmp_path)
    assert verdicts(before) == [("supported", "")]
    (path.parent / lost).unlink()
    _, after = seal(path.parent)
    assert "supported" not in dict(verdicts(after))
    assert after["exit_code"] != 0


@pytest.mark.parametrize("command", ["show", "judge"])
@pytest.mark.parametrize("claims", [[], [TCP]])
def test_show_and_judge_say_what_was_seen(tmp_path: Path, command: str, claims: list[dict[str, Any]]) -> None:
    """Without claims too: a look needs none."""
    path, _ = o.sealed(o.look(o.host(1), o.host(2), claims=claims), tmp_path / "runs")
    done = CliRunner().invoke(group, [command, str(path.parent)])
    assert "between hosts" in done.output, done.output
    assert "eth0" in done.output
    assert ("transport.internode" in done.output) == bool(claims)
    assert "claim   " not in done.output or claims


def test_the_report_says_that_a_job_was_only_looked_at(tmp_path: Path) -> None:
    path, _ = o.sealed(o.look(o.host(1), o.host(2)), tmp_path / "runs")
    (markdown,) = [p for p in report.write(path) if p.suffix == ".md"]
    said = markdown.read_text()
    assert "Observed" in said
    assert "did not start this job" in said
    assert "Looked at; nothing was claimed" in said
    assert "Exit code" not in said
