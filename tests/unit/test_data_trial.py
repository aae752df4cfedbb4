"""`workload.data` in a trial file: what goes together, and the line for what does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from seatrial.errors import InputErrors
from seatrial.trial.loader import load

pytestmark = pytest.mark.unit
TRIAL = """metadata: {name: data}
workload:
  model: %s
  data: %s
  sequence_length: 64
  global_batch: 4
  steps: 20
  optimizer: {lr: 1e-2}
claims:
  - {claim: execution.completed}
"""
NAMED = "{name: a/model}"


def written(folder: Path, data: str, model: str = NAMED) -> Path:
    (folder / "t.yaml").write_text(TRIAL % (model, data))
    return folder / "t.yaml"


@pytest.mark.parametrize(
    ("data", "line"),
    [
        ("{}", "4:9: workload.data: was given nothing; expected one of train + heldout, dataset, corpus, synthetic"),
        ("{train: a.jsonl, corpus: python-stdlib}",
         "4:9: workload.data: was given train/heldout, corpus; expected one of train + heldout, dataset, corpus, synthetic"),
        ("{train: a, heldout: b, format: csv}",
         '4:38: workload.data.format: saw "csv"; expected one of text, jsonl, parquet'),
        ("{train: a, heldout: b, format: text, chat: true}",
         "4:38: workload.data.format: saw text beside chat; expected jsonl or parquet"),
        ("{corpus: python-stdlib, chat: true}",
         "4:39: workload.data.chat: was given without rows; expected chat only beside train + heldout or dataset"),
        ("{synthetic: random-tokens, max_bad_rows: 3}",
         "4:50: workload.data.max_bad_rows: was given without rows; expected max_bad_rows only beside train + heldout or"
         " dataset"),
        ("{train: a, heldout: b, max_bad_rows: -1}", "4:44: workload.data.max_bad_rows: saw -1; expected at least 0"),
        ("{dataset: {name: x}}", "4:20: workload.data.dataset.heldout_split: missing"),
        ("{dataset: {name: x, heldout_split: test}, format: jsonl}",
         "4:59: workload.data.format: was given without files; expected format only beside train + heldout"),
        ("{train: a, heldout: b, chatt: true}", "4:32: workload.data.chatt: unknown key; did you mean chat?"),
    ],
)  # fmt: skip
def test_one_wrong_thing_gives_one_line(tmp_path: Path, data: str, line: str) -> None:
    with pytest.raises(InputErrors) as caught:
        load(written(tmp_path, data))
    place, _, said = str(caught.value).partition(":")
    assert place == str(tmp_path / "t.yaml")
    head, *tail = line.split(": ")
    assert said.split(": ")[1:] == tail
    assert said.split(": ")[0].split(":")[0] == head.split(":")[0]  # the line


def test_chat_beside_byte_tokens(tmp_path: Path) -> None:
    model = "{config: {model_type: qwen2}}"
    with pytest.raises(InputErrors, match=r"workload\.data: saw chat beside byte tokens"):
        load(written(tmp_path, "{train: a.jsonl, heldout: b.jsonl, chat: true}", model))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("{train: a.jsonl, heldout: /b.jsonl}", {"column": "text", "train": "{here}/a.jsonl", "heldout": "/b.jsonl"}),
        ("{train: a, heldout: b, chat: true}", {"column": "messages"}),
        ("{train: a, heldout: b, field: body}", {"column": "body"}),
    ],
)
def test_paths_and_columns(tmp_path: Path, data: str, expected: dict[str, Any]) -> None:
    read = load(written(tmp_path, data)).trial.training.data
    for key, value in expected.items():
        assert getattr(read, key) == value.replace("{here}", str(tmp_path))


@pytest.mark.parametrize(("name", "read"), [("org/set", "org/set"), ("./set", "{here}/./set"), ("/abs", "/abs")])
def test_a_dataset_by_name_or_in_a_folder(tmp_path: Path, name: str, read: str) -> None:
    data = load(written(tmp_path, f"{{dataset: {{name: {name}, heldout_split: test}}}}")).trial.training.data
    assert data.dataset is not None
    assert Path(data.dataset.name) == Path(read.replace("{here}", str(tmp_path)))
    assert data.dataset.train_split == "train"
