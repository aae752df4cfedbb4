"""Documents, rows, baselines and overlap, on data small enough to check by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.errors import RunError
from seatrial.train.data import baselines, overlap
from seatrial.train.data.source import EXCLUDED, content_digest, python_stdlib, source_of
from seatrial.train.data.tokens import IGNORED, Dataset, synthetic
from seatrial.trial.data import Data
from tests.support.data import dataset, text_of

pytestmark = pytest.mark.unit


def library(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


def listed(source: object) -> list[dict[str, str]]:
    return list(source.manifest["files"])  # type: ignore[attr-defined]


def test_the_corpus_leaves_out_what_is_not_the_library(tmp_path: Path) -> None:
    names = [f"module{n}.py" for n in range(40)] + [f"{folder}/inner.py" for folder in EXCLUDED] + ["data.txt"]
    found = python_stdlib(library(tmp_path, {name: f"value_of_{name} = 1\n" for name in names}))
    assert sorted(f["path"] for f in listed(found)) == sorted(f"module{n}.py" for n in range(40))
    assert {f["split"] for f in listed(found)} == {"train", "heldout"}
    assert content_digest(found) == content_digest(python_stdlib(tmp_path))


def test_a_heldout_copy_of_train_is_dropped_and_listed(tmp_path: Path) -> None:
    lines = "".join(f"a_line_that_is_long_enough_{n} = {n}\n" for n in range(50))
    names = [f"module{n}.py" for n in range(60)]
    first = python_stdlib(library(tmp_path, {name: f"only_in_{name}_and_nowhere_else = 1\n" * 3 for name in names}))
    held = next(f["path"] for f in listed(first) if f["split"] == "heldout")
    trained = next(f["path"] for f in listed(first) if f["split"] == "train")
    library(tmp_path, {trained: lines, held: lines[: len(lines) // 2]})
    assert python_stdlib(tmp_path).manifest["dropped"] == [held]


def test_the_real_corpus_is_split_about_one_to_nine() -> None:
    found = python_stdlib()
    size = {split: sum(f["size"] for f in listed(found) if f["split"] == split) for split in ("train", "heldout")}
    assert size["train"] > 3_000_000
    assert 0.03 < size["heldout"] / size["train"] < 0.3


def test_an_empty_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "heldout.txt").write_text("x")
    with pytest.raises(RunError, match=r"workload\.data\.train: .*train holds no file"):
        source_of(Data(train=str(tmp_path / "train"), heldout=str(tmp_path / "heldout.txt")))


def test_rows_overlap_by_one_token_and_are_visited_once_an_epoch() -> None:
    data = dataset([bytes(range(1, 100))], [b"x" * 50], 9)
    assert data.rows == 11
    seen = sorted(int(data.sample(i).inputs[0]) for i in range(data.rows))
    assert seen == [1 + 9 * i for i in range(11)]
    assert all(len(data.sample(i).inputs) == len(data.sample(i).targets) == 9 for i in range(data.rows))
    assert [int(data.sample(i).inputs[0]) for i in range(11)] != [int(data.sample(i + 11).inputs[0]) for i in range(11)]


def test_documents_stay_apart_in_a_row() -> None:
    """`abc`, `de` and `f` with their ends, by hand: no target is the first token of a document."""
    data = dataset([b"abc", b"de", b"f", b"ghijk"], [b"x" * 50], 10)
    row = data.train.sample(0)
    assert text_of(row.inputs) == b"abc\0de\0f\0g"
    assert row.positions.tolist() == [0, 1, 2, 3, 0, 1, 2, 0, 1, 0]
    assert [chr(t) if t > 0 else t for t in row.targets.tolist()] == ["b", "c", 0, -100, "e", 0, -100, 0, -100, "h"]
    assert row.counted == data.train.counted(0) == 7


def test_a_document_that_begins_with_a_row() -> None:
    """The second row begins with the last token of the first: positions start anew, and nothing is lost or doubled."""
    data = dataset([b"abcd", b"efgh", b"ij"], [b"x" * 50], 5)
    first, second = data.train.sample(0), data.train.sample(1)
    assert text_of(first.inputs) == b"abcd\0"
    assert first.targets.tolist() == [*b"bcd\0", IGNORED]  # `e` stands for no prediction
    assert text_of(second.inputs) == b"efgh\0"
    assert second.positions.tolist() == [0, 1, 2, 3, 4]


LETTERS = st.characters(codec="utf-8", exclude_characters="\0")


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(LETTERS, min_size=1, max_size=12).map(str.encode), min_size=5, max_size=12))
def test_every_target_that_counts_is_predicted_once_and_from_its_own_document(documents: list[bytes]) -> None:
    data = dataset(documents, [b"x" * 50], 8)
    assert data.rows
    stream = b"".join(d + b"\0" for d in documents)
    number = [n for n, d in enumerate(documents) for _ in range(len(d) + 1)]
    counted = 0
    for at in range(data.rows):
        row = data.train.sample(at)
        for offset, (seen, target, position) in enumerate(
            zip(row.inputs.tolist(), row.targets.tolist(), row.positions.tolist(), strict=True)
        ):
            place = at * 8 + offset
            assert seen == stream[place]
            own = number[place] == number[place + 1]
            assert target == (stream[place + 1] if own else IGNORED)
            assert position <= offset
            assert number[place - position] == number[place]
            counted += own
    assert counted == data.statistics.counted == sum(data.train.counted(n) for n in range(data.rows))


def test_what_a_step_is_divided_by_is_free_of_who_reads_it() -> None:
    data = dataset([b"abc", b"de", b"f", b"ghijk"] * 20, [b"x" * 50], 10)
    whole = data.counted(range(16))
    assert whole == sum(data.sample(i).counted for i in range(16))
    assert whole == data.counted(range(8)) + data.counted(range(8, 16))
    assert whole < 160


def test_bytes_of_a_window_are_those_of_its_targets_that_count() -> None:
    data = dataset([b"x" * 50], [b"abc", b"de", b"f", b"ghijk"], 10, windows=1)
    assert list(data.window_bytes(0)) == [(b"a", b"bc\0"), (b"d", b"e\0"), (b"f", b"\0"), (b"g", b"h")]


def test_synthetic_tokens_are_one_document() -> None:
    data = synthetic(3, 32, 2, 100)
    assert data.sample(5).positions.tolist() == list(range(32))
    assert data.counted(range(4)) == 128
    assert data.sample(5).digest == synthetic(3, 32, 2, 100).sample(5).digest != data.sample(6).digest


def test_baselines_by_hand() -> None:
    """In `abab…` after a comes b: the bigram knows it, the unigram has to toss a coin."""
    nats, sizes = baselines.score(dataset([b"ab" * 5000], [b"ab" * 200], 32))
    assert sizes == [32, 32]
    assert nats["unigram"][0] / 32 == pytest.approx(math.log(2), rel=0.02)
    assert nats["bigram"][0] / 32 == pytest.approx(0.0, abs=0.02)


def test_pairs_are_of_one_document() -> None:
    bigrams = dataset([b"ab", b"cd"] * 40, [b"x" * 50], 8).bigrams
    assert bigrams is not None
    counts = {(a, b): int(n) for a, b, n in zip(*np.nonzero(bigrams), bigrams[np.nonzero(bigrams)], strict=True)}
    assert counts == {(97, 98): 40, (98, 0): 40, (99, 100): 40, (100, 0): 40}


def noise(generator: object, size: int) -> bytes:
    return generator.integers(1, 128, size, dtype=np.uint8).tobytes()  # type: ignore[attr-defined,no-any-return]


def test_overlap_of_nothing_of_a_part_and_of_everything() -> None:
    generator = np.random.default_rng(1)
    train, other = noise(generator, 20_000), noise(generator, 20_000)
    assert overlap.shares(dataset([train], [other[:2000]], 256, 4)) == [0.0] * 4
    assert overlap.shares(dataset([train], [train[5000:7000]], 256, 4)) == [1.0] * 4
    half = other[:128] + train[:129] + other[300:600]
    shares = overlap.shares(dataset([train], [half], 256, 1))
    assert 0.2 < shares[0] < 0.5


def test_overlap_of_short_documents_in_another_order() -> None:
    """Rows of train and held-out have nothing in common but the documents."""
    generator = np.random.default_rng(3)
    documents = [noise(generator, 30) for _ in range(200)]
    data = dataset(documents, documents[::-7], 128, 4)
    assert overlap.ngram(data) == 16
    assert overlap.shares(data) == [1.0] * 4
    assert overlap.shares(dataset(documents, [noise(generator, 30) for _ in range(40)], 128, 4)) == [0.0] * 4


def test_overlap_across_the_pieces_it_is_computed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "_CHUNK", 1000)
    train = noise(np.random.default_rng(2), 10_000)
    assert overlap.shares(dataset([train], [train[800:1400]], 128, 4)) == [1.0] * 4


def test_windows_too_short_to_compare() -> None:
    assert overlap.shares(dataset([b"x" * 100], [b"y" * 100], 12)) == []
    assert overlap.ngram(dataset([b"x" * 100], [b"y" * 100], 40)) == 32


def test_data_that_is_too_small_is_said() -> None:
    with pytest.raises(RunError, match="heldout has fewer tokens than one row of sequence_length = 64"):
        dataset([b"x" * 100], [b"y" * 20], 64)


def test_the_digest_of_a_sample_covers_its_positions() -> None:
    """The same tokens as one document and as two."""

    def digest(data: Dataset) -> str:
        return data.train.sample(0).digest

    assert digest(dataset([b"ab\0cdefghij"], [b"x" * 50], 9)) != digest(dataset([b"ab", b"cdefghij"], [b"x" * 50], 9))
