"""Tasks of lm_eval against our own, where it is installed: `make lm-eval` makes an environment for it.

It is not in the tests' own: what it depends on does not go with the Kubernetes client.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("lm_eval", reason="lm_eval is not installed; `make lm-eval` runs these tests with it")

from seatrial.record import seal
from seatrial.trial.evaluation import Task
from tests.support import gloo, tasks
from tests.support.tasks import scored

pytestmark = [pytest.mark.lm_eval, pytest.mark.slow]

YAML = """\
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {path}}}}}
test_split: test
doc_to_text: '{{{{prompt}}}}'
target_delimiter: ''
{rest}
"""
EXACT = """output_type: generate_until
doc_to_target: '{{answer}}'
generation_kwargs: {until: ["\\n"], max_gen_toks: 4, do_sample: false}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]"""
CHOICE = """output_type: multiple_choice
doc_to_choice: '{{choices}}'
doc_to_target: '{{answer}}'
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]"""


def test_tasks_of_lm_eval_score_as_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same items by lm_eval's path and by our own, on two ranks: scores, choices and log-probabilities agree."""
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LOCAL_RANK", "1")  # as a worker's may be
    (tmp_path / "runs").mkdir()
    own = tasks.write(tmp_path)["evaluate"]["tasks"]
    theirs = []
    for name, rest in (("digits", EXACT), ("choice", CHOICE)):
        text = YAML.format(name=f"{name}_lm", path=tmp_path / f"{name}.jsonl", rest=rest)
        (tmp_path / f"{name}.yaml").write_text(text)
        theirs.append({"lm_eval": f"{name}_lm", "include": str(tmp_path), "batch": 4})
    claim = {"claim": "learning.task.accuracy", "task": "digits_lm", "improves_by": 0.3, "over": "base"}
    trial = tasks.trial(tmp_path, {"claims": [claim]}, evaluate={"tasks": [*own, *theirs]})
    layout = gloo.run(trial, tmp_path / "runs")
    sealed = seal(layout.root)[1]
    assert sealed["verdicts"][0]["verdict"] == "supported", sealed["verdicts"]
    seen = {**scored(layout, "rank", 2), **scored(layout, "reload", 2)}
    for name in ("digits", "choice"):
        for phase in ("before", "after", "base", "reload"):
            mine, other = seen[name, phase], seen[f"{name}_lm", phase]
            assert sorted(mine) == sorted(other) == list(range(41))
            for number, (score, said, nats) in mine.items():
                assert other[number][0] == score
                assert other[number][1].strip() == said
                assert other[number][2] == pytest.approx(nats, rel=1e-4)


def test_a_task_that_lm_eval_does_not_have(tmp_path: Path) -> None:
    from seatrial.errors import RunError
    from seatrial.train.tasks.harness import _manager

    with pytest.raises(RunError, match=r"lm_eval has no task arc_esay; did you mean arc_easy\?"):
        _manager(Task(lm_eval="arc_esay"))
