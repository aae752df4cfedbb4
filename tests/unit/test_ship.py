"""What travels: small zips, the same bytes each time, that Python imports every module of as one package."""

from __future__ import annotations

import io
import os
import random
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import seatrial
from seatrial.driver import code
from seatrial.driver.main import main
from seatrial.driver.ray_session import _package_path
from seatrial.errors import SeatrialError
from seatrial.probe import own
from seatrial.ship import LIMIT_BYTES, Part, package
from seatrial.ship.package import parts
from tests.support.trials import tiny

pytestmark = pytest.mark.unit

SOURCES, ROOT = Path(seatrial.__file__).parent, Path(__file__).parents[2]
NEEDS_TRAINING = (
    "seatrial.train.",
    "seatrial.callbacks.",
    "seatrial.driver.backend",
)  # import torch; tests/ray/test_in_cluster.py imports them


@pytest.fixture(scope="module")
def mount(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mounted(package(), tmp_path_factory.mktemp("ship"))


def mounted(sent: tuple[Part, ...], folder: Path) -> Path:
    """The parts as files of one folder, as a pod has them."""
    for part in sent:
        (folder / part.file).write_bytes(part.data)
    return folder


def python(mount: Path, statement: str, names: list[str], *more: Path) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter with these parts first on its path, and what comes behind them."""
    path = os.pathsep.join([*(str(mount / name) for name in names), *map(str, more)])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "7"}
    return subprocess.run(
        [sys.executable, "-c", statement], cwd=mount, env=environment, capture_output=True, text=True, check=False
    )


def run(mount: Path, statement: str, names: list[str] | None = None) -> str:
    """What it prints, with every part."""
    done = python(mount, statement, [part.file for part in package()] if names is None else names)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def contents(sent: tuple[Part, ...] = ()) -> list[zipfile.ZipFile]:
    return [zipfile.ZipFile(io.BytesIO(part.data)) for part in sent or package()]


def files(opened: zipfile.ZipFile) -> list[str]:
    return [name for name in opened.namelist() if not name.endswith("/")]


def test_every_part_is_small_and_deterministic():
    sent = package()
    assert all(len(part.data) <= LIMIT_BYTES for part in sent)
    assert [part.file for part in sent] == ["seatrial.zip", *(f"seatrial-{n}.zip" for n in range(2, len(sent) + 1))]
    package.cache_clear()
    assert package() == sent


def test_the_docs_say_how_many_they_are():
    said = re.search(r"As (\w+) zips? today, (\d+) KiB together", (ROOT / "docs/kubernetes.md").read_text())
    assert said is not None
    assert said[1] == ("no", "one", "two", "three", "four", "five")[len(package())]
    assert int(said[2]) == pytest.approx(sum(len(part.data) for part in package()) / 1024, rel=0.15)


def test_what_is_in_them():
    for opened in contents():
        assert opened.namelist() == sorted(opened.namelist())
        assert {entry.date_time for entry in opened.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {entry.external_attr >> 16 for entry in opened.infolist() if not entry.is_dir()} == {0o100644}
        assert all(opened.read(name) == (SOURCES.parent / name).read_bytes() for name in files(opened))
    names = [name for opened in contents() for name in files(opened)]
    assert len(names) == len(set(names))
    assert set(names) == {f"seatrial/{name}" for name in code.travelling()}
    rooms = {name.split("/")[1] for name in names}
    assert {"trial", "hardware", "events", "plan", "probe", "train", "evidence", "record", "driver"} <= rooms
    assert not rooms & {"ship", "image", "render", "check", "launch", "report", "cli"}
    assert not {"seatrial/trial/loader.py", "seatrial/trial/source.py"} & set(names)
    assert {Path(name).suffix for name in names} == {".py", ".json"}
    assert not any("__pycache__" in name for name in names)


def test_a_room_is_whole():
    where: dict[str, set[int]] = {}
    for number, opened in enumerate(contents()):
        for name in files(opened):
            where.setdefault(name.split("/")[1], set()).add(number)
    assert {room: found for room, found in where.items() if len(found) > 1} == {}
    assert where["__init__.py"] == {0}


def test_every_module_imports_from_its_part_without_what_only_clients_have(mount):
    part_of = {name: part.file for part, opened in zip(package(), contents(), strict=True) for name in files(opened)}
    modules = {
        name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): f"{mount}/{file}/{name}"
        for name, file in part_of.items()
        if name.endswith(".py") and not name.endswith("__main__.py")
    }
    modules = {name: path for name, path in modules.items() if not name.startswith(NEEDS_TRAINING)}
    statement = (
        f"import importlib, sys\nmodules = {modules}\n"
        "print([n for n, path in modules.items() if importlib.import_module(n).__file__ != path])\n"
        "print(sorted({'yaml', 'click', 'rich', 'jinja2', 'torch', 'ray'} & {n.partition('.')[0] for n in sys.modules}))\n"
        "from seatrial.driver.code import package_digest; print(package_digest())"
    )
    assert run(mount, statement).splitlines() == ["[]", "[]", code.package_digest()]


def test_data_tables_and_the_digest_are_the_same_whatever_the_order_of_the_parts(mount):
    statement = (
        "from seatrial.hardware import instance; from seatrial.driver.code import package_digest\n"
        "print(instance('g6.12xlarge').gpus, package_digest())"
    )
    turned = [part.file for part in reversed(package())]
    assert run(mount, statement, turned) == f"4 {code.package_digest()}"


def test_a_part_that_is_missing_is_missed(mount, tmp_path):
    """Neither an installed seatrial nor a folder of this name stands in for it."""
    _, *later = zip(package(), contents(), strict=True)
    assert later
    for part, opened in later:
        room = next(name.split("/")[1] for name in files(opened))
        others = [each.file for each in package() if each is not part]
        (tmp_path / "seatrial" / room).mkdir(parents=True)
        (tmp_path / "seatrial" / room / "__init__.py").touch()
        done = python(mount, f"import seatrial.{room}", others, SOURCES.parent, tmp_path)
        assert f"No module named 'seatrial.{room}'" in done.stderr


def test_an_incomplete_package_has_no_digest(monkeypatch, tmp_path):
    for room in set(own.ROOMS) - {"train", "driver"}:
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").touch()
    monkeypatch.setattr(seatrial, "__path__", [str(tmp_path)])
    with pytest.raises(FileNotFoundError, match="seatrial is incomplete: no driver, train in"):
        own.package_digest()


def test_what_is_installed_has_one_place():
    assert [Path(path) for path in seatrial.__path__] == [SOURCES]
    assert not {"extend_path", "dirname"} & set(vars(seatrial))


def test_workers_are_given_every_part(monkeypatch):
    assert _package_path(f"/x:{SOURCES.parent}") == f"{SOURCES.parent}:/x"
    monkeypatch.setattr(
        seatrial, "__path__", ["/etc/seatrial/seatrial.zip/seatrial", "/etc/seatrial/seatrial-2.zip/seatrial"]
    )
    every = "/etc/seatrial/seatrial.zip:/etc/seatrial/seatrial-2.zip"
    assert _package_path(every) == every
    assert _package_path("/x:/etc/seatrial/seatrial.zip") == f"{every}:/x"


EXTENDED = b"from pkgutil import extend_path\n__path__ = extend_path(__path__, __name__)\n"


def room(name: str, size: int, init: bytes = b"") -> dict[str, bytes]:
    """A package with one module of so many bytes that no zip makes smaller."""
    noise = random.Random(name).randbytes(size // 2).hex().encode()
    return {f"seatrial/{name}/__init__.py": init, f"seatrial/{name}/big.py": b"X = '" + noise + b"'\n"}


def test_what_fits_into_one_part_is_one_part():
    sent = parts({"seatrial/__init__.py": b"", **room("a", 1000), **room("b", 1000)})
    assert [part.file for part in sent] == ["seatrial.zip"]
    names = contents(sent)[0].namelist()
    assert names == ["seatrial/__init__.py", *(f"seatrial/{r}/{f}.py" for r in "ab" for f in ("__init__", "big"))]


def test_as_many_parts_as_are_needed():
    many = {name: data for letter in "abcdefg" for name, data in room(letter, 3000).items()}
    sent = parts({"seatrial/__init__.py": b"", **many}, limit=5000)
    assert len(sent) > 2
    assert all(len(part.data) <= 5000 for part in sent)
    assert sent == parts(dict(reversed(list({"seatrial/__init__.py": b"", **many}.items()))), limit=5000)


def test_a_room_that_is_too_large_is_divided_where_it_says_so(tmp_path):
    """Its own modules and its sub-packages are then imported from several parts."""
    real = (SOURCES / "__init__.py").read_bytes()
    large = {**room("a", 100, EXTENDED), **room("a/one", 6000), **room("a/two", 6000)}
    sent = parts({"seatrial/__init__.py": real, **large, **room("b", 3000)}, limit=5000)
    assert len(sent) == 3
    mounted(sent, tmp_path)
    statement = (
        "import seatrial.a.big, seatrial.a.one.big as o, seatrial.a.two.big as t, seatrial.b.big; print(len(o.X + t.X))"
    )
    for turned in (False, True):
        assert run(tmp_path, statement, sorted((part.file for part in sent), reverse=turned)) == "12000"


def test_a_room_that_cannot_be_divided_is_named():
    large = {**room("a", 100), **room("a/one", 6000), **room("a/two", 6000)}
    with pytest.raises(
        SeatrialError, match=r"^seatrial/a is too large for one part of 5000 bytes, .*__init__.py lacks"
    ):
        parts(large, limit=5000)
    with pytest.raises(SeatrialError, match=r"seatrial/a/__init__.py and its neighbours are \d+ bytes"):
        parts(room("a", 20000, EXTENDED), limit=5000)


def test_a_trace_back_from_a_part_shows_the_line(mount):
    statement = (
        "import traceback\nfrom seatrial.driver.prepare import new_run\n"
        "try: new_run(None, None)\nexcept TypeError: print(traceback.format_exc())"
    )
    assert "problem = problem_with(storage)" in run(mount, statement)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "trial.json: cannot be read: No such file or directory"),
        ("{", "trial.json: Expecting property name"),
        ('{"metadata": {"name": "x"}}', "Field required"),
        (tiny(), "storage.path: saw ./runs; expected the absolute path"),
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
