"""Several processes at one store: one builds, the others wait; a killed builder costs nothing but its time."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("numpy")

from seatrial.train.data import cache
from seatrial.trial.data import Data
from tests.support.data import jsonl, recipe
from tests.support.waiting import output_of, wait_for

pytestmark = pytest.mark.dist

# Half way, a builder that is to hold says so and goes on when its stdin has a line, or ends.
BUILDER = """
import json, sys
from pathlib import Path
from seatrial.train.data import cache, store
from seatrial.trial.data import Data
from tests.support.data import recipe

folder, holds = Path(sys.argv[1]), sys.argv[2] == "hold"
build, good, built = cache.build, store._good, []

def seen(rows, bad):
    for number, row in enumerate(good(rows, bad)):
        if number == 100 and holds:
            print("half way", flush=True)
            sys.stdin.readline()
        yield row

def counted(*arguments):
    built.append(1)
    build(*arguments)

store._good, cache.build = seen, counted
data = Data(train=str(folder / "t.jsonl"), heldout=str(folder / "h.jsonl"))
store_folder = cache.ensure(folder / "tokens", recipe(data, 32))
print(json.dumps([store_folder.name, len(built)]), flush=True)
"""


@contextlib.contextmanager
def builder(folder: Path, how: str) -> Iterator[subprocess.Popen[str]]:
    """A process that builds the store; with `hold` it is half way when the block begins."""
    command = [sys.executable, "-c", BUILDER, str(folder), how]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout
        try:
            assert how != "hold" or process.stdout.readline() == "half way\n"
            yield process
        finally:
            process.kill()


def until_it_waits(process: subprocess.Popen[str]) -> None:
    """Until the process waits for a lock that another holds, as the kernel lists it."""

    def waits() -> bool:
        rows = (line.split() for line in Path("/proc/locks").read_text().splitlines())
        return any("->" in row and str(process.pid) in row for row in rows)

    wait_for(waits, "a builder that waits for the lock of another", by=process)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    jsonl(tmp_path / "t.jsonl", [{"text": f"row {n} of a text that two processes want at once"} for n in range(2000)])
    jsonl(tmp_path / "h.jsonl", [{"text": f"held-out row {n}"} for n in range(200)])
    return tmp_path


def said(process: subprocess.Popen[str]) -> tuple[str, int]:
    """The name of the store and how often this process has built one."""
    out, _ = output_of(process, "a builder")
    assert process.returncode == 0
    name, built = json.loads(out.splitlines()[-1])
    return name, built


def test_two_builders_at_once_build_once(folder: Path) -> None:
    with builder(folder, "hold") as first, builder(folder, "go") as second:
        until_it_waits(second)
        (one, built), (other, again) = said(first), said(second)
    assert one == other
    assert (built, again) == (1, 0)
    cache.index(folder / "tokens" / one, 0)
    assert sorted(p.name for p in (folder / "tokens").iterdir()) == sorted([f".{one}.lock", one])


def test_a_builder_killed_half_way_is_followed_by_another(folder: Path) -> None:
    with builder(folder, "hold") as first, builder(folder, "go") as second:
        made = recipe(Data(train=str(folder / "t.jsonl"), heldout=str(folder / "h.jsonl")), 32)
        assert not (folder / "tokens" / made.key).exists()
        assert list((folder / "tokens").glob(".*.part"))
        until_it_waits(second)
        first.kill()
        name, built = said(second)
    assert (name, built) == (made.key, 1)
    cache.index(folder / "tokens" / name, 0)
    assert not list((folder / "tokens").glob(".*.part"))
