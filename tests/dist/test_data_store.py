"""Several processes at one store: one builds, the others wait; a killed builder costs nothing but its time."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("numpy")

from seatrial.train.data import cache
from seatrial.trial.data import Data
from tests.support.data import jsonl, recipe

pytestmark = pytest.mark.dist

BUILDER = """
import json, sys, time
from pathlib import Path
from seatrial.train.data import cache, store
from seatrial.trial.data import Data
from tests.support.data import recipe

folder, slow = Path(sys.argv[1]), float(sys.argv[2])
build, good, built = cache.build, store._good, []

def seen(rows, bad):
    for number, row in enumerate(good(rows, bad)):
        if number == 100:
            print("half way", flush=True)
            time.sleep(slow)
        yield row

def counted(*arguments):
    built.append(1)
    build(*arguments)

store._good, cache.build = seen, counted
data = Data(train=str(folder / "t.jsonl"), heldout=str(folder / "h.jsonl"))
store_folder = cache.ensure(folder / "tokens", recipe(data, 32))
print(json.dumps([store_folder.name, len(built)]), flush=True)
"""


def start(folder: Path, slow: float) -> subprocess.Popen[str]:
    root = Path(__file__).parents[2]
    return subprocess.Popen(
        [sys.executable, "-c", BUILDER, str(folder), str(slow)], stdout=subprocess.PIPE, text=True, cwd=root
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    jsonl(tmp_path / "t.jsonl", [{"text": f"row {n} of a text that two processes want at once"} for n in range(2000)])
    jsonl(tmp_path / "h.jsonl", [{"text": f"held-out row {n}"} for n in range(200)])
    return tmp_path


def said(process: subprocess.Popen[str]) -> tuple[str, int]:
    lines = process.communicate(timeout=60)[0].splitlines()
    assert process.returncode == 0
    name, built = json.loads(lines[-1])
    return name, built


def test_two_builders_at_once_build_once(folder: Path) -> None:
    first = start(folder, 3)
    assert first.stdout is not None
    assert first.stdout.readline() == "half way\n"
    second = start(folder, 0)
    (one, built), (other, again) = said(first), said(second)
    assert one == other
    assert (built, again) == (1, 0)
    cache.index(folder / "tokens" / one, 0)
    assert sorted(p.name for p in (folder / "tokens").iterdir()) == sorted([f".{one}.lock", one])


def test_a_builder_killed_half_way_is_followed_by_another(folder: Path) -> None:
    first = start(folder, 60)
    assert first.stdout is not None
    assert first.stdout.readline() == "half way\n"
    made = recipe(Data(train=str(folder / "t.jsonl"), heldout=str(folder / "h.jsonl")), 32)
    assert not (folder / "tokens" / made.key).exists()
    assert list((folder / "tokens").glob(".*.part"))
    second = start(folder, 0)
    time.sleep(1)
    assert second.poll() is None  # it waits
    first.send_signal(signal.SIGKILL)
    first.wait()
    name, built = said(second)
    assert (name, built) == (made.key, 1)
    cache.index(folder / "tokens" / name, 0)
    assert not list((folder / "tokens").glob(".*.part"))
