"""Canonical JSON (RFC 8785), digests and UTC time, with the standard library only.

Everything that is hashed passes through `canonical`: a digest depends on the value alone, not on key order, white
space or the language that wrote it.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any

Json = Any  # None | bool | int | float | str | list | dict, checked by `canonical`

MAX_EXACT_INTEGER = 2**53 - 1  # beyond it an IEEE double no longer holds every integer (RFC 8785, section 3.2.2.3)
_WORDS = {None: "null", True: "true", False: "false"}
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def canonical(value: Json) -> bytes:
    """`value` as RFC 8785 bytes.

    Raises ValueError for a value that RFC 8785 cannot express: a non-finite number, an integer beyond ±(2⁵³−1), a
    lone surrogate, a key that is not a string, a type that is not JSON. Callers convert such values first (`exact`,
    `measured`, `printable`).
    """
    pieces: list[str] = []
    _encode(value, pieces.append)
    return "".join(pieces).encode("utf-8")


def _encode(value: Json, write: Callable[[str], None]) -> None:
    """Writes the text piece by piece. Speed matters: each event of a training passes here while it trains."""
    if isinstance(value, str):
        write(_string(value))
    elif value is None or value is True or value is False:
        write(_WORDS[value])
    elif isinstance(value, int):
        if abs(value) > MAX_EXACT_INTEGER:
            raise ValueError(f"integer {value} is beyond ±(2^53-1): write it as a decimal string")
        write(str(int(value)))
    elif isinstance(value, float):
        write(_number(value))
    elif isinstance(value, list | tuple):
        mark = "["
        for item in value:
            write(mark)
            _encode(item, write)
            mark = ","
        write("]" if value else "[]")
    elif isinstance(value, dict):
        mark = "{"
        for key in _sorted(value):
            write(f"{mark}{_string(key)}:")
            _encode(value[key], write)
            mark = ","
        write("}" if value else "{}")
    else:
        raise ValueError(f"{type(value).__name__} is not JSON")


def _sorted(value: dict[Any, Json]) -> list[str]:
    """The keys in order of their UTF-16 code units (RFC 8785). For ASCII keys this is Python's own order."""
    ascii_only = True
    for key in value:
        if not isinstance(key, str):
            raise ValueError(f"object key {key!r} is not a string")
        ascii_only = ascii_only and key.isascii()
    return sorted(value) if ascii_only else sorted(value, key=lambda k: k.encode("utf-16-be", "surrogatepass"))


def _string(text: str) -> str:
    if not text.isascii() and _SURROGATE.search(text):
        raise ValueError("text has a lone surrogate")
    return encode_basestring(text)


def _number(value: float) -> str:
    """ECMAScript Number::toString: Python's shortest digits, laid out by ECMAScript's rules."""
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a JSON number")
    if value == 0:
        return "0"
    shortest = repr(float(value))
    if "e" not in shortest:  # from 1e-4 to 1e16 Python and ECMAScript write the same
        return shortest.removesuffix(".0")
    mantissa, _, exponent = shortest.removeprefix("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0)
    if whole == "0":
        point = int(exponent or 0) - (len(fraction) - len(fraction.lstrip("0")))
    digits = digits.rstrip("0") or "0"
    sign = "-" if value < 0 else ""
    count = len(digits)
    if count <= point <= 21:
        return sign + digits + "0" * (point - count)
    if 0 < point <= 21:
        return sign + digits[:point] + "." + digits[point:]
    if -6 < point <= 0:
        return sign + "0." + "0" * -point + digits
    tail = "." + digits[1:] if count > 1 else ""
    return f"{sign}{digits[0]}{tail}e{'+' if point > 0 else '-'}{abs(point - 1)}"


def printable(text: str) -> str:
    """`text` with each lone surrogate written as `\\udcXX`: UTF-8 can encode that, and a reader still recognises it."""
    if text.isascii():
        return text
    return _SURROGATE.sub(lambda m: f"\\u{ord(m[0]):04x}", text)


def measured(value: float) -> Json:
    """A measured number, or an error fact in place of a non-finite one."""
    if math.isfinite(value):
        return float(value)
    text = "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return {"state": "error", "reason": "non-finite", "text": text}


def exact(value: int) -> str:
    """`value` as a decimal string, for counters and nanoseconds: they may exceed 2⁵³."""
    return str(int(value))


def plain(value: Json) -> Json:
    """`value` as `canonical` accepts it: surrogates written out, non-finite numbers as error facts, large integers as
    strings."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if abs(value) <= MAX_EXACT_INTEGER else exact(value)
    if isinstance(value, float):
        return measured(value)
    if isinstance(value, dict):
        return {printable(str(k)): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return printable(str(value))


def sha256(data: bytes) -> str:
    """`sha256:<hex>` of the bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest(value: Json) -> str:
    """`sha256:<hex>` of the canonical JSON of `value`."""
    return sha256(canonical(value))


def file_digest(path: Path) -> str:
    """`sha256:<hex>` of a file, read in pieces. Raises OSError."""
    with path.open("rb") as handle:
        return "sha256:" + hashlib.file_digest(handle, "sha256").hexdigest()


def parse(data: bytes | str) -> Json:
    """Parses JSON. Raises ValueError for what canonical JSON cannot hold: NaN, Infinity, 1e999, duplicate keys.

    A whole number beyond ±(2⁵³−1) becomes a double, as in ECMAScript: `canonical` writes 1e20 with all its digits.
    """
    return json.loads(
        data, parse_constant=_refuse_constant, parse_int=_integer, parse_float=_finite, object_pairs_hook=_unique
    )


def _refuse_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


def _integer(text: str) -> int | float:
    return int(text) if abs(float(text)) <= MAX_EXACT_INTEGER else _finite(text)


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is too large for a double")
    return value


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    seen = dict(pairs)
    if len(seen) != len(pairs):
        raise ValueError("duplicate key")
    return seen


def utc(seconds: float | None = None) -> str:
    """RFC 3339 UTC with microseconds; now, or a POSIX time in seconds."""
    moment = datetime.now(UTC) if seconds is None else datetime.fromtimestamp(seconds, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
