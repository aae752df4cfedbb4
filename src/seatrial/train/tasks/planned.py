"""What is known of a trial's tasks before anything starts: whether they can be read, and their digests."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from seatrial.errors import InputError, InputErrors
from seatrial.events.planned import PlannedTask, Tolerances
from seatrial.train.tasks.items import read_items
from seatrial.trial import Trial
from seatrial.trial.evaluation import Task

# They travel with the plan, written before step 0.
TOLERANCES = Tolerances(
    task_chance_p=0.05,  # exact McNemar, two-sided: an improvement with a larger p is chance
    task_disagreement_share=0.01,  # items that ranks and reload may score differently: ties in the last bit
    task_overlap_share=0.1,  # items that stand in the training tokens, from which on a task is contaminated
    task_bootstrap_resamples=10_000,  # graded scores
    task_bootstrap_seed=0,
)


def check_tasks(trial: Trial, *, everywhere: bool = True) -> None:
    """Raises InputErrors for tasks that cannot be scored.

    Without `everywhere`, a file that is missing here may exist where the ranks run.
    """
    errors: list[InputError] = []
    for at, task in enumerate(trial.workload.tasks):
        try:
            _check(trial, task, f"workload.evaluate.tasks.{at}", everywhere)
        except InputErrors as several:
            errors += several.errors
        except InputError as error:
            errors.append(error)
    if errors:
        raise InputErrors(errors) if len(errors) > 1 else errors[0]


def _check(trial: Trial, task: Task, field: str, everywhere: bool) -> None:
    if task.chat and trial.training.model.tokens_are_bytes:
        raise InputError(
            "saw true with a tokenizer of bytes",
            field=f"{field}.chat",
            expected="a model whose tokenizer has a template",
        )
    if task.lm_eval is not None:
        if importlib.util.find_spec("lm_eval") is None and everywhere:
            raise InputError(
                "lm_eval is not installed",
                field=f"{field}.lm_eval",
                expected="EleutherAI's lm_eval where the trial runs",
                fix="pip install 'seatrial[lm-eval]'",
            )
        if task.include and everywhere and not Path(task.include).is_dir():
            raise InputError(
                f"{task.include} is no folder", field=f"{field}.include", expected="a folder of lm_eval task files"
            )
    elif everywhere or Path(task.path or "").is_file():
        read_items(task, f"{field}.path")


def planned_tasks(trial: Trial) -> tuple[PlannedTask, ...]:
    """Each task with the digest of its file and the number of its items, where the driver can read it."""
    tasks = []
    for task in trial.workload.tasks:
        known: dict[str, Any] = {"digest": None, "items": None}
        if task.lm_eval is None and Path(task.path or "").is_file():
            file = read_items(task)
            known = {"digest": file.digest, "items": len(file.items)}
        asked = {key: value for key, value in task.model_dump(mode="json").items() if value is not None}
        tasks.append(PlannedTask(**{**asked, "name": task.label, **known}))
    return tuple(tasks)
