"""The command line on bad input and on runs that lie on disk: one clear line, the right exit code, no traceback."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from seatrial.canon import canonical, parse
from seatrial.cli.main import main
from seatrial.cli.options import options
from seatrial.cli.schema import schema
from seatrial.driver.prepare import freeze, new_run
from seatrial.errors import InputError, InputErrors
from seatrial.events import Layout
from seatrial.events.schema import PhaseEnded, PhaseStarted
from seatrial.record import seal
from tests.support.trials import TINY, tiny

pytestmark = pytest.mark.unit


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


def written(folder: Path, **workload: Any) -> Path:
    document = json.loads(json.dumps({**TINY, "workload": {**TINY["workload"], **workload}}))
    (folder / "t.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    return folder / "t.yaml"


BAD: list[tuple[dict[str, Any], str, str]] = [
    (
        {"global_batch": 12},
        "global_batch",
        "workload.global_batch: saw 12; expected a multiple of num_workers × micro_batch = 2 × 4 = 8; use 8 or 16",
    ),
    ({"steps": 2}, "steps", "workload.steps: saw 2; expected more than optimizer.warmup_steps = 2"),
    ({"steps": 5}, "warmup_steps: 5", "workload.measure.warmup_steps: saw 5; expected fewer than workload.steps = 5"),
    (
        {"data": {"train": "nowhere", "heldout": "t.yaml"}},
        "train",
        "does not exist; expected a text, .jsonl or .parquet file or a folder of them",
    ),
    ({"model": {"path": "nowhere"}}, "path", "has no config.json; expected a folder with a Transformers model"),
    ({"sequence_lenght": 3}, "sequence_lenght", "workload.sequence_lenght: unknown key; did you mean sequence_length?"),
]


@pytest.mark.parametrize(("workload", "key", "words"), BAD)
def test_a_mistake_in_the_trial_is_one_line_with_its_place(
    workload: dict[str, Any], key: str, words: str, in_tmp: Path, capsys: Any
) -> None:
    path = written(in_tmp, **workload)
    assert call("run", "t.yaml") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1, err
    place = err.split(": ")[1]
    assert place.startswith("t.yaml:"), err
    assert key in path.read_text().splitlines()[int(place.split(":")[1]) - 1]
    assert words in err
    assert not (in_tmp / "runs").exists()


def test_no_workers(in_tmp: Path, capsys: Any) -> None:
    document = {**TINY, "scaling": {"num_workers": 0}}
    (in_tmp / "t.yaml").write_text(yaml.safe_dump(document))
    assert call("run", "t.yaml") == 2
    assert "scaling.num_workers: saw 0; expected at least 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"storage": {"path": "s3://bucket/runs"}}, "object storage is not supported yet"),
        ({"cluster": {"provider": "eks"}}, "cluster.provider: saw eks; expected local"),
        ({"scaling": {"gpus_per_worker": 1}}, "this machine has none"),
        ({"metadata": {"name": "hf_abcdefghijklmnopqrstuvwxyz"}}, "metadata: holds what looks like a secret"),
    ],
)
def test_what_this_version_cannot_run(sections: dict[str, Any], words: str, in_tmp: Path, capsys: Any) -> None:
    if "no GPU" in words and Path("/dev/nvidia0").exists():
        pytest.skip("this machine has a GPU")
    (in_tmp / "t.yaml").write_text(yaml.safe_dump({**TINY, **sections}))
    assert call("run", "t.yaml") == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.startswith("seatrial: t.yaml:")


def test_storage_that_is_a_file(in_tmp: Path, capsys: Any) -> None:
    (in_tmp / "runs").write_text("in the way")
    written(in_tmp)
    assert call("run", "t.yaml") == 2
    assert "cannot create the folder" in capsys.readouterr().err


def test_storage_that_is_read_only(in_tmp: Path, capsys: Any) -> None:
    """Root ignores modes, so the folder is bound read-only over itself."""
    runs = in_tmp / "runs"
    runs.mkdir()
    mount = ["mount", "--bind", str(runs), str(runs)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("binding a folder read-only needs root")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(runs)], check=True)
        written(in_tmp)
        assert call("run", "t.yaml") == 2
        assert "Read-only file system" in capsys.readouterr().err
        assert list(runs.iterdir()) == []
    finally:
        subprocess.run(["umount", str(runs)], check=True)


def test_init_writes_once(in_tmp: Path, capsys: Any) -> None:
    assert call("init") == 0
    kept = (in_tmp / "trial.yaml").read_bytes()
    assert call("init", "--template", "eks-g6-qwen2.5-1.5b") == 2
    assert "exists already" in capsys.readouterr().err
    assert (in_tmp / "trial.yaml").read_bytes() == kept
    assert call("init", "--template", "moon", "-o", "other.yaml") == 2
    assert "expected one of eks-g6-qwen2.5-1.5b, local" in capsys.readouterr().err
    assert call("init", "-o", "no/such/folder/t.yaml") == 2


@pytest.mark.parametrize("command", ["show", "verify", "judge", "report"])
def test_a_run_that_is_not_there(command: str, in_tmp: Path, capsys: Any) -> None:
    assert call(command, "last") == 2
    assert "no such run" in capsys.readouterr().err
    (in_tmp / "some").mkdir()
    assert call(command, "some") == 2
    assert "Traceback" not in capsys.readouterr().err


def test_unknown_words(capsys: Any) -> None:
    assert call("rnu") == 2
    assert call("schema", "moon") == 2
    assert call("--version") == 0
    assert "seatrial 0.1.0" in capsys.readouterr().out


@pytest.fixture
def ended_early(in_tmp: Path) -> Layout:
    """A run that failed before any rank started, sealed."""
    trial = tiny({"runtimeEnv": {"env_vars": {"HF_TOKEN": "hf_abcdefghijklmnopqrstuvwxyz"}}})
    layout = new_run(trial, in_tmp / "runs")
    with freeze(trial, layout) as events:
        events.write(PhaseStarted(phase="train", attempt=1))
        events.write(PhaseEnded(phase="train", attempt=1, status="failed", cause="no worker \udcff started"))
    layout.reserve.unlink()
    (layout.logs / "worker.log").write_bytes(b"\xff\xfe not text")
    seal(layout.root)
    return layout


def test_the_documents_follow_their_schemas(ended_early: Layout) -> None:
    for name in ("trial", "record", "events"):
        Draft202012Validator.check_schema(schema(name))
    record = json.loads(ended_early.record.read_bytes())
    Draft202012Validator(schema("record")).validate(record)
    lines = Draft202012Validator(schema("events"))
    for line in ended_early.driver_events.read_bytes().splitlines():
        lines.validate(json.loads(line))
    Draft202012Validator(schema("trial")).validate(json.loads(ended_early.trial.read_bytes()))


def test_a_sealed_failure(ended_early: Layout, capsys: Any) -> None:
    assert call("show", "last") == 0
    assert "ended early: train failed: no worker \\udcff started" in capsys.readouterr().out
    assert call("show", "last", "--exit-code") == 4
    capsys.readouterr()
    assert call("show", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert [v["verdict"] for v in shown["verdicts"]] == ["refuted"] + ["not-established"] * 3
    assert b"hf_abc" not in b"".join(p.read_bytes() for p in ended_early.root.rglob("*") if p.is_file())
    assert call("verify") == 0


def test_verify_names_what_is_missing_changed_and_unlisted(ended_early: Layout, capsys: Any) -> None:
    kept = ended_early.record.read_bytes()
    (ended_early.logs / "worker.log").unlink()
    (ended_early.root / "extra.txt").write_text("new")
    os.truncate(ended_early.trial, 10)
    assert call("verify") == 1
    out = capsys.readouterr().out
    assert "logs/worker.log: missing" in out
    assert "extra.txt: not listed in the record" in out
    assert "trial.json: changed" in out
    assert "3 differences" in out
    assert call("verify", "--expect", "sha256:" + "0" * 64) == 1
    ended_early.record.write_bytes(kept.replace(b'"refuted"', b'"supported"', 1))
    assert call("verify") == 1
    assert "record.sha256 says" in capsys.readouterr().out


def test_a_record_that_was_sealed_anew_is_not_in_the_list_of_seals(ended_early: Layout, capsys: Any) -> None:
    """Somebody writes a better record and its digest: the storage's list of seals does not know it."""
    record = parse(ended_early.record.read_bytes())
    record["exit_code"] = 0
    ended_early.record.write_bytes(canonical(record))
    from seatrial.canon import file_digest

    digest = file_digest(ended_early.record)
    ended_early.seal.write_text(f"{digest.removeprefix('sha256:')}  record.json\n")
    assert call("verify") == 1
    assert "is not in seals.jsonl" in capsys.readouterr().out


def test_judging_again_cites_the_older_record(ended_early: Layout, capsys: Any) -> None:
    assert call("judge", "last") == 4
    newer = json.loads((ended_early.root / "record.2.json").read_bytes())
    from seatrial.canon import file_digest

    assert newer["cites"] == file_digest(ended_early.record)
    assert call("verify") == 0
    assert call("verify", str(ended_early.record)) == 0


def test_the_command_line_names_the_option_of_an_argument() -> None:
    """What is called says which argument is wrong; the command says how that is given."""
    wrong = [InputError("saw x", field="address", expected="y"), InputError("saw z", field="claims.0")]

    @options(address="--on")
    def command(error: InputError) -> None:
        raise error

    for error, line in ((wrong[0], "--on: saw x; expected y"), (wrong[1], "claims.0: saw z")):
        with pytest.raises(InputError) as caught:
            command(error)
        assert str(caught.value) == line
    with pytest.raises(InputErrors) as several:
        command(InputErrors(wrong))
    assert str(several.value).splitlines() == ["--on: saw x; expected y", "claims.0: saw z"]
