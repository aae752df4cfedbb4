"""What travels with a job, packed by Ray's own code; no cluster is needed to see it."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")

from seatrial.driver.code import travelling
from seatrial.errors import InputError
from seatrial.launch import jobs_package
from seatrial.launch.jobs_package import TRIAL, pack
from seatrial.trial import Trial
from seatrial.trial.loader import load
from tests.support.trials import quick, tiny

pytestmark = pytest.mark.ray


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A team's folder: a script, and all that lies about beside one."""
    files = {
        "train.py": "import helper\n", "lib/helper.py": "", ".gitignore": "*.ckpt\ndata/\n", "big.ckpt": "x", "data/a.txt": "x",
        "notes.md": "x", ".rayignore": "notes.md\n", ".git/config": "x", "env/pyvenv.cfg": "", "env/lib/python.py": "x",
        "runs/seals.jsonl": "", "runs/2026/record.json": "{}", "__pycache__/train.pyc": "x",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "project" / name).write_text(text)
    trial = {
        "apiVersion": "seatrial.io/v1alpha1", "kind": "Trial", "metadata": {"name": "own"}, "storage": {"path": "/fsx/runs"},
        "workload": {"script": "train.py"}, "claims": [{"claim": "execution.completed"}],
    }  # fmt: skip
    (tmp_path / "project/trial.yaml").write_text(json.dumps(trial))
    return tmp_path / "project"


def packed(trial: Trial, base: Path | None, folder: Path) -> zipfile.ZipFile:
    folder.mkdir()
    return zipfile.ZipFile(pack(trial, base, folder).working_dir)


def files(archive: zipfile.ZipFile) -> list[str]:
    return sorted(name for name in archive.namelist() if not name.endswith("/"))


def own(project: Path) -> Trial:
    return load(project / "trial.yaml").trial


def test_a_script_travels_with_its_folder_and_not_with_what_is_no_code(project: Path, tmp_path: Path) -> None:
    with packed(own(project), project, tmp_path / "out") as archive:
        assert files(archive) == [".gitignore", ".rayignore", "lib/helper.py", TRIAL, "train.py", "trial.yaml"]
        trial = Trial.from_resolved(archive.read(TRIAL))
    assert trial.team_script.script == "train.py"


def test_rays_own_switch_about_gitignore_counts(project: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("RAY_RUNTIME_ENV_IGNORE_GITIGNORE", "1")
    with packed(own(project), project, tmp_path / "out") as archive:
        assert {"big.ckpt", "data/a.txt"} <= set(files(archive))


def test_a_folder_that_is_too_large_is_named_before_anything_is_sent(
    project: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(jobs_package, "LIMIT_BYTES", 1 << 20)
    (project / "weights.bin").write_bytes(__import__("random").Random(1).randbytes(2 << 20))
    with pytest.raises(InputError, match=r"takes 2 MiB packed \(weights.bin: 2 MiB\); expected at most 1 MiB"):
        packed(own(project), project, tmp_path / "out")


def test_a_script_elsewhere_is_refused(project: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not lie below"):
        packed(own(project), project / "lib", tmp_path / "out")
    (project / "train.py").unlink()
    with pytest.raises(InputError, match="is no file"):
        packed(own(project), project, tmp_path / "other")


def test_without_a_script_only_the_trial_travels(tmp_path: Path) -> None:
    with packed(tiny(), tmp_path, tmp_path / "out") as archive:
        assert files(archive) == [TRIAL]
        assert Trial.from_resolved(archive.read(TRIAL)) == tiny()


def test_the_package_that_travels_runs_the_driver(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    package = pack(quick(), None, tmp_path / "out")
    there = {str(p.relative_to(package.module)) for p in package.module.rglob("*") if p.is_file()}
    assert there == set(travelling())
    command = [sys.executable, "-m", "seatrial.driver", "--help"]
    path = {"PYTHONPATH": str(package.module.parent)}
    done = subprocess.run(command, env=path, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "--deliver" in done.stdout, done.stderr
