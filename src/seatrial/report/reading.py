"""Reads what may stand in a record, whatever its shape: a record can come from anyone, and a fact can hold anything."""

from __future__ import annotations

import json
import math
import re
from typing import Any, TypeVar

from seatrial.evidence.facts import FactType, Fault

T = TypeVar("T")
# Control characters, lone surrogates and the marks that reorder text: shown by their number, never obeyed.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]"
)
_DIGEST = re.compile(r"(sha256:)?[0-9a-f]{64}")
MAX_TEXT = 1500


def mapping(value: Any) -> dict[str, Any]:
    """The object, or an empty one."""
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    """The array, or an empty one."""
    return value if isinstance(value, list) else []


def number(value: Any) -> float | None:
    """A finite number, also one written as a decimal string; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and not re.fullmatch(r"-?[0-9]{1,300}(\.[0-9]{1,300})?", value):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def fact_of(record: dict[str, Any], type: FactType[Any]) -> dict[str, Any]:
    """A fact as the record holds it; an empty object if it has none."""
    return mapping(mapping(mapping(record.get("evidence")).get(type.kind)).get(type.id))


def value_of(record: dict[str, Any], type: FactType[T]) -> T | None:
    """The value of a known fact; None where it is not known, or has another shape than its type."""
    fact = fact_of(record, type)
    if fact.get("state") != "value" or "value" not in fact:
        return None
    try:
        return type.read(fact["value"])
    except ValueError:
        return None


def faults(record: dict[str, Any]) -> list[Fault]:
    """The errors of seatrial's own that a record holds, in its order."""
    held = (mapping(each) for each in sequence(record.get("faults")))
    return [Fault(*(string(each.get(part), 300) for part in ("about", "where", "error"))) for each in held]


def visible(text: str) -> str:
    """`text` with everything that cannot be seen, or that would turn other text around, as `\\uXXXX`."""
    return _INVISIBLE.sub(lambda m: f"\\u{ord(m[0]):04x}", text)


def string(value: Any, limit: int = MAX_TEXT) -> str:
    """Any value as readable text of at most about `limit` characters; an absent one as nothing."""
    if value is None:
        return ""
    if isinstance(value, str):
        return clipped(value, limit)
    if isinstance(value, bool | int | float):
        return clipped(json.dumps(value), limit)
    return clipped(compact(value), limit)


def clipped(text: str, limit: int = MAX_TEXT) -> str:
    """`text` made visible and cut, with a note of how long it is."""
    if len(text) <= limit:
        return visible(text)
    return f"{visible(text[:limit])}… [{len(text):,} characters, cut here]"


def compact(value: Any, depth: int = 4) -> str:
    """A value in one line, nesting beyond `depth` and long arrays left out."""
    if isinstance(value, dict):
        inside = (
            [f"{visible(str(k)[:200])}: {compact(v, depth - 1)}" for k, v in list(value.items())[:20]] if depth else []
        )
        return "{" + ", ".join([*inside, *_left_out(len(value), len(inside))]) + "}"
    if isinstance(value, list):
        inside = [compact(v, depth - 1) for v in value[:20]] if depth else []
        return "[" + ", ".join([*inside, *_left_out(len(value), len(inside))]) + "]"
    return clipped(value, 200) if isinstance(value, str) else json.dumps(value)


def _left_out(length: int, shown: int) -> list[str]:
    return [f"… {length - shown:,} more"] if length > shown else []


def is_digest(text: str) -> bool:
    """Whether a text is a SHA-256 digest, with or without its prefix."""
    return _DIGEST.fullmatch(text) is not None


def figure(value: float, *, grouped: bool = True) -> str:
    """A number for reading, about six digits of it; thousands apart from 10,000 on. Any number has a text."""
    if number(value) is None:
        return f"{value}" if isinstance(value, float) else _beyond(value)
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}" if grouped and abs(value) >= 10_000 else str(int(value))
    if abs(value) >= 1e15 or abs(value) < 1e-4:
        return f"{value:.5g}"
    return f"{value:,.0f}" if abs(value) >= 1e6 else f"{value:,.6g}"


def _beyond(value: int) -> str:
    """An integer that no float can hold, by its magnitude."""
    return f"{'-' if value < 0 else ''}1e+{math.floor(math.log10(abs(value)))}"


def size(count: float) -> str:
    """Bytes in binary units."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(count) < 1024 or unit == "TiB":
            break
        count /= 1024
    return f"{count:,.0f} {unit}" if unit == "B" or abs(count) >= 100 else f"{count:.3g} {unit}"


def seconds(value: float) -> str:
    """A duration, in milliseconds below one second."""
    return f"{value * 1000:.3g} ms" if 0 < abs(value) < 1 else f"{value:,.4g} s"


def percent(share: float) -> str:
    """A share of one as a percentage of three digits."""
    return f"{share * 100:.3g} %"
