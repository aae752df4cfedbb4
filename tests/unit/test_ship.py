"""What travels: one small zip, the same bytes each time, that Python imports every module of."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import seatrial
from seatrial.driver import code
from seatrial.driver.main import main
from seatrial.ship import LIMIT_BYTES, package
from tests.support.trials import tiny

pytestmark = pytest.mark.unit

SOURCES = Path(seatrial.__file__).parent
NEEDS_TRAINING = (
    "seatrial.train.",
    "seatrial.driver.backend",
)  # import torch; tests/ray/test_in_cluster.py imports them


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ship") / "seatrial.zip"
    path.write_bytes(package())
    return path


def run(archive: Path, statement: str) -> str:
    """What a fresh interpreter prints that has the zip first on its path."""
    environment = {**os.environ, "PYTHONPATH": str(archive), "PYTHONHASHSEED": "7"}
    done = subprocess.run(
        [sys.executable, "-c", statement], cwd=archive.parent, env=environment, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_zip_is_small_and_deterministic(archive):
    assert len(package()) <= LIMIT_BYTES
    package.cache_clear()
    assert package() == archive.read_bytes()


def test_what_is_in_it():
    with zipfile.ZipFile(io.BytesIO(package())) as opened:
        names = opened.namelist()
        assert names == sorted(names)
        assert {entry.date_time for entry in opened.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {entry.external_attr >> 16 for entry in opened.infolist()} == {0o100644}
        assert all(opened.read(name) == (SOURCES.parent / name).read_bytes() for name in names)
    rooms = {name.split("/")[1] for name in names}
    assert {"trial", "hardware", "events", "plan", "probe", "train", "evidence", "record", "driver"} <= rooms
    assert not rooms & {"ship", "image", "render", "check", "launch", "report", "cli"}
    assert not {"seatrial/trial/loader.py", "seatrial/trial/source.py"} & set(names)
    assert {Path(name).suffix for name in names} == {".py", ".json"}
    assert not any("__pycache__" in name for name in names)


def test_every_module_imports_from_the_zip_without_what_only_clients_have(archive):
    modules = [
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in zipfile.ZipFile(archive).namelist()
        if name.endswith(".py") and not name.endswith("__main__.py")
    ]
    modules = [name for name in modules if not name.startswith(NEEDS_TRAINING)]
    statement = (
        f"import importlib, sys\n[importlib.import_module(name) for name in {modules}]\n"
        f"print({{m.__file__.partition('.zip')[0] for n, m in sys.modules.items() if n.split('.')[0] == 'seatrial'}})\n"
        "print(sorted({'yaml', 'click', 'rich', 'jinja2', 'torch', 'ray'} & {n.partition('.')[0] for n in sys.modules}))"
    )
    assert run(archive, statement) == f"{{'{archive.with_suffix('')}'}}\n[]"


def test_data_tables_are_read_from_the_zip(archive):
    statement = "from seatrial.hardware import image, instance; print(instance('g6.12xlarge').gpus)"
    assert run(archive, statement) == "4"


def test_the_digest_of_the_code_is_the_same_from_a_folder_and_from_the_zip(archive):
    seen = run(archive, "import seatrial.driver.code as c; print(c.__file__, c.package_digest())")
    assert seen == f"{archive}/seatrial/driver/code.py {code.package_digest()}"


def test_a_trace_back_from_the_zip_shows_the_line(archive):
    statement = (
        "import traceback\nfrom seatrial.driver.prepare import new_run\n"
        "try: new_run(None, None)\nexcept TypeError: print(traceback.format_exc())"
    )
    assert "problem = problem_with(storage)" in run(archive, statement)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "trial.json: cannot be read: No such file or directory"),
        ("{", "trial.json: Expecting property name"),
        ('{"metadata": {"name": "x"}}', "Field required"),
        (tiny(), "storage.path: saw ./runs; expected an absolute path"),
        (tiny({"storage": {"path": "s3://bucket"}}), "object storage is not supported yet"),
        (tiny({"storage": {"path": "/proc/seatrial"}}), "storage.path: cannot create the folder"),
        (tiny({"storage": {"path": "/nowhere"}}, global_batch=7), "global_batch"),
    ],
)
def test_in_a_cluster_wrong_input_is_a_line_and_status_4(content, said, tmp_path, capsys):
    path = tmp_path / "trial.json"
    if content is not None:
        path.write_text(content if isinstance(content, str) else content.model_dump_json(exclude_defaults=True))
    assert main(["--trial", str(path), "--address", "auto"]) == 4
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1
    assert not Path("/nowhere").exists()
