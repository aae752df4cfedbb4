"""Chat with a real tokenizer and real templates: what is rendered, what counts, how rows are packed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
np = pytest.importorskip("numpy")

from seatrial.errors import RunError
from seatrial.train.data import store
from seatrial.train.data.opening import map_store
from seatrial.train.data.source import source_of
from seatrial.train.data.tokenizer import ModelTokenizer
from seatrial.train.data.tokens import IGNORED, Dataset
from seatrial.trial.data import Data
from tests.support.chat import MARKED, PLAIN, REWRITING, conversation, folder
from tests.support.data import jsonl

pytestmark = pytest.mark.dist
WORDS = [m["content"] for n in range(200) for m in conversation(n)]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    templates = {"plain": PLAIN, "marked": MARKED, "rewriting": REWRITING, "none": None}
    return {name: folder(tmp_path_factory.mktemp(name), template, WORDS) for name, template in templates.items()}


def text(tokenizer: ModelTokenizer, ids: Any) -> str:
    return str(tokenizer._tokenizer.decode(ids))


@pytest.mark.parametrize("name", ["plain", "marked"])
def test_only_the_assistant_counts(models: dict[str, Path], name: str) -> None:
    tokenizer = ModelTokenizer(models[name])
    said = tokenizer.conversation(conversation(41))
    assert said.ids is not None
    assert said.answers is not None
    assert text(tokenizer, said.ids) == tokenizer._tokenizer.apply_chat_template(conversation(41), tokenize=False)
    runs = [r for _, r in store.counted_runs(tokenizer, said.ids, said.answers)]
    answers = [m["content"] for m in conversation(41) if m["role"] == "assistant"]
    assert runs == [f"{a}\0\n".encode() for a in answers]  # NUL stands for the end-of-text token


def test_both_ways_agree(models: dict[str, Path]) -> None:
    """The template's own marks and the growth of the rendering."""
    plain, marked = ModelTokenizer(models["plain"]), ModelTokenizer(models["marked"])
    for n in range(50):
        one, other = plain.conversation(conversation(n)), marked.conversation(conversation(n))
        assert (one.ids == other.ids).all()
        assert (one.answers == other.answers).all()


def test_a_template_that_rewrites_earlier_turns_is_not_guessed_at(models: dict[str, Path]) -> None:
    tokenizer = ModelTokenizer(models["rewriting"])
    assert (
        tokenizer.conversation(conversation(5)).problem
        == "earlier turns are rendered differently once more turns follow"
    )
    short = [{"role": "user", "content": "abc"}, {"role": "assistant", "content": "defghi"}]
    assert tokenizer.conversation(short).problem == ""


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([{"role": "user", "content": "hello"}], "no answer"),
        ([{"role": "narrator", "content": "x"}, {"role": "assistant", "content": "y"}], "refused by the template"),
        ([{"role": "user", "content": "x"}, {"role": "assistant", "content": ""}], ""),  # the end of the turn is learnt
    ],
)
def test_what_a_template_cannot_render_is_a_bad_row(models: dict[str, Path], messages: Any, problem: str) -> None:
    assert ModelTokenizer(models["plain"]).conversation(messages).problem == problem


def test_a_tokenizer_without_a_template(models: dict[str, Path]) -> None:
    with pytest.raises(RunError, match="the model's tokenizer has no chat template"):
        ModelTokenizer(models["none"]).conversation(conversation(1))


def opened(tmp_path: Path, model: Path, rows: list[Any], length: int, bad: int = 0) -> Dataset:
    path = jsonl(tmp_path / "t.jsonl", [{"messages": row} for row in rows])
    data = Data(train=str(path), heldout=str(path), chat=True, max_bad_rows=bad)
    recipe = store.Recipe(source_of(data), ModelTokenizer(model), True, length, bad)
    (tmp_path / "store").mkdir()
    store.build(recipe, tmp_path / "store")
    return map_store(tmp_path / "store", recipe.tokenizer, ("jsonl", "x"), {}, length, 3, 4, bad)


def test_conversations_are_packed_whole_and_padded(models: dict[str, Path], tmp_path: Path) -> None:
    data = opened(tmp_path, models["plain"], [conversation(n) for n in range(40)], 160)
    tokenizer = ModelTokenizer(models["plain"])
    alone = [tokenizer.conversation(conversation(n)) for n in range(40)]
    seen = 0
    for number in range(data.rows):
        row = data.train.sample(number)
        assert len(row.inputs) == 160
        begins = np.flatnonzero(row.positions == 0).tolist()
        first, last = (int(data.train.first[number + at]) for at in (0, 1))  # type: ignore[index]
        assert last > first
        for at, document in zip(begins, range(first, last), strict=False):
            ids, answers = alone[document].ids, alone[document].answers
            assert ids is not None
            assert answers is not None
            stop = min(160, at + len(ids))
            assert (row.inputs[at:stop] == ids[: stop - at]).all()
            targets = row.targets[at : at + len(ids) - 1]
            assert (targets == np.where(answers[1:], ids[1:], IGNORED)).all()
        used = sum(len(alone[document].ids) for document in range(first, last))  # type: ignore[arg-type]
        assert used <= 161
        assert (row.targets[used - 1 :] == IGNORED).all()  # padding
        assert row.counted == data.train.counted(number) == sum(alone[d].answers.sum() for d in range(first, last))  # type: ignore[union-attr]
        seen += last - first
    assert seen == 40
    assert data.statistics.counted == sum(data.train.counted(n) for n in range(data.rows))


def test_a_conversation_longer_than_a_row_loses_its_end(models: dict[str, Path], tmp_path: Path) -> None:
    long_answer = [{"role": "user", "content": "count"}, {"role": "assistant", "content": "one two three " * 50}]
    long_question = [{"role": "user", "content": "count " * 100}, {"role": "assistant", "content": "no"}]
    data = opened(tmp_path, models["plain"], [conversation(1), long_answer, long_question], 128, bad=2)
    assert data.statistics.documents == 2
    assert data.statistics.truncated == 2  # one in each split
    assert data.statistics.bad == {"no answer within sequence_length": 2}
    assert data.statistics.named[0].startswith("t.jsonl:3: no answer within sequence_length (")
    row = data.train.sample(1)
    assert (row.inputs[:2] >= 0).all()
    assert row.counted > 100
