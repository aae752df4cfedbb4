"""Tasks that the model is scored on before and after training: prompts in a JSONL file, or an lm_eval task by name."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Annotated, Literal

from pydantic import Field, model_validator

from seatrial.trial.base import Section, SectionError

_NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
Name = Annotated[str, Field(pattern=_NAME)]
Stop = Annotated[str, Field(min_length=1)]
_FILE_KEYS = ("kind", "path", "stop")  # keys that only a task of prompts has
_LM_EVAL_KEYS = ("include", "metric", "filter", "shots")


class Task(Section):
    """One task. `stop` ends a generated answer. Without it the end of a line does; in a chat, the end of the turn.

    An lm_eval task has its own stops. It also has its own longest answer, unless `max_new_tokens` is given.
    """

    name: Name | None = None
    kind: Literal["exact_match", "multiple_choice"] | None = None
    path: str | None = None
    max_new_tokens: int | None = Field(None, ge=1, le=4096)
    stop: tuple[Stop, ...] | None = None
    chat: bool = False
    batch: int = Field(8, ge=1, le=1024)
    limit: int | None = Field(None, ge=1)
    lm_eval: str | None = Field(None, min_length=1)
    include: str | None = None
    metric: str | None = None
    filter: str | None = None
    shots: int | None = Field(None, ge=0)

    @model_validator(mode="after")
    def _one_of_two_forms(self) -> Task:
        if self.lm_eval is None:
            for key in ("name", "kind", "path"):
                if getattr(self, key) is None:
                    raise SectionError(f"{key} is missing; expected name, kind and path, or lm_eval")
        own, other = ("lm_eval", "prompts") if self.lm_eval is not None else ("prompts", "lm_eval")
        foreign = _FILE_KEYS if self.lm_eval is not None else _LM_EVAL_KEYS
        for key in foreign:
            if getattr(self, key) is not None:
                raise SectionError(f"was given for a task of {own}; expected {key} only for a task of {other}", key)
        if self.lm_eval is not None and self.name is None and not _fits(self.lm_eval):
            raise SectionError(f"saw {self.lm_eval}; expected a name beside it, of letters, digits, - and _", "lm_eval")
        return self

    @property
    def label(self) -> str:
        """The name in claims and in facts."""
        return self.name or self.lm_eval or ""

    @property
    def longest_answer(self) -> int:
        """The most tokens that a generated answer may have."""
        return self.max_new_tokens or 32

    @property
    def stops(self) -> tuple[str, ...]:
        """The texts that end a generated answer."""
        return self.stop if self.stop is not None else (() if self.chat else ("\n",))


def _fits(name: str) -> bool:
    return re.fullmatch(_NAME, name) is not None


class Evaluation(Section):
    """The tasks of a trial. Each is scored four times: by the ranks before and after, and twice by the reload."""

    tasks: tuple[Task, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_differ(self) -> Evaluation:
        labels = [task.label for task in self.tasks]
        for at, label in enumerate(labels):
            if label in labels[:at]:
                raise SectionError(f"has two tasks with the name {label}; expected a different name for each", "tasks")
        return self


def unknown_task(name: str, evaluation: Evaluation | None) -> str:
    """The problem with the task that a claim names; empty if the trial evaluates this task."""
    known = [task.label for task in evaluation.tasks] if evaluation else []
    if name in known:
        return ""
    if not known:
        return f"saw {name}, and workload.evaluate has no tasks; expected a task under workload.evaluate.tasks"
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}?" if close else f"expected one of {', '.join(known)}"
    return f"saw {name}, which is no task of workload.evaluate; {hint}"
