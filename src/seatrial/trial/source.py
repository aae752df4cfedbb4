"""From a YAML file to plain data with the place of each value; the only module of this room that imports PyYAML.

PyYAML's composer gives nodes with marks. This module resolves scalars by YAML 1.2's core schema: `2e-5` is a number,
and `on` is a word. It refuses tags and merge keys, because a trial is clearer without them.
"""

from __future__ import annotations

import json
import math
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from seatrial.canon import MAX_EXACT_INTEGER, printable
from seatrial.errors import InputError, InputErrors, Place, clean, shown

MAX_BYTES = 1 << 20
MAX_NODES = 20_000
MAX_DEPTH = 50
KeyPath = tuple[str | int, ...]

_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_YAML = "tag:yaml.org,2002:"


@dataclass
class Source:
    """A document as plain data, with the place of each value and each key."""

    data: Any
    places: dict[KeyPath, Place]
    keys: dict[KeyPath, Place] = field(default_factory=dict)

    def nearest(self, path: KeyPath) -> KeyPath:
        """`path` if the file has it, else its nearest parent that the file has."""
        while path not in self.places:
            path = path[:-1]
        return path

    def place(self, path: KeyPath) -> Place:
        """The place of `nearest(path)`."""
        return self.places[self.nearest(path)]


def read(path: Path) -> bytes:
    """A file's bytes. Raises InputError, whose place has no line, if it is not a regular file of at most MAX_BYTES."""
    place, expected = Place(str(path)), "a YAML file"
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):  # reading a pipe or a device might never end
            seen = "is a folder" if stat.S_ISDIR(mode) else "is not a regular file"
            raise InputError(seen, place=place, expected=expected)
        with path.open("rb") as handle:
            raw = handle.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot be read: {reason}", place=place, expected=expected) from None
    if len(raw) > MAX_BYTES:
        raise InputError("is too large", place=place, expected=f"at most {MAX_BYTES} bytes")
    return raw


def parse(raw: bytes, name: str) -> Source:
    """The document in `raw`. Its places state the path `name`; an empty file has the data None. Raises InputError."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before, byte = error.object[: error.start].decode(), error.object[error.start]
        raise InputError(
            f"byte {byte:#04x} is not UTF-8", place=_offset(before, len(before), name), expected="UTF-8 text"
        ) from None
    node = _compose(text, name)
    if node is None:
        return Source(None, {(): Place(name)})
    builder = _Builder(name)
    builder.source.data = builder.build(node, ())
    if builder.problems:
        raise InputErrors(builder.problems)
    return builder.source


def dotted(path: KeyPath) -> str:
    """A path as error lines show it, such as `workload.optimizer.betas.1`."""
    return ".".join(part if re.fullmatch(r"[\w/-]{1,60}", part) else shown(part) for part in map(str, path))


def undotted(field: str) -> KeyPath:
    """The path that `dotted` wrote; a number is a position in a list."""
    parts = re.findall(r'"(?:[^"\\]|\\.)*"|[^.]+', field)
    return tuple(int(p) if p.isdigit() else json.loads(p) if p.startswith('"') else p for p in parts)


def _offset(text: str, position: int, name: str) -> Place:
    return Place(name, text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position))


def _mark(mark: Any, name: str) -> Place:
    return Place(name, mark.line + 1, mark.column + 1)


def _compose(text: str, name: str) -> Any:
    """The document's root node; None for an empty file."""
    try:
        loader = yaml.SafeLoader(text)
    except yaml.reader.ReaderError as error:
        place = _offset(text, error.position, name)
        raise InputError(f"character U+{error.character:04X}", place=place, expected="printable text") from None
    try:
        _screen(loader, name)
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        problem, mark, start = str(error.problem), error.problem_mark, error.context_mark
        if start and mark and start.line < mark.line:
            problem += f" {error.context} that starts on line {start.line + 1}"
        fix = "indent with spaces" if r"'\t'" in problem else ""
        raise InputError(f"not YAML: {clean(problem, 200)}", place=_mark(mark, name), fix=fix) from None
    except (ValueError, OverflowError):  # PyYAML passes escapes such as "\UFFFFFFFF" to chr() unchecked
        place = _mark(loader.get_mark(), name)
        raise InputError("not YAML: an escape is not a character", place=place) from None


