"""Items of a task from its JSONL file, and what is wrong with the file, line by line.

exact_match: `{"prompt": …, "answer": text or list of accepted texts}`; multiple_choice: `{"prompt": …, "choices":
[…], "answer": index}`. An `id` is optional, other keys are the user's own. A prompt is text, or messages for a chat.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seatrial.canon import sha256
from seatrial.errors import InputError, InputErrors, Place, clean, shown
from seatrial.trial.evaluation import Task

MOST_ERRORS = 10
Message = dict[str, str]


@dataclass(frozen=True)
class Item:
    """One row. `answers` are accepted texts of exact_match; `right` is the index of multiple_choice's choice."""

    id: str
    line: int
    prompt: str | tuple[Message, ...]
    answers: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    right: int = -1


@dataclass(frozen=True)
class TaskFile:
    """A task's items, at most `limit` of them, and the digest of the whole file."""

    digest: str
    items: tuple[Item, ...]


class _Wrong(ValueError):
    """What is wrong with a row: key, seen, expected."""


def read_items(task: Task, field: str = "") -> TaskFile:
    """The items of a task of prompts. Raises InputError, a line for each bad row (the first of them)."""
    path = Path(task.path or "")
    expected = "a JSONL file, one item a line"
    try:
        data = path.read_bytes()
    except OSError as error:
        seen = f"{path}: {error.strerror or error}"
        raise InputError(seen, field=field, expected=expected) from None
    items: list[Item] = []
    errors: list[InputError] = []
    lines: dict[str, int] = {}
    for number, row in _rows(data):
        try:
            item = _item(task, number, row)
            if item.id in lines:
                raise _Wrong("id", f"saw {clean(item.id)} again, first in line {lines[item.id]}", "an id for each item")
        except _Wrong as wrong:
            key, seen, needed = wrong.args
            errors.append(InputError(seen, place=Place(str(path), number, 1), field=key, expected=needed))
            continue
        lines[item.id] = number
        items.append(item)
    if errors:
        raise InputErrors(errors[:MOST_ERRORS])
    if not items:
        raise InputError(f"{path} has no item", field=field, expected=expected)
    return TaskFile(sha256(data), tuple(items[: task.limit]))


def _rows(data: bytes) -> Iterator[tuple[int, bytes]]:
    return ((number, row) for number, row in enumerate(data.split(b"\n"), 1) if row.strip())


def _item(task: Task, number: int, raw: bytes) -> Item:
    row = _parsed(raw)
    name = row.get("id", number)
    if isinstance(name, bool) or not isinstance(name, str | int) or name == "":
        raise _Wrong("id", f"saw {shown(name)}", "text or an integer")
    if "prompt" not in row:
        raise _Wrong("prompt", "missing", "text")
    prompt = _prompt(row["prompt"], task.chat)
    if "answer" not in row:
        raise _Wrong("answer", "missing", "text" if task.kind == "exact_match" else "the index of the right choice")
    if task.kind == "exact_match":
        return Item(str(name), number, prompt, answers=_answers(row["answer"]))
    choices = _choices(row.get("choices"))
    right = row["answer"]
    if isinstance(right, bool) or not isinstance(right, int) or not 0 <= right < len(choices):
        raise _Wrong("answer", f"saw {shown(right)}", f"the index of the right choice, 0 to {len(choices) - 1}")
    return Item(str(name), number, prompt, choices=choices, right=right)


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        row = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _Wrong("", f"no UTF-8 at byte {error.start + 1}", "one JSON object a line, in UTF-8") from None
    except (ValueError, RecursionError):
        raise _Wrong("", f"no JSON: {clean(raw[:60].decode('utf-8', 'replace'))}", "one JSON object a line") from None
    if not isinstance(row, dict):
        raise _Wrong("", f"saw {shown(row)}", "a JSON object with prompt and answer")
    return row


def _prompt(value: Any, chat: bool) -> str | tuple[Message, ...]:
    if isinstance(value, str) and value:
        return value
    if not chat:
        messages = isinstance(value, list)
        raise _Wrong("prompt", f"saw {shown(value)}", "text; messages need chat: true" if messages else "text")
    if not (isinstance(value, list) and value and all(_is_message(each) for each in value)):
        raise _Wrong("prompt", f"saw {shown(value)}", "text, or a list of messages with role and content")
    return tuple({"role": each["role"], "content": each["content"]} for each in value)


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(key), str) for key in ("role", "content"))


def _answers(value: Any) -> tuple[str, ...]:
    accepted = value if isinstance(value, list) else [value]
    for each in accepted:
        if not isinstance(each, str):
            quoted = "text; put it in quotes" if isinstance(each, int | float) else "text"
            raise _Wrong("answer", f"saw {shown(each)}", f"{quoted}, or a list of accepted texts")
        if not each.strip():
            raise _Wrong("answer", "saw only white space", "text that can be compared: white space around it is not")
    if not accepted:
        raise _Wrong("answer", "saw an empty list", "text, or a list of accepted texts")
    return tuple(each.strip() for each in accepted)


def _choices(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) < 2 or not all(isinstance(each, str) and each for each in value):
        seen = "missing" if value is None else f"saw {shown(value)}"
        raise _Wrong("choices", seen, "a list of two or more texts, each as it follows the prompt")
    if len(set(value)) < len(value):
        raise _Wrong("choices", "has the same choice twice", "choices that differ")
    return tuple(value)
