"""The store on disk: found again, never used broken, and in pieces what it is as a whole."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

from seatrial.errors import RunError
from seatrial.train.data import cache, store
from tests.support.data import files, recipe

pytestmark = pytest.mark.unit
DOCUMENTS = [f"document {n} " * (n % 5 + 1) for n in range(60)]


@pytest.fixture
def made(tmp_path: Path) -> store.Recipe:
    return recipe(files(tmp_path / "data", [d.encode() for d in DOCUMENTS], [b"held out " * 20]), 16)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_store_is_built_once_and_found_again(
    made: store.Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = cache.ensure(tmp_path / "tokens", made)
    assert folder == tmp_path / "tokens" / made.key
    monkeypatch.setattr(cache, "build", None)  # a second build would fail
    assert cache.ensure(tmp_path / "tokens", made) == folder
    assert [p.name for p in (tmp_path / "tokens").iterdir() if p.name.endswith(".part")] == []


def test_what_is_in_the_key(made: store.Recipe, tmp_path: Path) -> None:
    assert replace(made, sequence_length=32).key == made.key  # text is cut when it is read
    assert replace(made, chat=True).key != made.key
    assert replace(made, chat=True).key != replace(made, chat=True, sequence_length=32).key
    assert replace(made, max_bad_rows=7).key == made.key
    changed = tmp_path / "data" / "train" / "000.txt"
    changed.write_text("another text")
    assert recipe(_data(tmp_path), 16).key != made.key


def _data(tmp_path: Path):  # type: ignore[no-untyped-def]
    from seatrial.trial.data import Data

    return Data(train=str(tmp_path / "data" / "train"), heldout=str(tmp_path / "data" / "heldout"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: os.truncate(folder / "train.tokens", 100),
        lambda folder: os.truncate(folder / "train.starts", 0),
        lambda folder: (folder / "heldout.tokens").unlink(),
        lambda folder: (folder / store.INDEX).write_text("{}"),
        lambda folder: (folder / store.INDEX).write_bytes((folder / store.INDEX).read_bytes().replace(b"60", b"61")),
        lambda folder: (folder / store.SEAL).unlink(),
    ],
)
def test_a_broken_store_is_built_again_and_never_used(made: store.Recipe, tmp_path: Path, damage) -> None:  # type: ignore[no-untyped-def]
    folder = cache.ensure(tmp_path / "tokens", made)
    whole = content(folder)
    damage(folder)
    with pytest.raises(RunError, match="is no complete store on this host"):
        cache.index(folder, 0)
    assert content(cache.ensure(tmp_path / "tokens", made)) == whole
    cache.index(folder, 0)
    assert [p.name for p in (tmp_path / "tokens").iterdir() if p.name.endswith(".part")] == []


def test_what_a_killed_builder_left_is_removed(made: store.Recipe, tmp_path: Path) -> None:
    left = tmp_path / "tokens" / f".{made.key}.abc.part"
    left.mkdir(parents=True)
    (left / "train.tokens").write_bytes(b"half")
    other = tmp_path / "tokens" / ".another-key.abc.part"
    other.mkdir()
    cache.ensure(tmp_path / "tokens", made)
    assert not left.exists()
    assert other.exists()


def test_without_locks_the_first_to_finish_wins(
    made: store.Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While this one builds, another finishes."""
    build = cache.build
    monkeypatch.setattr("fcntl.flock", _refuse)

    def overtaken(what: store.Recipe, folder: Path) -> None:
        build(what, folder)
        if not (tmp_path / "tokens" / made.key).exists():
            other = tmp_path / "other"
            other.mkdir()
            build(what, other)
            (other / "by-another").write_text("")
            other.rename(tmp_path / "tokens" / made.key)

    monkeypatch.setattr(cache, "build", overtaken)
    folder = cache.ensure(tmp_path / "tokens", made)
    assert (folder / "by-another").exists()
    assert sorted(p.name for p in (tmp_path / "tokens").iterdir()) == sorted([f".{made.key}.lock", made.key])


def _refuse(*_: object) -> None:
    raise OSError(37, "No locks available")


def test_a_storage_that_cannot_be_written_is_one_line(made: store.Recipe, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("a file")
    with pytest.raises(RunError, match=r"^storage: .*tokens: File exists$"):
        cache.ensure(tmp_path / "tokens", made)


def test_bad_rows_of_a_store_that_is_there_already_count_too(tmp_path: Path) -> None:
    data = files(tmp_path / "data", [b"good text " * 9, b"\xff"], [b"held out " * 20])
    cache.ensure(tmp_path / "tokens", recipe(data.model_copy(update={"max_bad_rows": 1}), 16))
    with pytest.raises(RunError, match=r"1 bad rows, expected at most max_bad_rows = 0: 1 not UTF-8; 001\.txt:1"):
        cache.ensure(tmp_path / "tokens", recipe(data, 16))


@pytest.mark.parametrize("size", [1, 50, 333, 1 << 20])
def test_batches_do_not_change_the_store(
    made: store.Recipe, tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BATCH_BYTES", size)
    (tmp_path / "store").mkdir()
    store.build(made, tmp_path / "store")
    stream = b"".join(d.encode() + b"\0" for d in DOCUMENTS)
    assert (tmp_path / "store" / "train.tokens").read_bytes() == stream
    starts = np.fromfile(tmp_path / "store" / "train.starts", dtype="<i8")
    assert starts.tolist() == [0, *np.cumsum([len(d) + 1 for d in DOCUMENTS]).tolist()]
    index = json.loads((tmp_path / "store" / store.INDEX).read_bytes())
    assert index["splits"]["train"] == {
        "documents": 60,
        "tokens": len(stream),
        "rows": 0,
        "truncated": 0,
        "largest": 117,
    }


@pytest.mark.parametrize("size", [1, 50, 1 << 20])
def test_a_store_of_some_documents_has_holes_for_the_others(
    made: store.Recipe, tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an audit builds: every third document is needed, the lengths of the others are known."""
    monkeypatch.setattr(store, "BATCH_BYTES", size)
    for name in ("whole", "part"):
        (tmp_path / name).mkdir()
    store.build(made, tmp_path / "whole")
    store.build(made, tmp_path / "part", lambda split, n: None if n % 3 == 0 else len(_of(split)[n]) + 1)
    expected = b"".join(d.encode() + b"\0" if n % 3 == 0 else bytes(len(d) + 1) for n, d in enumerate(DOCUMENTS))
    assert (tmp_path / "part" / "train.tokens").read_bytes() == expected
    for name in ("train.starts", "pairs"):
        assert (tmp_path / "part" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def _of(split: str) -> list[str]:
    return DOCUMENTS if split == "train" else ["held out " * 20]