def _screen(loader: Any, name: str) -> None:
    """Checks the parser's events before anything is composed: neither depth nor size can exhaust the composer."""
    depth = documents = 0
    for count, event in enumerate(iter(loader.get_event, None)):
        place = _mark(event.start_mark, name)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        documents += isinstance(event, yaml.DocumentStartEvent)
        if depth > MAX_DEPTH or count > MAX_NODES:
            raise InputError(
                "too deep, or too many values",
                place=place,
                expected=f"at most {MAX_DEPTH} levels and {MAX_NODES} values",
            )
        if documents > 1:
            raise InputError("a second document", place=place, expected="one document in a file")
        if tag := getattr(event, "tag", None):
            raise InputError(
                f"tag {clean(tag.replace(_YAML, '!!'))}",
                place=place,
                expected="a value without a tag",
                fix="quotes make it text",
            )


class _Builder:
    """Turns nodes into plain data with places. The nodes behind an alias count each time the alias is used."""

    def __init__(self, name: str):
        self.name, self.source = name, Source(None, {})
        self.problems: list[InputError] = []
        self.nodes = self.characters = 0

    def build(self, node: Any, path: KeyPath) -> Any:
        place = self.source.places[path] = _mark(node.start_mark, self.name)
        self.nodes += 1
        if self.nodes > MAX_NODES or self.characters > MAX_BYTES or len(path) > MAX_DEPTH:
            raise InputError(
                "aliases expand too deep, or to too many values",
                place=place,
                expected=f"at most {MAX_DEPTH} levels and {MAX_NODES} values",
            )
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(child, (*path, position)) for position, child in enumerate(node.value)]
        return self._map(node, path)

    def _map(self, node: Any, path: KeyPath) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, child in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._problem(key_node, path, "a key that is a list or a map", "a word as the key")
            elif key_node.tag == f"{_YAML}merge":
                self._problem(key_node, path, "merge key <<", "the keys themselves, written out")
            elif (key := self._text(key_node, path)) in result:
                first = self.source.keys[(*path, key)].line
                self._problem(key_node, (*path, key), f"is given twice, first on line {first}", "each key once")
            else:
                self.source.keys[(*path, key)] = _mark(key_node.start_mark, self.name)
                result[key] = self.build(child, (*path, key))
        return result

    def _scalar(self, node: Any, path: KeyPath) -> Any:
        text = self._text(node, path)
        if node.style is not None:  # quoted, or a block
            return text
        if text in _WORDS:
            return _WORDS[text]
        if _INT.fullmatch(text):
            base = {"0o": 8, "0x": 16}.get(text[:2], 10)
            number = int(text, base) if len(text) < 100 else None  # int() refuses very long texts
            if number is not None and abs(number) <= MAX_EXACT_INTEGER:
                return number
            self._problem(node, path, f"saw {clean(text)}", "an integer within ±(2^53-1), or text in quotes")
        elif _FLOAT.fullmatch(text) and math.isfinite(value := float(text)):
            return value
        elif _FLOAT.fullmatch(text) or _NOT_FINITE.fullmatch(text):
            self._problem(node, path, f"saw {clean(text)}", "a finite number, or text in quotes")
        return text

    def _text(self, node: Any, path: KeyPath) -> str:
        """The text of a scalar. An escaped surrogate pair is one character, as in JSON."""
        self.characters += len(node.value)
        try:
            return str(node.value).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            self._problem(node, path, "text with a lone surrogate", "Unicode text")
            return printable(node.value)

    def _problem(self, node: Any, path: KeyPath, seen: str, expected: str) -> None:
        place = _mark(node.start_mark, self.name)
        self.problems.append(InputError(seen, place=place, field=dotted(path), expected=expected))
