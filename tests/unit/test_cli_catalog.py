"""`seatrial catalog`: aligned tables, one entry with its source, JSON, and one line for a wrong name."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from seatrial.cli.main import main
from seatrial.hardware import gpus, images, instances

pytestmark = pytest.mark.unit


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


@pytest.mark.parametrize(("kind", "count"), [("instances", len(instances())), ("images", len(images())), ("gpus", len(gpus()))])  # fmt: skip
def test_a_table_is_aligned_and_complete(kind: str, count: int, capsys: Any) -> None:
    assert call("catalog", kind) == 0
    out, err = capsys.readouterr()
    head, *rows = out.split("\n\n")[0].splitlines()
    assert err == ""
    assert len(rows) == count
    assert head.split()[0] in ("instance", "tag", "gpu")
    assert all(line == line.rstrip() for line in out.splitlines())
    assert "* unverified   ? unknown" in out.splitlines()[-1]


def test_columns_stand_below_their_heads(capsys: Any) -> None:
    assert call("catalog", "instances") == 0
    head, *rows = capsys.readouterr().out.split("\n\n")[0].splitlines()
    row = next(row for row in rows if row.startswith("p5.48xlarge "))
    assert " ".join(row.split()) == "p5.48xlarge 8 H100 81920 0 192 2097152 3200000 32 yes NVSwitch 900 GB/s"
    for name, value in (("gpus", "8"), ("gpu MiB", "81920"), ("Mbps", "3200000"), ("efa", "32")):
        end = head.index(name) + len(name)
        assert row[:end].endswith(value), name
    assert row[head.index("nvlink") :] == "NVSwitch 900 GB/s"


def test_what_is_not_verified_is_marked(capsys: Any) -> None:
    assert call("catalog", "gpus") == 0
    lines = capsys.readouterr().out.splitlines()
    assert next(line for line in lines if line.startswith("A10G")).split()[1:3] == ["70*", "600*"]
    assert next(line for line in lines if line.startswith("L4 ")).split()[1:3] == ["121", "300*"]
    assert call("catalog", "images") == 0
    lines = capsys.readouterr().out.splitlines()
    assert next(line for line in lines if line.startswith("train-ml-cuda ")).split()[1] == "2.58.0*"
    assert next(line for line in lines if line.startswith("train-ml-cuda-v1.1.0 ")).split()[1] == "2.58.0"


def test_a_name_prints_everything_with_its_source(capsys: Any) -> None:
    assert call("catalog", "instances", "ml.p5.4xlarge") == 0
    out = capsys.readouterr().out
    fields = dict(line.split(None, 1) for line in out.splitlines() if line[0] != " ")
    assert (fields["name"], fields["gpu"], fields["allocatable_cpu_m"]) == ("p5.4xlarge", "H100", "15890")
    assert fields["unknown"] == "gdr"
    assert fields["source"].startswith("https://github.com/aws/karpenter-provider-aws/")
    assert "nvlink" not in fields


@pytest.mark.parametrize("name", ["train-ml-cuda", "public.ecr.aws/deep-learning-containers/ray:train-ml-cuda"])
def test_an_image_is_named_by_reference_or_tag(name: str, capsys: Any) -> None:
    assert call("catalog", "images", name) == 0
    out = capsys.readouterr().out
    fields = dict(line.split(None, 1) for line in out.splitlines() if line[0] != " ")
    assert (fields["points_to"], fields["floating"]) == ("train-ml-cuda-v1.1.0", "yes")
    assert fields["unverified"] == "ray, torch, cuda, python, nccl, efa_installer, ofi_nccl, packages"
    assert "transformers 5.13.0, datasets 5.0.0" in fields["packages"]
    assert "last read 2026-09-01" in out


def test_rayproject_is_known_by_rule(capsys: Any) -> None:
    assert call("catalog", "images", "rayproject/ray:2.58.0-py311", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["ray"], facts["python"], facts["torch"], facts["dlc"]) == ("2.58.0", "3.11", None, False)


@pytest.mark.parametrize("kind", ["instances", "images", "gpus"])
def test_json_is_one_document_and_nothing_else(kind: str, capsys: Any) -> None:
    assert call("catalog", kind, "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert isinstance(listed, list)
    assert all(entry["source"] for entry in listed)
    name = listed[0]["reference" if kind == "images" else "name"]
    assert call("catalog", kind, name, "--json") == 0
    assert json.loads(capsys.readouterr().out) == listed[0]


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("instances", "g6.13xlarge", "did you mean g6."),
        ("instances", "G6.12XLARGE", "did you mean g6.12xlarge"),
        ("instances", "ml.p5.48xlage", "did you mean p5.48xlarge"),
        ("instances", "???", "`seatrial catalog instances` lists them"),
        ("images", "public.ecr.aws/deep-learning-containers/ray:train-ml-cuda-v1.2.0", "did you mean train-ml-cuda-v1.1.0"),
        ("images", "nvcr.io/x:y", "`seatrial catalog images` lists them"),
        ("instances", "p6", "did you mean p6-b200.48xlarge, p6-b300.48xlarge"),
        ("gpus", "A100", "did you mean A100-40, A100-80"),
        ("gpus", "l4", "did you mean L4"),
        ("gpus", "", "`seatrial catalog gpus` lists them"),
        ("gpus", "two\nlines\udc80", "`seatrial catalog gpus` lists them"),
        ("gpus", "x" * 100_000, "`seatrial catalog gpus` lists them"),
    ],
)  # fmt: skip
def test_an_unknown_name_is_one_line_with_names_like_it(kind: str, name: str, words: str, capsys: Any) -> None:
    assert call("catalog", kind, name) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1, err
    assert err.startswith("seatrial: NAME: saw ")
    assert words in err
    assert len(err) < 300


def test_an_unknown_table(capsys: Any) -> None:
    assert call("catalog", "moons") == 2
    assert call("catalog") == 2
    assert "Traceback" not in capsys.readouterr().err


def test_the_command_loads_little() -> None:
    code = "import seatrial.cli.catalog, sys; print(' '.join({m.partition('.')[0] for m in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) & {"pydantic", "yaml", "rich", "jinja2", "torch", "ray"} == set()
