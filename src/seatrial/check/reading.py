"""From YAML text to documents whose every value knows its place; beside `trial.source` the only reader of YAML.

libyaml's parser gives events; the nodes are built here from them, in one pass: bounded in depth and size, duplicate
keys found, aliases shared instead of expanded. Scalars are resolved as kubectl resolves them (sigs.k8s.io/yaml, which
follows go-yaml v2: `yes` and `on` are booleans, `010` is octal, a date is text).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from seatrial.errors import InputError, Place, clean

MAX_DOCUMENT_BYTES = 8 << 20
MAX_FILE_BYTES = 64 << 20
MAX_DEPTH = 100
MAX_NODES = 500_000  # of one document, aliases counted each time they are used

# libyaml's parser where PyYAML was built with it: the one in Python is far slower.
_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MARKER = re.compile(rb"^(---|\.\.\.)(?=[\s]|$)", re.MULTILINE)
_INT = re.compile(r"[-+]?(0[bB][01_]+|0[oO]?[0-7_]+|0[xX][0-9a-fA-F_]+|[1-9][0-9_]*|0)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
# What templating leaves for later: ${X}, $X, $(X), {{ x }}, <your-x>, PLACEHOLDER_X, CHANGE_ME, __X__, @X@.
_PLACEHOLDER = re.compile(
    # Bounded, because what opens often and never closes would be searched to its end each time.
    r"\$\{[^}\n]{0,500}\}|\$\([^)\n]{0,500}\)|\{\{.{0,500}?\}\}|\$[A-Za-z_]\w*|<[A-Za-z][^<>\n]{0,80}>"
    r"|\w{0,80}PLACEHOLDER\w{0,80}"
    r"|\b(?:CHANGE|REPLACE)_?ME\b|\bREPLACE_WITH_\w+|\bYOUR_[A-Z_]+\b|\b__[A-Z][A-Z0-9_]*__|@[A-Z][A-Z0-9_]*@"
)


_CORE = "tag:yaml.org,2002:"
_TEMPLATE = re.compile(r"\{\{-?\s*[\w.$(/\"]|\{%-?\s")
RENDER_FIRST = "render it first: `helm template … | seatrial check -`, or `kustomize build … | seatrial check -`"


@dataclass(slots=True)
class YamlNode:
    """One value: `value` is a scalar, a list of nodes, or a map from key to node. Lines and columns count from 1."""

    value: Any
    line: int
    column: int
    text: str = ""  # of a scalar, as written
    quoted: bool = False
    size: int = 1  # nodes in it, aliases expanded
    depth: int = 1
    keys: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def placeholder(self) -> str:
        """The first placeholder in a scalar's text, empty if there is none."""
        return placeholder(self.text) if not isinstance(self.value, (dict, list)) else ""

    def plain(self) -> Any:
        """The value as plain data."""
        if isinstance(self.value, dict):
            return {key: child.plain() for key, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value


@dataclass(frozen=True)
class YamlDocument:
    """One document of a stream; `root` is None where it is empty."""

    path: str
    line: int
    root: YamlNode | None


def placeholder(text: str) -> str:
    """The first placeholder in `text`, empty if there is none."""
    if not any(mark in text for mark in "$<{_@EU"):  # no pattern matches without one of these
        return ""
    found = _PLACEHOLDER.search(text)
    return found.group() if found else ""


def documents(raw: bytes, path: str) -> Iterator[YamlDocument | InputError]:
    """Each document of a file, or what is wrong with it; one that cannot be read does not hide the others."""
    if len(raw) > MAX_FILE_BYTES:
        yield InputError("is too large", place=Place(path), expected=f"at most {MAX_FILE_BYTES >> 20} MiB")
        return
    if b"\x00" in raw:
        yield InputError("is binary", place=Place(path), expected="YAML text in UTF-8")
        return
    for line, chunk in _split(raw.removeprefix(b"\xef\xbb\xbf")):
        try:
            root = _read(chunk, path, line)
        except InputError as error:
            yield error
        else:
            yield YamlDocument(path, line, root)


def _split(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """Line and bytes of each document. A marker at the start of a line ends a document wherever it stands."""
    start, line = 0, 1
    for end in (*(marker.start() for marker in _MARKER.finditer(raw)), len(raw)):
        chunk = raw[start:end]
        if _only_directives(chunk) and end < len(raw):
            continue  # they belong to the document that follows
        if chunk.strip():
            yield line, chunk
        line, start = line + chunk.count(b"\n"), end


def _only_directives(chunk: bytes) -> bool:
    if b"%" not in chunk:
        return False
    text = chunk.removeprefix(b"...")
    lines = [line.strip() for line in text.splitlines()]
    return all(line.startswith((b"%", b"#")) for line in lines if line)


def _read(chunk: bytes, path: str, line: int) -> YamlNode | None:
    """The root of one document. Raises InputError."""
    if len(chunk) > MAX_DOCUMENT_BYTES:
        raise InputError(
            "a document is too large", place=Place(path, line), expected=f"at most {MAX_DOCUMENT_BYTES >> 20} MiB"
        )
    try:
        text = chunk.removeprefix(b"...").decode()
    except UnicodeDecodeError as error:
        place = Place(path, line + chunk.count(b"\n", 0, error.start), 1)
        raise InputError(f"byte {chunk[error.start]:#04x} is not UTF-8", place=place, expected="UTF-8 text") from None
    try:
        return _Builder(path, line).build(text)
    except yaml.reader.ReaderError as error:
        place = Place(path, line + text.count("\n", 0, error.position), 1)
        raise InputError("a control character", place=place, expected="printable text") from None
    except (yaml.MarkedYAMLError, InputError) as error:
        # A raw Helm template fails in many ways (`{{` is a map in a map); what it is helps more than how it fails.
        if template := _TEMPLATE.search(text):
            place = Place(path, line + text.count("\n", 0, template.start()), 1)
            raise InputError("a template, not YAML yet", place=place, fix=RENDER_FIRST) from None
        if isinstance(error, InputError):
            raise
        raise _not_yaml(error, text, path, line) from None
    except (ValueError, OverflowError):  # an escape such as "\UFFFFFFFF"
        raise InputError("not YAML: an escape that is no character", place=Place(path, line, 1)) from None


def _not_yaml(error: Any, text: str, path: str, line: int) -> InputError:
    mark = error.problem_mark or error.context_mark
    place = Place(path, line + mark.line, mark.column + 1) if mark else Place(path, line, 1)
    lines = text.splitlines()  # libyaml's mark may be behind the last of them
    at = lines[mark.line][mark.column : mark.column + 1] if mark and mark.line < len(lines) else ""
    problem = clean(str(error.problem or error.context), 200)
    return InputError(f"not YAML: {problem}", place=place, fix="indent with spaces, not tabs" if at == "\t" else "")


class _Builder:
    """Parser events to nodes, without recursion."""

    def __init__(self, path: str, line: int):
        self._path, self._first = path, line
        self._anchors: dict[str, YamlNode] = {}
        self._open: list[tuple[YamlNode, str | None]] = []  # collections that are not closed yet, and their anchors
        self._key: list[tuple[str, int, int] | None] = []  # of each, the key whose value comes next
        self._root: YamlNode | None = None

    def build(self, text: str) -> YamlNode | None:
        events: Any = yaml.parse(text, Loader=_PARSER)
        for event in events:
            kind = type(event)
            if kind is yaml.ScalarEvent:
                self._place(self._scalar(event), event.anchor)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                self._start(event, {} if kind is yaml.MappingStartEvent else [])
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                node, anchor = self._open.pop()
                self._key.pop()
                self._place(node, anchor)
            elif kind is yaml.AliasEvent:
                self._alias(event)
        return self._root

    def _error(self, mark: Any, seen: str, expected: str = "", fix: str = "") -> InputError:
        return InputError(
            seen, place=Place(self._path, self._first + mark.line, mark.column + 1), expected=expected, fix=fix
        )

    def _start(self, event: Any, empty: Any) -> None:
        mark = event.start_mark
        if len(self._open) >= MAX_DEPTH:
            raise self._error(mark, "nested too deeply", f"at most {MAX_DEPTH} levels")
        if event.tag and not event.tag.startswith(_CORE):
            raise self._error(mark, f"tag {clean(event.tag)}", "a value without a tag")
        self._open.append((YamlNode(empty, self._first + mark.line, mark.column + 1), event.anchor))
        self._key.append(None)

    def _alias(self, event: Any) -> None:
        node = self._anchors.get(event.anchor)
        if node is None:
            raise self._error(event.start_mark, f"alias *{clean(event.anchor)} names nothing before it")
        self._place(node, None)

    def _scalar(self, event: Any) -> YamlNode:
        mark, text, tag = event.start_mark, event.value, event.tag
        node = YamlNode(text, self._first + mark.line, mark.column + 1, text, quoted=not event.implicit[0])
        if tag and tag != f"{_CORE}str":
            if not tag.startswith(_CORE):
                raise self._error(mark, f"tag {clean(tag)}", "a value without a tag")
            node.value = _resolve(text)
        elif event.implicit[0]:
            node.value = _resolve(text)
        return node

    def _place(self, node: YamlNode, anchor: str | None) -> None:
        """Puts a finished node where it belongs; a collection knows its size and depth by now."""
        if anchor:
            self._anchors[anchor] = node
        if not self._open:
            self._root = node
            return
        parent, key = self._open[-1][0], self._key[-1]
        if isinstance(parent.value, list):
            parent.value.append(node)
        elif key is None:
            self._key[-1] = self._named(parent, node)
            return
        else:
            self._key[-1] = None
            name = key[0]
            if name == "<<" and not isinstance(node.value, str):  # a text under that key is only a text
                self._merge(parent, node)
            else:
                parent.value[name] = node
                parent.keys[name] = key[1:]
        # An alias counts at each use: a few lines of aliases of aliases are a billion values to whoever walks them.
        parent.size += node.size
        parent.depth = max(parent.depth, node.depth + 1)
        if parent.size > MAX_NODES or parent.depth > MAX_DEPTH:
            place = Place(self._path, node.line, node.column)
            raise InputError(
                "aliases expand too far", place=place, expected=f"at most {MAX_NODES} values in a document"
            )

    def _named(self, parent: YamlNode, node: YamlNode) -> tuple[str, int, int]:
        """A key. Raises InputError where it stands twice, or is no scalar."""
        place = Place(self._path, node.line, node.column)
        if isinstance(node.value, (dict, list)):
            raise InputError("a key that is a list or a map", place=place, expected="a word as the key")
        if node.text in parent.keys:
            first = parent.keys[node.text][0]
            seen = f"{clean(node.text)} stands twice, first on line {first}"
            raise InputError(seen, place=place, expected="each key once")
        return node.text, node.line, node.column

    def _merge(self, parent: YamlNode, node: YamlNode) -> None:
        """The merge key `<<`: what the map itself says wins."""
        for source in node.value if isinstance(node.value, list) else [node]:
            if not isinstance(source.value, dict):
                place = Place(self._path, node.line, node.column)
                raise InputError("<< of something that is no map", place=place, expected="an alias of a map")
            for name, child in source.value.items():
                parent.value.setdefault(name, child)  # without an entry in `keys`: it is not written here


def _resolve(text: str) -> Any:
    """A plain scalar as kubectl reads it."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "+-.0123456789":
        if _INT.fullmatch(text):
            return _integer(text)
        if _FLOAT.fullmatch(text):
            return float(text)
    return text


def _integer(text: str) -> Any:
    digits = text.replace("_", "").lower()
    sign, digits = (-1 if digits[0] == "-" else 1), digits.lstrip("+-")
    base = {"0b": 2, "0x": 16, "0o": 8}.get(digits[:2], 8 if digits[0] == "0" and len(digits) > 1 else 10)
    try:
        number = int(digits[2:] if digits[1:2] in ("b", "x", "o") else digits, base)
    except ValueError:  # 09, which Go reads as a float
        return float(digits) * sign
    if number < 1 << 64:
        return sign * number
    return float(sign * number) if number < 1 << 1000 else text  # beyond the range of a float
