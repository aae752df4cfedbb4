"""Task files, trials with tasks, and what evidence makes of their scores."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.canon import utc
from seatrial.errors import InputError
from seatrial.events import Stream
from seatrial.events.base import Event
from seatrial.events.schema import Closed, DataOpened, Opened, Planned
from seatrial.events.tasks import TaskOverlap, TaskScored
from seatrial.evidence import judge
from seatrial.evidence.facts import Evidence, Fact
from seatrial.evidence.facts.execution import DATA_ORDER, DataOrder
from seatrial.evidence.run import Run
from seatrial.evidence.training import learning
from seatrial.train.tasks.items import read_items
from seatrial.train.tasks.planned import TOLERANCES, check_tasks, planned_tasks
from seatrial.trial import Trial
from seatrial.trial.evaluation import Task
from seatrial.trial.loader import load
from tests.support.trials import TINY, tiny

pytestmark = pytest.mark.unit

EXACT = {"name": "digits", "kind": "exact_match", "path": "digits.jsonl"}
CHOICE = {"name": "digits", "kind": "multiple_choice", "path": "digits.jsonl"}


def task(base: dict[str, Any] = EXACT, **changes: Any) -> Task:
    return Task.model_validate_json(json.dumps({**base, **changes}))


def with_task(**changes: Any) -> Trial:
    return tiny(evaluate={"tasks": [{**EXACT, **changes}]})


GOOD = {
    EXACT["kind"]: '{"prompt": "a", "answer": "1"}',
    CHOICE["kind"]: '{"prompt": "a", "choices": ["1", "2"], "answer": 1}',
}

# kind, row, and words that must stand in the one line
WRONG = [
    ("exact_match", "{", "no JSON: {"),
    ("exact_match", "[1]", "saw a list of 1; expected a JSON object"),
    ("exact_match", '{"answer": "1"}', "prompt: missing"),
    ("exact_match", '{"prompt": "", "answer": "1"}', 'prompt: saw ""'),
    ("exact_match", '{"prompt": [{"role": "user", "content": "a"}], "answer": "1"}', "chat: true"),
    ("exact_match", '{"prompt": "a"}', "answer: missing"),
    ("exact_match", '{"prompt": "a", "answer": 42}', "saw 42; expected text; put it in quotes"),
    ("exact_match", '{"prompt": "a", "answer": " "}', "only white space"),
    ("exact_match", '{"prompt": "a", "answer": []}', "empty list"),
    ("exact_match", '{"prompt": "a", "answer": "1", "id": ""}', "id: saw"),
    ("multiple_choice", '{"prompt": "a", "answer": 0}', "choices: missing"),
    ("multiple_choice", '{"prompt": "a", "choices": ["1"], "answer": 0}', "two or more"),
    ("multiple_choice", '{"prompt": "a", "choices": ["1", "1"], "answer": 0}', "same choice twice"),
    ("multiple_choice", '{"prompt": "a", "choices": ["1", "2"], "answer": 2}', "saw 2; expected the index of the right choice, 0 to 1"),
    ("multiple_choice", '{"prompt": "a", "choices": ["1", "2"], "answer": true}', "saw true"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "row", "words"), WRONG)
def test_a_bad_row_is_named_by_its_line(kind: str, row: str, words: str, in_tmp: Path) -> None:
    Path("digits.jsonl").write_text(f"{GOOD[kind]}\n\n{row}\n")
    with pytest.raises(InputError) as caught:
        read_items(task(kind=kind))
    assert str(caught.value).startswith("digits.jsonl:3:1: ")
    assert words in str(caught.value)


def test_every_bad_row_has_a_line_of_its_own(in_tmp: Path) -> None:
    Path("digits.jsonl").write_bytes(
        b'{"prompt": "a", "answer": "1", "id": 7}\n{"prompt": "\xff"}\n{"prompt": "b", "answer": "1", "id": "7"}\n'
    )
    with pytest.raises(InputError) as caught:
        read_items(task())
    assert str(caught.value).splitlines() == [
        "digits.jsonl:2:1: no UTF-8 at byte 13; expected one JSON object a line, in UTF-8",
        "digits.jsonl:3:1: id: saw 7 again, first in line 1; expected an id for each item",
    ]


@pytest.mark.parametrize(("content", "words"), [(None, "No such file"), ("\n\n", "has no item")])
def test_a_file_without_items(content: str | None, words: str, in_tmp: Path) -> None:
    if content is not None:
        Path("digits.jsonl").write_text(content)
    with pytest.raises(InputError, match=words):
        read_items(task())


def test_items_are_read_as_they_stand(in_tmp: Path) -> None:
    Path("digits.jsonl").write_text(
        '{"prompt": "a ", "answer": ["1 ", "one"], "source": "mine"}\n{"prompt": "b", "answer": "2"}\n'
    )
    file = read_items(task())
    assert [(i.id, i.prompt, i.answers) for i in file.items] == [("1", "a ", ("1", "one")), ("2", "b", ("2",))]
    assert len(read_items(task(limit=1)).items) == 1
    assert read_items(task(limit=1)).digest == file.digest


def test_messages_need_a_chat(in_tmp: Path) -> None:
    Path("digits.jsonl").write_text('{"prompt": [{"role": "user", "content": "a"}], "answer": "1"}\n')
    assert read_items(task(chat=True)).items[0].prompt == ({"role": "user", "content": "a"},)


def test_a_file_is_checked_before_anything_starts_and_frozen_with_the_plan(in_tmp: Path) -> None:
    with pytest.raises(InputError, match=r"workload.evaluate.tasks.0.path: digits.jsonl: No such file"):
        check_tasks(with_task())
    check_tasks(with_task(), everywhere=False)
    assert planned_tasks(with_task())[0].digest is None
    Path("digits.jsonl").write_text(GOOD["exact_match"])
    check_tasks(with_task())
    planned = planned_tasks(with_task())[0]
    assert (planned.name, planned.items, str(planned.digest)[:7]) == ("digits", 1, "sha256:")


def test_bytes_have_no_chat_template(in_tmp: Path) -> None:
    Path("digits.jsonl").write_text(GOOD["exact_match"])
    with pytest.raises(InputError, match=r"tasks\.0\.chat: saw true with a tokenizer of bytes"):
        check_tasks(with_task(chat=True))


def test_lm_eval_that_is_not_installed_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError) as caught:
        check_tasks(tiny(evaluate={"tasks": [{"lm_eval": "arc_easy"}]}))
    assert str(caught.value) == (
        "workload.evaluate.tasks.0.lm_eval: lm_eval is not installed; expected EleutherAI's lm_eval where the trial"
        " runs; pip install 'seatrial[lm-eval]'"
    )


CLAIM = {"claim": "learning.task.accuracy", "task": "digits", "min": 0.5}
MISTAKES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (EXACT, {**CLAIM, "task": "digit"}, "claims.0.task: saw digit, which is no task of workload.evaluate; did you mean digits?"),
    (EXACT, {**CLAIM, "min": 50}, "claims.0.min: saw 50; expected a share from 0 to 1"),
    (EXACT, {**CLAIM, "over": "base"}, "claims.0: learning.task.accuracy was given"),
    ({"name": "digits", "path": "x"}, CLAIM, "tasks.0: kind is missing; expected name, kind and path, or lm_eval"),
    ({"lm_eval": "digits", "kind": "exact_match"}, CLAIM, "tasks.0.kind: was given for a task of lm_eval; expected kind only for a task of prompts"),
    ({**EXACT, "metric": "acc"}, CLAIM, "tasks.0.metric: was given for a task of prompts"),
    ({**EXACT, "name": "a.b"}, CLAIM, 'tasks.0.name: saw "a.b"'),
    ({"lm_eval": "a.b"}, {**CLAIM, "task": "a.b"}, "tasks.0.lm_eval: saw a.b; expected a name beside it"),
    ({**EXACT, "pth": "x"}, CLAIM, "tasks.0.pth: unknown key; did you mean path?"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "claim", "words"), MISTAKES)
def test_a_mistake_in_the_trial_has_a_place(
    given: dict[str, Any], claim: dict[str, Any], words: str, in_tmp: Path
) -> None:
    document = {**TINY, "workload": {**TINY["workload"], "evaluate": {"tasks": [given]}}, "claims": [claim]}
    Path("trial.yaml").write_text(json.dumps(document))
    with pytest.raises(InputError) as caught:
        load(Path("trial.yaml"))
    assert str(caught.value).startswith("trial.yaml:1:")
    assert words in str(caught.value)


def test_paths_of_tasks_are_of_the_trial_file(in_tmp: Path) -> None:
    tasks = [EXACT, {"lm_eval": "x", "include": "folder"}]
    document = {**TINY, "workload": {**TINY["workload"], "evaluate": {"tasks": tasks}}}
    (in_tmp / "sub").mkdir()
    Path("sub/trial.yaml").write_text(json.dumps(document))
    evaluation = load(Path("sub/trial.yaml")).trial.training.evaluate
    assert evaluation is not None
    assert evaluation.tasks[0].path == str(in_tmp / "sub/digits.jsonl")
    assert evaluation.tasks[1].include == str(in_tmp / "sub/folder")


# ---- evidence: runs of two ranks, written down by hand

STEPS = 20
Scores = dict[str, list[float]]


def run(
    scores: Scores,
    change: Callable[[TaskScored], TaskScored | None] = lambda e: e,
    synthetic: bool = False,
    suspects: int = 0,
) -> Run:
    """A run in which item n of each phase has the n-th score; `change` may alter or drop an event."""
    total = len(scores["before"])
    planned = {
        "steps": STEPS,
        "tolerances": TOLERANCES.model_copy(update={"task_bootstrap_resamples": 1000}),
        "synthetic": "random-tokens" if synthetic else None,
    }
    planned |= {"tasks": [{"name": "digits", "kind": "exact_match", "items": total, "digest": "sha256:one"}]}

    def scored(rank: int, phase: Any) -> TaskScored:
        mine = [(n, f"i{n}", scores[phase][n], "", []) for n in range(rank, total, 2)]
        step = 0 if phase in ("before", "base") else STEPS
        return TaskScored(task="digits", metric="exact_match", phase=phase, step=step, digest="sha256:one", total=total, part=1, parts=1, items=mine)  # fmt: skip

    def process(role: str, rank: int | None, events: list[Event | None]) -> Stream:
        opened = Opened.model_validate({"seatrial": "0", "run": "r", "attempt": 1, "role": role, "rank": rank, "host": "h", "machine": "m", "pid": 1, "claims": "", "trial": "", "schema": "s"})  # fmt: skip
        whole = (opened, *(e for e in events if e is not None), Closed())
        return Stream(f"{role}-{rank}.jsonl", whole, (utc(0),) * len(whole), "closed")

    data = DataOpened(source="synthetic:x" if synthetic else "text", manifest="m", tokenizer="bytes", train_tokens=9, rows=9, heldout_windows=0)  # fmt: skip
    compared = TaskOverlap(task="digits", digest="sha256:one", compared=total, too_short=0, found=suspects, suspect=[])
    ranks = tuple(
        process("rank", r, [data, compared, *(change(scored(r, p)) for p in ("before", "after"))]) for r in (0, 1)
    )
    reloads = tuple(
        process("reload", r, [compared, *(change(scored(r, p)) for p in ("base", "reload"))]) for r in (0, 1)
    )
    return Run("r", [], "", process("driver", None, [Planned(facts=planned)]), ranks, reloads, (), ())


def scores(before: list[float], after: list[float]) -> Scores:
    return {"before": before, "base": before, "after": after, "reload": after}


def facts(seen: Run) -> dict[str, Fact[Any]]:
    return {fact.id: fact for fact in learning.facts(seen)}


def verdict(seen: Run, **asked: Any) -> tuple[str, str, str]:
    order = DATA_ORDER.seen(DataOrder(STEPS, STEPS, None, []), "a test")
    evidence = Evidence({"learning": facts(seen), "execution": {order.id: order}})
    found = judge([{"claim": "learning.task.accuracy", "task": "digits", **asked}], evidence)[0]
    return found.verdict, found.reason, found.seen


UP = scores([0.0] * 40, [1.0] * 30 + [0.0] * 10)


def test_a_clean_run_supports_what_is_true_and_refutes_what_is_not() -> None:
    assert verdict(run(UP), improves_by=0.7, over="base")[:2] == ("supported", "")
    assert verdict(run(UP), improves_by=0.76, over="base")[:2] == ("refuted", "value")
    assert verdict(run(UP), min=0.75)[:2] == ("supported", "")
    assert verdict(run(UP), min=0.76)[:2] == ("refuted", "value")
    assert verdict(run(UP), max_drop=0.0, over="base")[:2] == ("supported", "")


def test_two_items_of_ten_are_chance() -> None:
    seen = verdict(run(scores([0.0] * 10, [1.0] * 2 + [0.0] * 8)), improves_by=0.1, over="base")
    assert seen[:2] == ("not-established", "unstable")
    assert "0/10 (0.0%) → 2/10 (20.0%) right" in seen[2]
    assert "2 items gained, 0 lost, p = 0.5; chance alone can do that with 10 items" in seen[2]


def test_a_drop_within_the_margin_must_not_reach_beyond_it() -> None:
    kept = [1.0] * 30 + [0.0] * 10
    seen = verdict(run(scores(kept, kept)), max_drop=0.02, over="base")
    assert seen[:2] == ("not-established", "unstable")
    assert "even without a change it takes 189 items" in seen[2]
    assert verdict(run(scores(kept * 10, kept * 10)), max_drop=0.02, over="base")[0] == "supported"
    assert verdict(run(scores(kept, [0.0] * 40)), max_drop=0.02, over="base")[:2] == ("refuted", "value")


def test_graded_scores_are_compared_by_the_bootstrap() -> None:
    seen = verdict(run(scores([0.2, 0.4] * 20, [0.7, 0.6] * 20)), improves_by=0.3, over="base")
    assert seen[:2] == ("supported", "")
    assert "95 % interval" in seen[2]
    noise = scores([0.2, 0.7] * 5, [0.7, 0.3] * 5)
    assert verdict(run(noise), improves_by=0.01, over="base")[:2] == ("not-established", "unstable")


LIES: list[tuple[str, Scores, Callable[[TaskScored], TaskScored | None], str, str]] = [
    ("after altered by the ranks", {**UP, "after": [1.0] * 40}, lambda e: e, "contradiction", "they differ on 10 of 40 items"),
    ("before made to look bad", {**UP, "base": [1.0] * 40}, lambda e: e, "contradiction", "before training"),
    ("before and after exchanged", {**UP, "before": UP["after"], "after": UP["before"]}, lambda e: e, "contradiction", "differ on 30"),
    ("another file after", UP, lambda e: e.model_copy(update={"digest": "sha256:two"}) if e.phase == "after" else e, "contradiction", "not the same throughout"),
    ("another file than was frozen", UP, lambda e: e.model_copy(update={"digest": "sha256:two"}), "contradiction", "frozen sha256:one"),
    ("an item scored twice", UP, lambda e: e.model_copy(update={"items": [*e.items, e.items[0]]}), "unknown", "item i0 was scored twice"),
    ("an item left out", UP, lambda e: e.model_copy(update={"items": e.items[1:]}), "unknown", "38 of 40 items were scored"),
    ("fewer items after all", UP, lambda e: e.model_copy(update={"total": 38, "items": e.items[:19]}), "unknown", "38 or 40"),
    ("no reload", UP, lambda e: None if e.phase == "reload" else e, "unknown", "has 0 parts"),
    ("a part lost", UP, lambda e: e.model_copy(update={"parts": 2}), "unknown", "has 1 parts"),
    ("scored at another step", UP, lambda e: e.model_copy(update={"step": 7}) if e.phase == "after" else e, "unknown", "scored it at step 7"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "seen", "change", "reason", "words"), LIES, ids=[lie[0] for lie in LIES])
def test_a_lie_establishes_nothing(name: str, seen: Scores, change: Any, reason: str, words: str) -> None:
    for asked in ({"improves_by": 0.1, "over": "base"}, {"max_drop": 0.5, "over": "base"}):
        found = verdict(run(seen, change), **asked)
        assert found[:2] == ("not-established", reason), found
        assert words in found[2]


def test_synthetic_tokens_support_no_task() -> None:
    assert verdict(run(UP, synthetic=True), min=0.1)[1] == "synthetic-data"


def test_items_that_stand_in_the_training_text() -> None:
    assert verdict(run(UP, suspects=3), min=0.1)[0] == "supported"
    assert verdict(run(UP, suspects=4), min=0.1)[1:] == (
        "contaminated",
        "digits: 4 of 40 items (10%) stand in the training data",
    )


def test_scores_that_are_no_numbers_refute() -> None:
    broken = {"state": "error", "reason": "non-finite", "text": "NaN"}

    def diverged(event: TaskScored) -> TaskScored:
        if event.phase not in ("after", "reload"):
            return event
        items = [(n, i, broken, s, t) for n, i, _, s, t in event.items]
        return TaskScored.model_validate({**event.model_dump(), "items": items})

    assert verdict(run(UP, diverged), min=0.1)[:2] == ("refuted", "non-finite")


@given(st.sets(st.integers(0, 7)))
@settings(max_examples=25)
def test_what_goes_missing_never_helps(gone: set[int]) -> None:
    """Any of the eight events of a run that refutes, or supports."""
    for asked, whole in (({"min": 0.9}, "refuted"), ({"min": 0.5}, "supported")):
        numbers = iter(range(8))
        seen = verdict(run(UP, lambda e, n=numbers: None if next(n) in gone else e), **asked)  # type: ignore[misc]
        assert seen[0] == (whole if not gone else "not-established")


def test_items_in_the_record_are_bounded_and_their_counts_exact() -> None:
    many = scores([0.0] * 500, [1.0] * 200 + [0.0] * 300)
    items = facts(run(many))["learning.task.digits.items"].value
    assert (items.items, items.changed, len(items.shown)) == (500, 200, 150)


def test_the_report_has_a_heading_for_each_task() -> None:
    from seatrial.report.leads import lead
    from seatrial.report.tasks import FACTS, group
    from seatrial.report.words import title_of

    found = {name: fact for name, fact in facts(run(UP)).items() if ".task." in name}
    assert {name.rpartition(".")[2] for name in found} == {*FACTS}
    assert {group(name) for name in found} == {"Task digits"}
    assert title_of("learning.task.digits.after") == "After training"
    lines = {name.rpartition(".")[2]: lead(name, fact.json()["value"], fact.type.unit) for name, fact in found.items()}
    assert lines["after"] == "30 of 40 right, 75 %"
    assert lines["change"].startswith("+75.0 points (59.7 to 85.8); 30 gained, 0 lost, p = 1.9e-09; exact McNemar")
    assert [name for name, line in lines.items() if not line] == ["asked"]
