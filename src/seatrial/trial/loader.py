"""From a YAML file to a `Trial`, or to errors with file, line and column.

A section may be `{from: other.yaml}`, relative to the file that says so. pydantic's errors are put in the words of
the file here: one line for each thing that is wrong, in the order of the file.
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
from seatrial.trial.base import Misfit
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

# pydantic's error types in the words of the file; {names} are of the error's context.
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
    """A trial with the file it came from."""

    trial: Trial
    source: Source

    def locate(self, error: InputError) -> InputError:
        """`error`, which names a field, with the place of that field in the file."""
        if isinstance(error, InputErrors):
            return InputErrors([self.locate(each) for each in error.errors])
        if error.place or not error.field:
            return error
        place = self.source.place(undotted(error.field))
        return InputError(error.seen, place=place, field=error.field, expected=error.expected, fix=error.fix)


def load(path: Path) -> Loaded:
    """The trial in a YAML file. Raises InputError, one line for each thing that is wrong."""
    source = parse(read(path), str(path))
    if not isinstance(source.data, dict):
        expected = "a map with metadata, workload and claims"
        raise InputError(
            f"saw {shown(source.data)}", place=source.place(()), expected=expected, fix="`seatrial init` writes one"
        )
    _include(source, path)
    _anchor(source)
    return Loaded(_validate(source), source)


def builtin(name: str) -> Loaded:
    """A trial that ships with seatrial. Relative paths in it are of the working directory."""
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
    """The file that a section names. What is wrong with the file as a whole is said at the `from`."""
    value, place, field = source.data[section], source.places[section, "from"], f"{section}.from"
    if len(value) > 1 or not isinstance(value["from"], str):
        seen = "stands beside other keys" if len(value) > 1 else f"saw {shown(value['from'])}"
        raise InputError(seen, place=place, field=field, expected="the name of a file, and no other key")
    file = path.parent / value["from"]
    wanted, expected = (list, "a list") if section == "claims" else (dict, "a map")
    try:
        included = parse(read(file), str(file))
    except InputError as error:
        if error.place is None or error.place.line:  # it says itself where in that file
            raise
        problem, expected = error.seen, error.expected
    else:
        if file.samefile(path):
            problem, expected = "is this file", "a file with the section alone"
        elif isinstance(included.data, dict) and "from" in included.data:
            problem, expected = "names a further file", "a file with the section itself"
        elif isinstance(included.data, wanted):
            return included
        else:
            problem = f"holds {shown(included.data)}"
    raise InputError(f"{clean(str(file), 200)} {problem}", place=place, field=field, expected=expected)


def _anchor(source: Source) -> None:
    """Makes relative paths absolute, each from the folder of the file in which it stands."""
    for path in _FILE_PATHS:
        for holder, (*way, key) in _holders(source.data, path):
            value = holder.get(key)
            named = key == "name" and isinstance(value, str) and not value.startswith((".", "/"))  # on the hub, no path
            if value and isinstance(value, str) and "://" not in value and not named:
                holder[key] = str(Path(source.places[*way, key].path).parent.resolve() / value)


def _holders(data: Any, path: KeyPath, before: KeyPath = ()) -> Iterator[tuple[dict[Any, Any], KeyPath]]:
    """The maps that a path ends in, each with the way that was taken."""
    first, *rest = path
    if not rest:
        if isinstance(data, dict):
            yield data, (*before, first)
    elif first == "*":
        for at, item in enumerate(data if isinstance(data, list) else ()):
            yield from _holders(item, tuple(rest), (*before, at))
    elif isinstance(data, dict) and first in data:
        yield from _holders(data[first], tuple(rest), (*before, first))


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
    """pydantic's errors as lines: consequences dropped, the branches of a union joined, in the order of the file."""
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
            lines[path] = _misfit(source, path, detail["ctx"]["error"])
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


def _misfit(source: Source, path: KeyPath, error: Exception) -> InputError:
    """What a validator of ours says, at the key that it names."""
    if isinstance(error, Misfit):
        path = (*path, *error.keys)
    return InputError(clean(str(error), 1000), place=source.place(path), field=dotted(path))


def _wrong(source: Source, path: KeyPath, seen: object, *expected: str) -> InputError:
    either = " or ".join(expected)
    if len(expected) > 1:
        either = either.replace("true or false", "true/false")
    fix = "put it in quotes" if either == "text" and isinstance(seen, bool | int | float) else ""
    return InputError(f"saw {shown(seen)}", place=source.place(path), field=dotted(path), expected=either, fix=fix)


def _follows_from_others(detail: Any) -> bool:
    """A list is too short *after validation* when items of it are wrong; those have lines of their own."""
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
    """The keys that the section at `path` has, by walking the models."""
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
