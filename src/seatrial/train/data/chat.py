"""Conversations to tokens by the tokenizer's own template, with the answers marked.

A template that marks its answers (`{% generation %}`) is asked for them. With any other, the answer is the text by
which the rendering grows: from the prompt that the template opens for the assistant to the end of the turn. This needs
each shorter rendering to be a prefix of the longer one, which is checked for every conversation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from seatrial.errors import RunError
from seatrial.train.data.rows import NO_ANSWER, REFUSED, REWRITTEN

_MARKS = re.compile(r"\{%-?\s*generation\s*-?%\}")


@dataclass(frozen=True)
class Conversation:
    """Token ids and, for each, whether the assistant says it; or the kind of problem, with what the template said."""

    ids: npt.NDArray[np.int64] | None = None
    answers: npt.NDArray[np.bool_] | None = None
    problem: str = ""
    detail: str = ""


class _NotAPrefix(Exception):
    """A shorter rendering is not a prefix of the longer one."""


class ChatTemplate:
    """A tokenizer's chat template. Raises RunError if it has none, or gives no character offsets."""

    def __init__(self, tokenizer: Any):
        try:
            text = tokenizer.get_chat_template()
        except ValueError as error:
            raise RunError("workload.data.chat: the model's tokenizer has no chat template") from error
        if not tokenizer.is_fast:
            raise RunError("workload.data.chat: the tokenizer gives no character offsets; expected a fast tokenizer")
        self._tokenizer = tokenizer
        self.marked = bool(_MARKS.search(text))

    def apply(self, messages: list[dict[str, Any]]) -> Conversation:
        """One conversation; what the template refuses is a problem of the row, not of the run."""
        from jinja2 import TemplateError

        if not any(message["role"] == "assistant" for message in messages):
            return Conversation(problem=NO_ANSWER)
        try:
            ids, answers = self._marked(messages) if self.marked else self._grown(messages)
        except _NotAPrefix:
            return Conversation(problem=REWRITTEN)
        except (TemplateError, TypeError, ValueError, KeyError, IndexError) as error:
            return Conversation(problem=REFUSED, detail=str(error))
        if not answers.any():
            return Conversation(problem=NO_ANSWER)
        return Conversation(ids, answers)

    def _marked(self, messages: list[dict[str, Any]]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        found = self._tokenizer.apply_chat_template(
            messages, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
        )
        return np.asarray(found["input_ids"], dtype=np.int64), np.asarray(found["assistant_masks"], dtype=bool)

    def _grown(self, messages: list[dict[str, Any]]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        whole = self._render(messages)
        spans = [self._span(messages, at, whole) for at, m in enumerate(messages) if m["role"] == "assistant"]
        found = self._tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        ids = np.asarray(found["input_ids"], dtype=np.int64)
        offsets = np.asarray(found["offset_mapping"], dtype=np.int64).reshape(-1, 2)
        answers = np.zeros(len(ids), dtype=bool)
        for start, stop in spans:
            # A token that reaches over the edge from the prompt is the prompt's: part of it was given.
            answers |= (offsets[:, 0] >= start) & (offsets[:, 0] < stop) & (offsets[:, 1] > start)
        return ids, answers

    def _span(self, messages: list[dict[str, Any]], at: int, whole: str) -> tuple[int, int]:
        """Characters of `whole` that message `at` adds. Raises _NotAPrefix where that cannot be said."""
        prompt, through = self._render(messages[:at], open_for_answer=True), self._render(messages[: at + 1])
        if not (through.startswith(prompt) and whole.startswith(through) and len(through) > len(prompt)):
            raise _NotAPrefix
        return len(prompt), len(through)

    def _render(self, messages: list[dict[str, Any]], open_for_answer: bool = False) -> str:
        return str(self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=open_for_answer))
