"""Documents, rows, baselines and overlap, on data small enough to check by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

from seatrial.errors import RunError
from seatrial.train.data import baselines, overlap
from seatrial.train.data.source import EXCLUDED, Documents, python_stdlib, text
from seatrial.train.data.tokens import ByteTokenizer, Dataset

pytestmark = pytest.mark.unit


def dataset(train: bytes, heldout: bytes, length: int, windows: int = 2) -> Dataset:
    documents = Documents("text", [train], [heldout], [])
    tokenizer = ByteTokenizer()
    return Dataset(
        "text",
        documents.digest,
        tokenizer,
        tokenizer.encode([train]),
        tokenizer.encode([heldout]),
        length,
        7,
        windows,
        documents,
    )


def library(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


def test_the_corpus_leaves_out_what_is_not_the_library(tmp_path: Path) -> None:
    names = [f"module{n}.py" for n in range(40)] + [f"{folder}/inner.py" for folder in EXCLUDED] + ["data.txt"]
    found = python_stdlib(library(tmp_path, {name: f"value_of_{name} = 1\n" for name in names}))
    assert sorted(f["path"] for f in found.files) == sorted(f"module{n}.py" for n in range(40))
    assert {f["split"] for f in found.files} == {"train", "heldout"}
    assert found.digest == python_stdlib(tmp_path).digest


def test_a_heldout_copy_of_train_is_dropped_and_listed(tmp_path: Path) -> None:
    lines = "".join(f"a_line_that_is_long_enough_{n} = {n}\n" for n in range(50))
    names = [f"module{n}.py" for n in range(60)]
    first = python_stdlib(library(tmp_path, {name: f"only_in_{name}_and_nowhere_else = 1\n" * 3 for name in names}))
    held = next(f["path"] for f in first.files if f["split"] == "heldout")
    trained = next(f["path"] for f in first.files if f["split"] == "train")
    library(tmp_path, {trained: lines, held: lines[: len(lines) // 2]})
    assert python_stdlib(tmp_path).dropped == [held]


def test_the_real_corpus_is_split_about_one_to_nine() -> None:
    found = python_stdlib()
    size = {split: sum(f["size"] for f in found.files if f["split"] == split) for split in ("train", "heldout")}
    assert size["train"] > 3_000_000
    assert 0.03 < size["heldout"] / size["train"] < 0.3


def test_an_empty_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "heldout.txt").write_text("x")
    with pytest.raises(RunError, match=r"workload\.data\.train: .*train holds no file"):
        text(tmp_path / "train", tmp_path / "heldout.txt")


def test_rows_overlap_by_one_token_and_are_visited_once_an_epoch() -> None:
    data = dataset(bytes(range(1, 101)), b"x" * 50, 9)
    assert data.rows == 11
    seen = sorted(int(data.sample(i)[0]) for i in range(data.rows))
    assert seen == [1 + 9 * i for i in range(11)]
    assert all(len(data.sample(i)) == 10 for i in range(data.rows))
    assert [int(data.sample(i)[0]) for i in range(11)] != [int(data.sample(i + 11)[0]) for i in range(11)]


def test_baselines_by_hand() -> None:
    """In `abab…` after a comes b: the bigram knows it, the unigram has to toss a coin."""
    nats, sizes = baselines.score(dataset(b"ab" * 5000, b"ab" * 200, 32))
    assert sizes == [32, 32]
    assert nats["unigram"][0] / 32 == pytest.approx(math.log(2), rel=0.02)
    assert nats["bigram"][0] / 32 == pytest.approx(0.0, abs=0.02)


def test_overlap_of_nothing_of_a_part_and_of_everything() -> None:
    generator = np.random.default_rng(1)
    train, other = (generator.integers(1, 256, 20_000, dtype=np.uint8).tobytes() for _ in range(2))
    assert overlap.shares(dataset(train, other[:2000], 256, 4)) == [0.0] * 4
    assert overlap.shares(dataset(train, train[5000:7000], 256, 4)) == [1.0] * 4
    half = other[:128] + train[:129] + other[300:600]
    shares = overlap.shares(dataset(train, half, 256, 1))
    assert 0.2 < shares[0] < 0.5


def test_overlap_across_the_pieces_it_is_computed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "_CHUNK", 1000)
    train = np.random.default_rng(2).integers(1, 256, 10_000, dtype=np.uint8).tobytes()
    assert overlap.shares(dataset(train, train[800:1400], 128, 4)) == [1.0] * 4


def test_windows_too_short_to_compare() -> None:
    assert overlap.shares(dataset(b"x" * 100, b"y" * 100, 12)) == []
    assert overlap.ngram(dataset(b"x" * 100, b"y" * 100, 40)) == 32
