"""Files of each format to rows, and what is said of those that cannot be used."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")

from seatrial.errors import RunError
from seatrial.train.data import formats, store
from seatrial.train.data.source import content_digest, source_of
from seatrial.trial.data import Data
from tests.support.data import jsonl, parquet, recipe

pytestmark = pytest.mark.unit
GOOD = [{"text": f"a line of text, number {n}"} for n in range(40)]


def built(data: Data, folder: Path) -> dict[str, Any]:
    folder.mkdir()
    store.build(recipe(data, 16), folder)
    return json.loads((folder / store.INDEX).read_bytes())


def texts(data: Data) -> list[bytes]:
    return [row.value for row in source_of(data).rows("train")]


@pytest.fixture
def heldout(tmp_path: Path) -> Path:
    return jsonl(tmp_path / "heldout.jsonl", GOOD)


def test_one_text_in_three_formats_is_one_text(tmp_path: Path, heldout: Path) -> None:
    words = [row["text"] for row in GOOD]
    (tmp_path / "folder").mkdir()
    jsonl(tmp_path / "folder" / "a.jsonl", GOOD[:20])
    jsonl(tmp_path / "folder" / "b.jsonl.gz", GOOD[20:])
    paths = [
        jsonl(tmp_path / "t.jsonl", GOOD),
        jsonl(tmp_path / "t.jsonl.gz", GOOD),
        parquet(tmp_path / "t.parquet", {"id": list(range(40)), "text": words}),
        tmp_path / "folder",
    ]
    for path in paths:
        assert texts(Data(train=str(path), heldout=str(heldout))) == [w.encode() for w in words], path
    assert len({content_digest(source_of(Data(train=str(p), heldout=str(heldout)))) for p in paths}) == 4


def test_the_content_of_a_file_is_in_the_digest(tmp_path: Path, heldout: Path) -> None:
    data = Data(train=str(jsonl(tmp_path / "t.jsonl", GOOD)), heldout=str(heldout))
    before = content_digest(source_of(data))
    jsonl(tmp_path / "t.jsonl", [*GOOD[:-1], {"text": "a line of text, number 38"}])
    assert content_digest(source_of(data)) != before
    assert content_digest(source_of(data.model_copy(update={"field": "title"}))) != content_digest(source_of(data))


def test_bad_rows_are_counted_by_kind_and_named_by_line(tmp_path: Path, heldout: Path) -> None:
    rows: list[Any] = [
        *GOOD, b"{not json", b"", b"[1]", {"title": "x"}, {"text": 7}, {"text": ""}, {"text": None}, b'{"text": "\xff"}',
        b'{"text": "\\ud800"}', b"[" * 100_000,
    ]  # fmt: skip
    data = Data(train=str(jsonl(tmp_path / "t.jsonl", rows)), heldout=str(heldout), max_bad_rows=9)
    index = built(data, tmp_path / "store")
    assert index["bad"]["counts"] == {"not JSON": 2, "wrong type": 2, "no such field": 1, "empty": 2, "not UTF-8": 2}
    named = index["bad"]["named"]
    assert [n.split(": ")[0] for n in named] == [f"t.jsonl:{n}" for n in (41, 43, 44, 45, 46, 47, 48, 49)]
    assert named[1] == "t.jsonl:43: wrong type (saw a list of 1, expected a map)"
    assert named[2] == "t.jsonl:44: no such field (text)"
    assert index["splits"]["train"]["documents"] == 40


def test_too_many_bad_rows_stop_the_run_and_say_what_the_limit_would_have_to_be(tmp_path: Path, heldout: Path) -> None:
    rows = [*GOOD, b"{", {"text": ""}, *[{"text": 1}] * 20]
    data = Data(train=str(jsonl(tmp_path / "t.jsonl", rows)), heldout=str(heldout), max_bad_rows=2)
    with pytest.raises(RunError) as caught:
        built(data, tmp_path / "store")
    said = str(caught.value)
    assert "\n" not in said
    assert said.startswith(
        "workload.data: 22 bad rows, expected at most max_bad_rows = 2: 1 empty, 1 not JSON, 20 wrong type; t.jsonl:41: not JSON ("
    )
    assert said.endswith(" and 14 more; mend them, or set workload.data.max_bad_rows: 22")


def test_parquet_names_rows_and_columns(tmp_path: Path, heldout: Path) -> None:
    path = parquet(tmp_path / "t.parquet", {"text": ["good", "", None, "fine"] * 300, "id": [1, 2, 3, 4] * 300})
    data = Data(train=str(path), heldout=str(heldout), max_bad_rows=600)
    index = built(data, tmp_path / "store")
    assert index["bad"]["counts"] == {"empty": 600}
    assert index["bad"]["named"][:2] == ["t.parquet:2: empty", "t.parquet:3: empty"]
    wrong = Data(train=str(path), heldout=str(path), field="body")
    with pytest.raises(
        RunError, match=r"workload\.data\.field: .*t\.parquet has no column body; expected one of text, id"
    ):
        texts(wrong)


def test_text_that_is_not_utf8_is_a_bad_row_and_an_empty_file_is_no_document(tmp_path: Path) -> None:
    for split in ("train", "heldout"):
        (tmp_path / split).mkdir()
        (tmp_path / split / "a.txt").write_text("good text\n" * 20)
    (tmp_path / "train" / "b.txt").write_bytes(b"line\nline \xff\n")
    (tmp_path / "train" / "c.txt").write_bytes(b"")
    (tmp_path / "train" / ".hidden").write_bytes(b"\xff")
    data = Data(train=str(tmp_path / "train"), heldout=str(tmp_path / "heldout"), max_bad_rows=1)
    index = built(data, tmp_path / "store")
    assert index["bad"] == {"counts": {"not UTF-8": 1}, "named": ["b.txt:2: not UTF-8"]}
    assert index["splits"]["train"]["documents"] == 1


def test_a_large_text_file_is_one_document_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "PIECE", 100)
    lines = "".join(f"line {n} — with more than ASCII\n" for n in range(50))
    (tmp_path / "t.txt").write_text(lines)
    (tmp_path / "h.txt").write_text(lines[:200])
    data = Data(train=str(tmp_path / "t.txt"), heldout=str(tmp_path / "h.txt"))
    rows = list(source_of(data).rows("train"))
    assert len(rows) > 10
    assert [row.more for row in rows] == [True] * (len(rows) - 1) + [False]
    index = built(data, tmp_path / "store")
    assert index["splits"]["train"]["documents"] == 1
    assert (tmp_path / "store" / "train.tokens").read_bytes() == lines.encode() + b"\0"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.jsonl.gz", b"no gzip", "cannot be read as jsonl: Not a gzipped file"),
        ("t.parquet", b"no parquet at all", "cannot be read as parquet"),
        ("t.jsonl.gz", gzip.compress(b'{"text": "x"}\n' * 99, mtime=0)[:-10], "cannot be read as jsonl"),
    ],
)
def test_a_file_that_is_not_what_it_says(tmp_path: Path, heldout: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RunError, match=words) as caught:
        texts(Data(train=str(tmp_path / name), heldout=str(heldout)))
    assert "\n" not in str(caught.value)


def test_a_folder_of_two_kinds_needs_a_format(tmp_path: Path, heldout: Path) -> None:
    folder = tmp_path / "train"
    folder.mkdir()
    jsonl(folder / "a.jsonl", GOOD)
    (folder / "README.md").write_text("about the data\n")
    with pytest.raises(RunError, match="holds jsonl and text files; expected one kind, or `format` to pick one"):
        source_of(Data(train=str(folder), heldout=str(heldout)))
    assert len(texts(Data(train=str(folder), heldout=str(heldout), format="jsonl"))) == 40
    with pytest.raises(RunError, match="holds no parquet file"):
        source_of(Data(train=str(folder), heldout=str(heldout), format="parquet"))


def test_a_split_of_text_beside_one_of_rows(tmp_path: Path, heldout: Path) -> None:
    (tmp_path / "t.txt").write_text("text")
    with pytest.raises(RunError, match="one split is text and the other is not"):
        source_of(Data(train=str(tmp_path / "t.txt"), heldout=str(heldout)))


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ("hello", "wrong type"),
        ([], "empty"),
        (None, "empty"),
        ([{"content": "x"}], "wrong type"),
        ([{"role": "user", "content": 7}], "wrong type"),
        ([{"role": "user", "content": None}], "wrong type"),
        ([{"role": "user", "content": "\ud800"}], "not UTF-8"),
        ([{"role": "assistant", "content": None, "tool_calls": [{}]}], ""),
        ([{"role": "user", "content": "x"}], ""),
    ],
)
def test_messages_are_looked_at_before_the_template_is(messages: Any, problem: str) -> None:
    assert formats.checked("t:1", messages, chat=True).problem == problem
