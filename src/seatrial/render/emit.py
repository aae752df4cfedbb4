"""YAML in and out. The only module of this room that imports PyYAML, and only to read.

Out: block style with comments, the same text for the same value. Text is quoted if a reader of YAML 1.1 or 1.2 might
take it for another type. In: manifests as plain data whose unquoted scalars keep their exact text (`Plain`). So `1.10`,
`yes` and `0o17` are written as they were read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from seatrial.errors import InputError, Place

MAX_DEPTH = 100
MAX_NODES = 200_000
_YAML = "tag:yaml.org,2002:"
_PART = r"[A-Za-z0-9_./@+=-]+(?::[A-Za-z0-9_./@+=-]+)*"
_SAFE = re.compile(rf"(?=[A-Za-z_/]){_PART}(?: {_PART})*")
_QUANTITY = re.compile(r"[0-9]+(Ki|Mi|Gi|Ti)")
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
# Not printable in YAML, or a line break in YAML 1.1.
_SPECIAL = re.compile("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")
_HELM = re.compile(r"\{\{-?\s*(\.|\$|include\b|template\b|toYaml\b|if\b|end\b|else\b|range\b|with\b|default\b|/\*)")


class Key(str):
    """A key with a comment above it."""

    note: str

    def __new__(cls, text: str, note: str = "") -> Key:
        key = super().__new__(cls, text)
        key.note = note
        return key


class Noted(dict[str, Any]):
    """A map with a comment above it, as an item of a list."""

    note: str = ""


def noted(note: str, item: dict[str, Any]) -> Noted:
    """`item` with a comment above it."""
    result = Noted(item)
    result.note = note
    return result


class Plain(str):
    """An unquoted scalar, with the exact text that a file has."""

    __slots__ = ()


def document(value: Any, header: str = "") -> str:
    """One YAML document."""
    lines = [*_comment(header, 0), *_block(value, 0)]
    return "\n".join(lines) + "\n"


def stream(texts: list[str]) -> str:
    """Several documents in one text."""
    return "---\n".join(texts)


def _comment(note: str, indent: int) -> list[str]:
    return [f"{' ' * indent}# {line}".rstrip() for line in note.splitlines()]


def _block(value: Any, indent: int) -> Iterator[str]:
    if isinstance(value, dict):
        yield from _map(value, indent)
    else:
        for item in value:
            yield from _comment(getattr(item, "note", ""), indent)
            yield from _item(item, indent)


def _map(value: dict[str, Any], indent: int) -> Iterator[str]:
    for key, child in value.items():
        yield from _comment(getattr(key, "note", ""), indent)
        yield from _entry(f"{' ' * indent}{_scalar(key)}:", child, indent)


def _item(item: Any, indent: int) -> Iterator[str]:
    if isinstance(item, dict | list) and item:
        first, *rest = _block(item, indent + 2)
        if first.lstrip().startswith("#"):  # a comment cannot stand behind the dash
            yield f"{' ' * indent}-"
            yield first
        else:
            yield f"{' ' * indent}- {first[indent + 2 :]}"
        yield from rest
    else:
        yield from _entry(f"{' ' * indent}-", item, indent)


def _entry(head: str, child: Any, indent: int) -> Iterator[str]:
    if isinstance(child, dict | list | tuple) and child:
        yield head
        yield from _block(child, indent + 2)
    elif isinstance(child, str) and not isinstance(child, Plain) and _reads_better_as_block(child):
        yield f"{head} {'|' if child.endswith(chr(10)) else '|-'}"
        for line in child.removesuffix("\n").split("\n"):
            yield f"{' ' * (indent + 2)}{line}" if line else ""
    else:
        yield f"{head} {_scalar(child)}"


def _reads_better_as_block(text: str) -> bool:
    """Whether a literal block holds the text exactly, and is easier to read than quotes."""
    lines = text.removesuffix("\n").split("\n")
    if _SPECIAL.search(text) or re.search(r"[\x00-\x09\x0b-\x1f]", text) or text.endswith("\n\n"):
        return False
    if not lines[0] or lines[0].startswith(" ") or any(line.isspace() for line in lines):
        return False
    return len(lines) > 1 or ('"' in text and len(text) > 60)


def _scalar(value: Any) -> str:
    if isinstance(value, Plain) and value and "\n" not in value:
        return str(value)
    if isinstance(value, str) and not isinstance(value, Plain):
        return _text(value)
    if value == "" or value is None:
        return "null"
    if isinstance(value, dict | list | tuple):
        return "{}" if isinstance(value, dict) else "[]"
    if isinstance(value, str):
        return _text(value)
    # A YAML 1.1 reader takes 1e-05 for text; every reader takes 1.0e-05 for a number.
    return re.sub(r"^(-?\d+)e", r"\1.0e", json.dumps(value, allow_nan=False))


def _text(text: str) -> str:
    plain = (_SAFE.fullmatch(text) and text.lower() not in _WORDS) or _QUANTITY.fullmatch(text)
    if plain:
        return str(text)
    return _SPECIAL.sub(lambda m: f"\\u{ord(m[0]):04x}", json.dumps(str(text), ensure_ascii=False))


def read(text: str, path: str) -> list[Any]:
    """The documents of a manifest, empty ones left out. Raises InputError."""
    for number, line in enumerate(text.splitlines(), 1):
        if (found := _HELM.search(line)) and not line.lstrip().startswith("#"):
            raise InputError(
                f"{found[0].strip()} of a Helm template",
                place=Place(path, number, found.start() + 1),
                expected="a manifest as kubectl takes it",
                fix="run `helm template`, and name the file with its output",
            )
    try:
        nodes = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = Place(path, mark.line + 1, mark.column + 1) if mark else Place(path)
        raise InputError(f"not YAML: {error.problem}", place=place) from None
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
        seen = " ".join(str(error).split())[:200]
        raise InputError(f"not YAML: {seen}", place=Place(path), expected="a manifest") from None
    reader = _Reader(path)
    documents = [reader.value(node, 0) for node in nodes if node is not None]
    return [each for each in documents if isinstance(each, dict | list) or each]


class _Reader:
    """Turns nodes into data. Aliases and merged keys (`<<`) are written out."""

    def __init__(self, path: str):
        self._path, self._count = path, 0
        self._resolve: Any = yaml.SafeLoader("").resolve  # gives the tag that unquoted text implies

    def value(self, node: Any, depth: int) -> Any:
        self._count += 1
        if depth > MAX_DEPTH or self._count > MAX_NODES:
            raise self._error(
                node, "too deep, or too many values", f"at most {MAX_DEPTH} levels and {MAX_NODES} values"
            )
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(child, depth + 1) for child in node.value]
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, child in node.value:
            if key_node.tag == f"{_YAML}merge":
                merged = {**self._merged(child, depth), **merged}
            elif not isinstance(key_node, yaml.ScalarNode):
                raise self._error(key_node, "a key that is a list or a map", "a word as the key")
            elif (key := self._scalar(key_node)) in own:
                raise self._error(key_node, f"{key} is given twice", "each key once")
            else:
                own[key] = self.value(child, depth + 1)
        return {**merged, **own}

    def _merged(self, node: Any, depth: int) -> dict[str, Any]:
        """The keys of all merged maps. If maps share a key, the first map wins."""
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        result: dict[str, Any] = {}
        for part in parts:
            found = self.value(part, depth + 1)
            if not isinstance(found, dict):
                raise self._error(part, "<< merges something that is not a map")
            result = {**found, **result}
        return result

    def _scalar(self, node: Any) -> str:
        """Text for a quoted scalar, `Plain` for an unquoted one, unless a tag says otherwise."""
        text, tag = str(node.value), node.tag.removeprefix(_YAML)
        unquoted = node.style is None
        implied = self._resolve(yaml.ScalarNode, text, (True, False)) if unquoted else f"{_YAML}str"
        if node.tag == implied:  # no tag, or the one that is implied anyway
            return Plain(text) if unquoted and "\n" not in text else text
        if tag not in ("str", "int", "float", "bool", "null"):
            raise self._error(node, f"tag {node.tag.replace(_YAML, '!!')}")
        return text if tag == "str" else Plain(text)

    def _error(self, node: Any, seen: str, expected: str = "a Kubernetes manifest") -> InputError:
        mark = node.start_mark
        return InputError(seen, place=Place(self._path, mark.line + 1, mark.column + 1), expected=expected)
