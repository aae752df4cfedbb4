"""From a YAML file to a `Trial`, or to errors with file, line and column.

PyYAML's composer gives nodes with marks; scalars are resolved here by YAML 1.2's core rules, so that `2e-5` is a number
and `on` is a word. A section may be `{from: other.yaml}`, relative to the file that says so.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from seatrial.errors import InputError, InputErrors, Place
from seatrial.trial.model import Trial

MAX_BYTES = 1 << 20
MAX_NODES = 20_000
MAX_DEPTH = 50
Path_ = tuple[str | int, ...]

_INT = re.compile(r"^[-+]?[0-9]+$")
_FLOAT = re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


@dataclass
class Source:
    """A document as plain data, and where each of its values stands."""

    data: Any
    places: dict[Path_, Place]
    keys: dict[Path_, Place] = field(default_factory=dict)

    def place(self, path: Path_) -> Place | None:
        """Where `path` stands, or the nearest thing around it that the file has."""
        while path not in self.places and path:
            path = path[:-1]
        return self.places.get(path)


def load(path: Path) -> Trial:
    """The trial in a YAML file. Raises InputError, one line for each thing that is wrong."""
    source = _read(path)
    if not isinstance(source.data, dict):
        raise InputError(f"saw {_kind(source.data)}", place=source.place(()), expected="a map with apiVersion, kind, metadata, workload, claims")
    _include(source, path)
    trial = _validate(source)
    return _absolute(trial, path.resolve().parent)


def builtin(name: str) -> tuple[Trial, str]:
    """A trial that ships with seatrial, and its text. Relative paths in it are of the working directory."""
    resource = files("seatrial.trial") / "templates" / f"{name}.yaml"
    text = resource.read_text(encoding="utf-8")
    return _validate(_parse(text, f"template {name}")), text


def templates() -> list[str]:
    """Names that `builtin` knows."""
    return sorted(p.name.removesuffix(".yaml") for p in (files("seatrial.trial") / "templates").iterdir() if p.name.endswith(".yaml"))


def from_resolved(text: str | bytes) -> Trial:
    """A trial from its resolved JSON; the way it travels to the driver and the image."""
    return Trial.model_validate_json(text)


def _read(path: Path) -> Source:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", place=Place(str(path)), expected="a trial file") from None
    if len(raw) > MAX_BYTES:
        raise InputError(f"{len(raw)} bytes", place=Place(str(path)), expected=f"a trial file of at most {MAX_BYTES} bytes")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"byte {error.start} is not UTF-8", place=Place(str(path)), expected="UTF-8 text") from None
    return _parse(text, str(path))


def _parse(text: str, name: str) -> Source:
    try:
        # Events are counted before anything is composed: neither depth nor size can exhaust the parser.
        depth = 0
        for count, event in enumerate(yaml.parse(text, Loader=yaml.SafeLoader)):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH or count > MAX_NODES:
                raise InputError("nested or repeated beyond any trial", place=Place(name, event.start_mark.line + 1, event.start_mark.column + 1),
                                 expected=f"at most {MAX_DEPTH} levels and {MAX_NODES} nodes")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(name, mark.line + 1, mark.column + 1) if mark else Place(name)
        raise InputError(f"not YAML: {error.problem or error.context}", place=place, expected="a YAML document") from None
    except yaml.YAMLError as error:
        raise InputError(f"not YAML: {' '.join(str(error).split())}", place=Place(name), expected="a YAML document") from None
    source = Source(None, {})
    if node is None:
        raise InputError("the file is empty", place=Place(name), expected="a trial; `seatrial init` writes one")
    source.data = _Builder(name, source).build(node, ())
    return source


class _Builder:
    """Nodes to plain data, remembering places; aliases count against the same budget as nodes."""

    def __init__(self, name: str, source: Source):
        self.name, self.source, self.count = name, source, 0

    def build(self, node: Any, path: Path_) -> Any:
        place = self._place(node)
        self.count += 1
        if self.count > MAX_NODES or len(path) > MAX_DEPTH:
            raise InputError("aliases expand beyond any trial", place=place, expected=f"at most {MAX_NODES} values")
        self.source.places[path] = place
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, place)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(child, (*path, i)) for i, child in enumerate(node.value)]
        result: dict[str, Any] = {}
        for key_node, child in node.value:
            key = self._key(key_node)
            if key in result:
                raise InputError(f"key {key} stands twice", place=self._place(key_node), expected="each key once")
            self.source.keys[(*path, key)] = self._place(key_node)
            result[key] = self.build(child, (*path, key))
        return result

    def _key(self, node: Any) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise InputError("a key that is no word", place=self._place(node), expected="a plain key")
        return str(node.value)

    def _scalar(self, node: Any, place: Place) -> Any:
        text = str(node.value)
        if node.style is not None or node.tag == "tag:yaml.org,2002:str":
            if node.style is None and text in _WORDS:
                return _WORDS[text]
            return text if node.style is not None else self._plain(text)
        if node.start_mark.buffer is None or not str(node.tag).startswith("tag:yaml.org,2002:"):
            raise InputError(f"tag {node.tag}", place=place, expected="plain YAML without tags")
        return self._plain(text)

    @staticmethod
    def _plain(text: str) -> Any:
        if text in _WORDS:
            return _WORDS[text]
        if _INT.match(text):
            return int(text) if len(text) < 400 else text
        if _FLOAT.match(text):
            return float(text)
        return text

    def _place(self, node: Any) -> Place:
        return Place(self.name, node.start_mark.line + 1, node.start_mark.column + 1)


def _include(source: Source, path: Path) -> None:
    """Replaces each section that is `{from: file}` by the file's content, with that file's places."""
    for section, value in source.data.items():
        if not (isinstance(value, dict) and set(value) == {"from"} and isinstance(value["from"], str)):
            continue
        included = _read(path.parent / value["from"])
        source.data[section] = included.data
        for kept, added in ((source.places, included.places), (source.keys, included.keys)):
            for stale in [p for p in kept if p[:1] == (section,) and len(p) > 1]:
                del kept[stale]
            kept.update({(section, *p): place for p, place in added.items()})


def _validate(source: Source) -> Trial:
    try:
        text = json.dumps(source.data)
        return Trial.model_validate_json(text)
    except ValidationError as error:
        raise InputErrors([_explain(source, detail) for detail in error.errors(include_url=False)]) from None


def _explain(source: Source, detail: Any) -> InputError:
    """One pydantic error as one line in the user's terms."""
    path = tuple(part for part in detail["loc"] if not (isinstance(part, str) and part.startswith("function-")))
    path = tuple(p for i, p in enumerate(path) if not _is_union_branch(source, path, i))
    name = ".".join(str(part) for part in path)
    kind, seen = detail["type"], detail.get("input")
    if kind == "extra_forbidden":
        close = get_close_matches(str(path[-1]), _known_keys(path[:-1]), n=1, cutoff=0.6)
        known = ", ".join(_known_keys(path[:-1]))
        return InputError("unknown key", place=source.keys.get(path), field=name, expected=f"one of {known}" if known else "",
                          fix=f"did you mean {close[0]}?" if close else "")
    if kind == "missing":
        return InputError("missing", place=source.place(path[:-1]), field=name, expected="a value")
    if kind == "value_error":
        return InputError(str(detail["ctx"]["error"]), place=source.place(path), field=name)
    return InputError(f"saw {_kind(seen)}", place=source.place(path), field=name, expected=_expected(detail))


