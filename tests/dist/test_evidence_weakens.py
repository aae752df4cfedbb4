"""Deleting any file, line or suffix never makes a verdict better."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("torch")

from seatrial.evidence import judge, read_evidence
from tests.mutants import plants
from tests.support import gloo
from tests.support.trials import quick

pytestmark = pytest.mark.dist
SUPPORTED = "supported"


def verdicts(root: Path) -> dict[str, str]:
    run, evidence = read_evidence(root)
    return {v.claim: v.verdict for v in judge(run.claims, evidence)}


@contextmanager
def changed(path: Path, data: bytes | None) -> Iterator[None]:
    """A file with other content, or gone, for a while."""
    kept = path.read_bytes()
    if data is None:
        path.unlink()
    else:
        path.write_bytes(data)
    try:
        yield
    finally:
        path.write_bytes(kept)


def cuts(data: bytes) -> Iterator[bytes]:
    """Suffixes gone at whole lines and within them, and single lines gone; sampled where there are many."""
    lines = data.splitlines(keepends=True)
    picked = sorted({0, 1, 2, 3, len(lines) // 2, len(lines) - 2, len(lines) - 1} & set(range(len(lines))))
    for at in picked:
        yield b"".join(lines[:at])
        yield b"".join(lines[:at]) + lines[at][: len(lines[at]) // 2]
        yield b"".join(lines[:at] + lines[at + 1 :])


@pytest.fixture(scope="module")
def lying_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with claims that are refuted: nothing that is deleted may turn them."""
    return gloo.run(quick(), tmp_path_factory.mktemp("lying"), plants.same_shard).root


@pytest.mark.parametrize("kind", ["clean", "lying"])
def test_what_goes_missing_never_helps(kind: str, clean_run: Path, lying_run: Path, tmp_path: Path) -> None:
    root = tmp_path / "run"
    shutil.copytree(clean_run if kind == "clean" else lying_run, root, ignore=shutil.ignore_patterns("*.distcp"))
    os.rename(root, tmp_path / (clean_run if kind == "clean" else lying_run).name)
    root = tmp_path / (clean_run if kind == "clean" else lying_run).name
    whole = verdicts(root)
    assert (set(whole.values()) == {SUPPORTED}) == (kind == "clean")
    tried = 0
    for path in [*sorted((root / "events").rglob("*.jsonl")), root / "claims.json", root / "trial.json"]:
        data = path.read_bytes()
        for less in (None, *cuts(data)):
            tried += 1
            with changed(path, less):
                seen = verdicts(root)
            assert seen.keys() == whole.keys()
            for claim, verdict in seen.items():
                better = verdict == SUPPORTED and whole[claim] != SUPPORTED
                turned = verdict == "refuted" and whole[claim] == SUPPORTED
                assert not better, (path.name, tried, claim)
                assert not turned, (path.name, tried, claim, "missing is not refuting")
    assert tried > 100
    assert verdicts(root) == whole
