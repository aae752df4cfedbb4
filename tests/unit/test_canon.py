"""Canonical JSON against RFC 8785 and its reference package, and what happens to values that it cannot express."""

from __future__ import annotations

import hashlib
import json
import math
import struct

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from seatrial.canon import (
    MAX_EXACT_INTEGER,
    canonical,
    digest,
    exact,
    file_digest,
    measured,
    parse,
    plain,
    printable,
    sha256,
    utc,
)

pytestmark = pytest.mark.unit

integers = st.integers(-MAX_EXACT_INTEGER, MAX_EXACT_INTEGER)
any_double = st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack("<d", bits.to_bytes(8, "little"))[0])
doubles = st.floats(allow_nan=False, allow_infinity=False) | any_double.filter(math.isfinite)
text = st.text()  # hypothesis leaves lone surrogates out unless asked
json_values = st.recursive(
    st.none() | st.booleans() | integers | doubles | text,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(text, inner, max_size=5),
    max_leaves=20,
)
any_text = st.text(st.characters(exclude_categories=()))
untamed = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text | st.just(10**400) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4) | st.tuples(inner),
    max_leaves=10,
)


@given(json_values)
def test_every_json_value_is_written_as_the_reference_writes_it(value):
    assert canonical(value) == rfc8785.dumps(value)


@given(doubles)
def test_every_double_is_written_as_the_reference_writes_it_and_read_back_equal(value):
    written = canonical(value)
    assert written == rfc8785.dumps(value)
    assert parse(written) == value


@given(json_values)
def test_reading_and_writing_again_changes_nothing(value):
    written = canonical(value)
    assert parse(written) == value
    assert canonical(parse(written)) == written


@pytest.mark.parametrize(
    ("bits", "written"),
    [  # RFC 8785, appendix B
        (0x0000000000000000, "0"),
        (0x8000000000000000, "0"),
        (0x0000000000000001, "5e-324"),
        (0x7FEFFFFFFFFFFFFF, "1.7976931348623157e+308"),
        (0x4340000000000000, "9007199254740992"),
        (0x4430000000000000, "295147905179352830000"),
        (0x44B52D02C7E14AF5, "9.999999999999997e+22"),
        (0x44B52D02C7E14AF6, "1e+23"),
        (0x444B1AE4D6E2EF4E, "999999999999999700000"),
        (0x444B1AE4D6E2EF50, "1e+21"),
        (0x3EB0C6F7A0B5ED8C, "9.999999999999997e-7"),
        (0x3EB0C6F7A0B5ED8D, "0.000001"),
        (0x41B3DE4355555553, "333333333.3333332"),
        (0xBECBF647612F3696, "-0.0000033333333333333333"),
    ],
)
def test_numbers_of_the_standard(bits, written):
    assert canonical(struct.unpack(">d", bits.to_bytes(8, "big"))[0]) == written.encode()


def test_keys_are_ordered_by_utf_16_units_not_by_code_points():
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\x80", "\u00f6"]  # RFC 8785, section 3.2.3
    in_order = ["\r", "1", "\x80", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
    assert list(json.loads(canonical(dict.fromkeys(keys)))) == in_order


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (math.nan, "nan is not a JSON number"),
        ([-math.inf], "-inf is not a JSON number"),
        (2**53, "beyond"),
        (-(2**53), "beyond"),
        ("\ud800", "lone surrogate"),
        ({"\udfff": 1}, "lone surrogate"),
        ({1: 2}, "object key 1 is not a string"),
        ({"a": {1}}, "set is not JSON"),
        (b"", "bytes is not JSON"),
    ],
)
def test_what_canonical_json_cannot_hold_is_refused(value, reason):
    with pytest.raises(ValueError, match=reason):
        canonical(value)


@pytest.mark.parametrize(
    "document",
    ["NaN", "[Infinity]", '{"a": -Infinity}', "1e999", "-1e400", "9" * 400, '{"a": 1, "a": 2}', "", "{", b"\xff"],
)
def test_reading_refuses_what_writing_would_refuse(document):
    with pytest.raises(ValueError):
        parse(document)


@given(untamed)
def test_plain_makes_every_value_expressible(value):
    written = canonical(plain(value))
    assert plain(parse(written)) == parse(written)


def test_plain_keeps_what_was_lost_as_facts_and_text():
    value = {"loss": math.nan, "counter": 2**64, "path": "a\udc80b", "pair": (1, True), "where": range(2)}
    assert plain(value) == {
        "loss": {"state": "error", "reason": "non-finite", "text": "NaN"},
        "counter": "18446744073709551616",
        "path": r"a\udc80b",
        "pair": [1, True],
        "where": "range(0, 2)",
    }


def test_measured_numbers():
    assert measured(3) == 3.0
    assert [measured(v)["text"] for v in (math.nan, math.inf, -math.inf)] == ["NaN", "Infinity", "-Infinity"]


def test_exact_and_printable():
    assert exact(10**30) == "1" + "0" * 30
    assert printable("ok \U0001f600 \ud83d") == "ok \U0001f600 \\ud83d"


def test_a_digest_depends_on_the_value_alone(tmp_path):
    assert digest({"a": 1, "b": [2.0]}) == digest({"b": [2], "a": 1.0}) != digest({"a": 1, "b": [3]})
    file = tmp_path / "file"
    file.write_bytes(b"abc" * 100_000)
    assert file_digest(file) == sha256(file.read_bytes()) == f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"


def test_time_is_utc_with_microseconds():
    assert utc(1_700_000_000.25) == "2023-11-14T22:13:20.250000Z"
    assert len(utc()) == len("2023-11-14T22:13:20.250000Z")
