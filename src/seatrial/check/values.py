"""A value in a manifest: present, absent or unknown, with its place, its path and its Kubernetes meaning."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from seatrial.check.reading import YamlNode, placeholder
from seatrial.errors import Place
from seatrial.kube.apimachinery import quantity


class CannotTell(Exception):
    """A rule needs a value that nobody can know yet: a placeholder, or a fact that no table has."""

    def __init__(self, reason: str, value: Value):
        super().__init__(reason)
        self.reason, self.value = reason, value


@dataclass(frozen=True, slots=True)
class Value:
    """What stands at `path` of a document. An absent value has the place of the nearest thing around it.

    What has `known` in its name raises CannotTell where a placeholder stands; `raw` and the other properties never do.
    """

    node: YamlNode | None
    path: tuple[str | int, ...]
    file: str
    line: int
    column: int

    @classmethod
    def of(cls, root: YamlNode | None, file: str, line: int = 1) -> Value:
        """The root of a document."""
        return cls(root, (), file, root.line if root else line, root.column if root else 1)

    def __getitem__(self, key: str | int) -> Value:
        """The child of that name or position; absent where there is none."""
        value = self.node.value if self.node else None
        child: YamlNode | None = None
        line, column = self.line, self.column
        if isinstance(value, dict) and isinstance(key, str) and key in value:
            assert self.node is not None
            child = value[key]
            line, column = self.node.keys.get(key) or (child.line, child.column)
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            child = value[key]
            line, column = child.line, child.column
        return Value(child, (*self.path, key), self.file, line, column)

    def at(self, *keys: str | int) -> Value:
        """The value down that way."""
        value = self
        for key in keys:
            value = value[key]
        return value

    def __bool__(self) -> bool:
        """Whether something other than null stands here."""
        return self.node is not None and self.node.value is not None

    def items(self) -> list[tuple[str, Value]]:
        """The entries of a map; none where this is no map."""
        return [(key, self[key]) for key in self.node.value] if self.node and isinstance(self.node.value, dict) else []

    def __iter__(self) -> Iterator[Value]:
        """The items of a list; none where this is no list."""
        if self.node and isinstance(self.node.value, list):
            yield from (self[position] for position in range(len(self.node.value)))

    @property
    def place(self) -> Place:
        return Place(self.file, self.line, self.column)

    @property
    def field(self) -> str:
        """`spec.workerGroupSpecs[0].rayStartParams.num-gpus`."""
        parts = [f"[{part}]" if isinstance(part, int) else _key(part) for part in self.path]
        return "".join(parts).lstrip(".")

    @property
    def scalar(self) -> bool:
        return self.node is not None and not isinstance(self.node.value, (dict, list)) and self.node.value is not None

    @property
    def raw(self) -> str:
        """The text of a scalar as it stands, placeholders and all; empty where there is none."""
        return self.node.text if self.node and self.scalar else ""

    @property
    def unknown(self) -> bool:
        """Whether this is a scalar with a placeholder in it."""
        return self.scalar and bool(placeholder(self.raw))

    def require_known(self) -> str:
        """The text of a scalar, empty where there is none. Raises CannotTell for a placeholder."""
        if self.unknown:
            raise CannotTell(f"{self.field} is {placeholder(self.raw)}", self)
        return self.raw

    def known_or_none(self) -> str | None:
        """The text of a scalar, None where there is none. Raises CannotTell for a placeholder."""
        return self.require_known() if self.scalar else None

    def known_integer(self) -> int | None:
        """The integer here, None where there is none or something else. Raises CannotTell for a placeholder."""
        text = self.require_known()
        try:
            return int(text) if len(text) < 20 else None
        except ValueError:
            return None

    def known_flag(self) -> bool | None:
        """The boolean here, None where there is none or something else. Raises CannotTell for a placeholder."""
        self.require_known()
        return self.node.value if self.node and isinstance(self.node.value, bool) else None

    def known_quantity(self) -> Fraction | None:
        """The Kubernetes quantity here, None where there is none. Raises CannotTell for a placeholder."""
        return quantity(self.require_known())


def whole(number: Fraction) -> int:
    """A quantity as Go's `Quantity.Value()` gives it: rounded away from zero."""
    return -((-number).__floor__()) if number > 0 else number.__floor__()


def shown(number: Fraction | int) -> str:
    """Bytes in the largest binary unit that divides them, other numbers as they are."""
    if number and isinstance(number, Fraction | int) and number % (1 << 20) == 0:
        for power, unit in ((40, "Ti"), (30, "Gi"), (20, "Mi")):
            if number % (1 << power) == 0:
                return f"{int(number) >> power}{unit}"
    if number >= 1 << 30:
        return f"{float(number) / (1 << 30):.1f}Gi"
    return str(int(number)) if number == int(number) else f"{float(number):g}"


def _key(part: str) -> str:
    return f".{part}" if re.fullmatch(r"[\w-]+", part) else f'."{part}"'


def plain(value: Value) -> Any:
    """The value as plain data, None where it is absent."""
    return value.node.plain() if value.node else None