def _is_union_branch(source: Source, path: Path_, i: int) -> bool:
    """pydantic adds the tried type to a union's path (`equals.str`); the file has no such key."""
    return path[i] in ("str", "float", "bool", "int") and i == len(path) - 1 and path not in source.places and path[:i] in source.places


def _expected(detail: Any) -> str:
    message = str(detail["msg"])
    for head in ("Input should be ", "String should ", "List should ", "Tuple should ", "Dictionary should "):
        message = message.removeprefix(head)
    return {"a valid integer": "an integer", "a valid string": "text", "a valid number": "a number"}.get(message, message.removeprefix("a valid "))


def _kind(value: object) -> str:
    """What a wrong value is, in the words of the file."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return "a list"
    return json.dumps(value, ensure_ascii=False)[:80]


def _known_keys(path: Path_) -> list[str]:
    """The keys that the section at `path` has, by walking the models."""
    model: Any = Trial
    for part in path:
        if isinstance(part, int):
            continue
        model = _section_of(model.model_fields[part].annotation) if part in model.model_fields else None
        if model is None:
            return []
    return list(model.model_fields)


def _section_of(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for arg in get_args(annotation) if (found := _section_of(arg))), None)


def _absolute(trial: Trial, base: Path) -> Trial:
    """Paths in a trial file are relative to the file; the default storage is relative to the working directory."""
    update: dict[str, Any] = {}
    if "storage" in trial.model_fields_set and "://" not in trial.storage.path:
        update["storage"] = trial.storage.model_copy(update={"path": str(base / trial.storage.path)})
    data, model = trial.workload.data, trial.workload.model
    moved = {k: str(base / v) for k in ("train", "heldout") if (v := getattr(data, k)) and "://" not in v}
    parts = {"data": data.model_copy(update=moved)}
    if model.path:
        parts["model"] = model.model_copy(update={"path": str(base / model.path)})
    update["workload"] = trial.workload.model_copy(update=parts)
    return trial.model_copy(update=update)
