"""Hugging Face `datasets`, without a network: folders that it wrote, folders that it can load, names it cannot reach."""

from __future__ import annotations

from pathlib import Path

import pytest

datasets = pytest.importorskip("datasets")

from seatrial.errors import RunError
from seatrial.train.data.source import content_digest, source_of
from seatrial.trial.data import Data, Hub
from tests.support.data import jsonl

pytestmark = pytest.mark.dist
ROWS = [f"row {n} of a dataset" for n in range(1200)]


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As on a host without a network."""
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")


def hub(name: object, **more: str) -> Data:
    return Data(dataset=Hub(name=str(name), heldout_split=more.pop("heldout_split", "test"), **more))


def test_a_folder_that_datasets_wrote(tmp_path: Path) -> None:
    made = {"train": datasets.Dataset.from_dict({"text": ROWS, "id": list(range(1200))})}
    made["test"] = datasets.Dataset.from_dict({"text": ROWS[:7]})
    datasets.DatasetDict(made).save_to_disk(str(tmp_path / "set"))
    source = source_of(hub(tmp_path / "set"))
    assert [row.value.decode() for row in source.rows("train")] == ROWS
    assert [row.value.decode() for row in source.rows("heldout")] == ROWS[:7]
    assert [(f["size"], f["split"]) for f in source.manifest["files"]] == [(1200, "train"), (7, "heldout")]
    assert content_digest(source_of(hub(tmp_path / "set"))) == content_digest(source)
    with pytest.raises(RunError, match="split validation, could not be loaded: KeyError"):
        source_of(hub(tmp_path / "set", heldout_split="validation"))
    column = hub(tmp_path / "set").model_copy(update={"field": "body"})
    with pytest.raises(RunError, match=r"workload\.data\.field: .*set has no column body; expected one of"):
        source_of(column)


def test_a_folder_that_datasets_can_load_has_bad_rows_by_number(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    chats = [
        {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": f"{n}"}]} for n in range(9)
    ]
    jsonl(folder / "train.jsonl", [*chats, {"messages": []}])
    jsonl(folder / "test.jsonl", chats[:2])
    data = hub(folder).model_copy(update={"chat": True})
    rows = list(source_of(data).rows("train"))
    assert [row.problem for row in rows] == [""] * 9 + ["empty"]
    assert rows[3].value == chats[3]["messages"]
    assert rows[9].place == f"{folder}:10"


def test_a_change_of_one_value_changes_the_digest(tmp_path: Path) -> None:
    digests = set()
    for name, last in (("a", "x"), ("b", "y")):
        made = datasets.Dataset.from_dict({"text": [*ROWS, last]})
        datasets.DatasetDict({"train": made, "test": made}).save_to_disk(str(tmp_path / name))
        digests.add(source_of(hub(tmp_path / name)).manifest["files"][0]["sha256"])
    assert len(digests) == 2


def test_a_name_that_cannot_be_reached_is_one_line() -> None:
    with pytest.raises(RunError) as caught:
        source_of(hub("nobody/no-such-dataset"))
    said = str(caught.value)
    assert said.startswith("workload.data.dataset: nobody/no-such-dataset, split train, could not be loaded: ")
    assert "\n" not in said
