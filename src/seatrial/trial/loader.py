"""From a YAML file to a `Trial`, or to errors with file, line and column.

A section may be `{from: other.yaml}`, relative to the file that includes it. This module rewrites pydantic's errors in
the terms of the file: one line for each mistake, in the order of the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from seatrial.errors import InputError, InputErrors, clean, shown
from seatrial.trial.base import SectionError
from seatrial.trial.model import BRANCHES, Trial
from seatrial.trial.script import Script
from seatrial.trial.source import KeyPath, Source, dotted, parse, read, undotted

_FILE_PATHS: tuple[tuple[str, ...], ...] = (
    ("storage", "path"),
    ("cluster", "template", "from"),
    ("workload", "script"),
    ("workload", "model", "path"),
    ("workload", "data", "train"),
    ("workload", "data", "heldout"),
    ("workload", "data", "dataset", "name"),
    ("workload", "evaluate", "tasks", "*", "path"),  # * is each item of a list
    ("workload", "evaluate", "tasks", "*", "include"),
)

# What is expected, by pydantic's error type. {names} come from the error's context.
_EXPECTED = {
    "string_type": "text",
    "int_type": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a map",
    "model_type": "a map",
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
    "too_short": "at least {min_length} items",
    "too_long": "at most {max_length} items",
    "string_too_short": "at least {min_length} characters",
    "string_too_long": "at most {max_length} characters",
    "string_pattern_mismatch": "text that matches {pattern}",
    "finite_number": "a finite number",
}


@dataclass(frozen=True)
class Loaded:
    """A trial with the file that it came from."""

    trial: Trial
    source: Source

    def locate(self, error: InputError) -> InputError:
        """`error` with the place of its field in the file."""
        if isinstance(error, InputErrors):
            return InputErrors([self.locate(each) for each in error.errors])
        if error.place or not error.field:
            return error
        place = self.source.place(undotted(error.field))
        return InputError(error.seen, place=place, field=error.field, expected=error.expected, fix=error.fix)


def load(path: Path) -> Loaded:
    """The trial in a YAML file. Raises InputError, one line for each mistake."""
    source = parse(read(path), str(path))
    if not isinstance(source.data, dict):
        expected = "a map with metadata, workload and claims"
        raise InputError(
            f"saw {shown(source.data)}", place=source.place(()), expected=expected, fix="`seatrial init` writes one"
        )
    _include(source, path)
    _resolve_paths(source)
    return Loaded(_validate(source), source)


def builtin(name: str) -> Loaded:
    """A trial that ships with seatrial. Its relative paths start from the working directory. Raises InputError."""
    if name not in templates():
        raise InputError(f"unknown template {clean(name)}", expected=f"one of {', '.join(templates())}")
    source = parse(template(name).encode(), f"template {name}")
    return Loaded(_validate(source), source)


def template(name: str) -> str:
    """The text of a trial that ships with seatrial."""
    return (files("seatrial.trial") / "templates" / f"{name}.yaml").read_text(encoding="utf-8")


def templates() -> list[str]:
    """Names that `builtin` knows."""
    names = [entry.name for entry in (files("seatrial.trial") / "templates").iterdir()]
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def _include(source: Source, path: Path) -> None:
    """Replaces each section that is `{from: file}` by the file's content, with that file's places."""
    for section, model_field in Trial.model_fields.items():
        value = source.data.get(section)
        if not (isinstance(value, dict) and "from" in value and _section_of(model_field.annotation)):
            continue
        included = _included(source, section, path)
        source.data[section] = included.data
        for kept, added in ((source.places, included.places), (source.keys, included.keys)):
            del kept[section, "from"]
            kept.update({(section, *inner): place for inner, place in added.items()})


def _included(source: Source, section: str, path: Path) -> Source:
    """The file that a section includes. A problem with the file as a whole is reported at the `from`."""
    value, place, field = source.data[section], source.places[section, "from"], f"{section}.from"
    if len(value) > 1 or not isinstance(value["from"], str):
        seen = "is given beside other keys" if len(value) > 1 else f"saw {shown(value['from'])}"
        raise InputError(seen, place=place, field=field, expected="the name of a file, and no other key")
    file = path.parent / value["from"]
    wanted, expected = (list, "a list") if section == "claims" else (dict, "a map")
    try:
        included = parse(read(file), str(file))
    except InputError as error:
        if error.place is None or error.place.line:  # the error names a line of that file
            raise
        problem, expected = error.seen, error.expected
    else:
        if file.samefile(path):
            problem, expected = "is the trial itself", "another file, with this section only"
        elif isinstance(included.data, dict) and "from" in included.data:
            problem, expected = "includes another file", "a file with the section itself"
        elif isinstance(included.data, wanted):
            return included
        else:
            problem = f"holds {shown(included.data)}"
    raise InputError(f"{clean(str(file), 200)} {problem}", place=place, field=field, expected=expected)


def _resolve_paths(source: Source) -> None:
    """Makes relative paths absolute. Each starts from the folder of the file that states it."""
    for path in _FILE_PATHS:
        for holder, (*way, key) in _maps_at(source.data, path):
            value = holder.get(key)
            if not value or not isinstance(value, str) or "://" in value:
                continue
            if key == "name" and not value.startswith((".", "/")):  # a dataset on the hub, not a path
                continue
            holder[key] = str(Path(source.places[*way, key].path).parent.resolve() / value)


def _maps_at(data: Any, path: KeyPath, before: KeyPath = ()) -> Iterator[tuple[dict[Any, Any], KeyPath]]:
    """The maps that hold the last key of `path`, each with its own full path: `*` stands for every item of a list."""
    first, *rest = path
    if not rest:
        if isinstance(data, dict):
            yield data, (*before, first)
    elif first == "*":
        for at, item in enumerate(data if isinstance(data, list) else ()):
            yield from _maps_at(item, tuple(rest), (*before, at))
    elif isinstance(data, dict) and first in data:
        yield from _maps_at(data[first], tuple(rest), (*before, first))


def _validate(source: Source) -> Trial:
    try:
        return Trial.model_validate_json(json.dumps(source.data))
    except ValidationError as error:
        details = [
            {**d, "loc": tuple(part for part in d["loc"] if part not in BRANCHES)}
            for d in error.errors(include_url=False)
        ]
        raise InputErrors(explain(source, details)) from None


def explain(source: Source, details: list[Any]) -> list[InputError]:
    """pydantic's errors as lines in the order of the file. Errors that follow from others are dropped, and the branches
    of a union are joined."""
    # A misspelt key gives two errors, unknown and missing: the second is dropped.
    close = {d["loc"]: _close_key(source, d["loc"]) for d in details if d["type"] == "extra_forbidden"}
    meant = {(*path[:-1], key) for path, key in close.items() if key}
    lines: dict[KeyPath, InputError] = {}
    for detail in details:
        path, kind = detail["loc"], detail["type"]
        if kind == "extra_forbidden":
            lines[path] = _unknown_key(source, path, close[path])
        elif kind == "missing" and isinstance(path[-1], int):  # an item of a list of fixed length
            lines[path[:-1]] = _wrong(source, path[:-1], detail["input"], f"{path[-1] + 1} items")
        elif kind == "missing" and path not in meant:
            lines[path] = InputError("missing", place=source.place(path), field=dotted(path))
        elif kind == "value_error":
            lines[path] = _section_error(source, path, detail["ctx"]["error"])
        elif kind != "missing" and not _follows_from_others(detail):
            path = source.nearest(path)  # pydantic adds the branch of a union, as in `equals.str`
            others = [lines[path].expected] if path in lines else []
            lines[path] = _wrong(source, path, detail["input"], *others, _expected(detail))
    start = source.place(())

    def order(error: InputError) -> tuple[bool, str, int, int]:
        place = error.place or start
        return place.path != start.path, place.path, place.line, place.column

    return sorted(lines.values(), key=order)


def _unknown_key(source: Source, path: KeyPath, close: str) -> InputError:
    known = "" if close else f"one of {', '.join(_keys_of(source, path[:-1]))}"
    fix = f"did you mean {close}?" if close else ""
    if path[-1] == "from":
        known, fix = "", "only a whole section can be {from: file}"
    return InputError("unknown key", place=source.keys[path], field=dotted(path), expected=known, fix=fix)


def _section_error(source: Source, path: KeyPath, error: Exception) -> InputError:
    """The message of one of our validators, at the key that it names."""
    if isinstance(error, SectionError):
        path = (*path, *error.keys)
    return InputError(clean(str(error), 1000), place=source.place(path), field=dotted(path))


def _wrong(source: Source, path: KeyPath, seen: object, *expected: str) -> InputError:
    either = " or ".join(expected)
    if len(expected) > 1:
        either = either.replace("true or false", "true/false")
    fix = "put it in quotes" if either == "text" and isinstance(seen, bool | int | float) else ""
    return InputError(f"saw {shown(seen)}", place=source.place(path), field=dotted(path), expected=either, fix=fix)


def _follows_from_others(detail: Any) -> bool:
    """Whether a list is too short only because pydantic dropped its wrong items: these have lines of their own."""
    return bool(detail["type"] == "too_short" and len(detail["input"]) >= detail["ctx"]["min_length"])


def _expected(detail: Any) -> str:
    kind, context = detail["type"], dict(detail.get("ctx", {}))
    if kind == "literal_error":
        words = context["expected"].replace("'", "").replace(" or ", ", ")
        return f"one of {words}" if ", " in words else words
    for name, value in context.items():
        if isinstance(value, float) and value.is_integer():
            context[name] = int(value)
    words = _EXPECTED[kind].format(**context) if kind in _EXPECTED else str(detail["msg"])
    return re.sub(r"\b1 (item|character)s", r"1 \1", words)


def _close_key(source: Source, path: KeyPath) -> str:
    return next(iter(get_close_matches(str(path[-1]), _keys_of(source, path[:-1]), n=1)), "")


def _keys_of(source: Source, path: KeyPath) -> list[str]:
    """The keys that a section at `path` may have."""
    model: type[BaseModel] = Trial
    for at, part in enumerate(path):
        if path[: at + 1] == ("workload",) and "script" in source.data["workload"]:
            model = Script
        elif isinstance(part, str):
            model = _section_of(model.model_fields[part].annotation) or model
    return [model_field.alias or name for name, model_field in model.model_fields.items()]


def _section_of(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for arg in get_args(annotation) if (found := _section_of(arg))), None)
