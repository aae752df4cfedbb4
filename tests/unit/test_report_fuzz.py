"""Records from anyone: whatever a record holds, it can be shown, and no value breaks the report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.cli import inspect_text, output
from seatrial.evidence.facts import FACTS, FAMILIES, FactType
from seatrial.report.leads import LEADS, lead
from tests.browser.sample import record, strange
from tests.unit.test_report import pages, rendered

pytestmark = pytest.mark.unit

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
INTEGERS = st.integers(-3, 12) | st.sampled_from([2**53, -(2**64), 10**400, -(10**400), "7", 3.0])
FLOATS = st.floats(-2, 2) | st.floats() | st.sampled_from([1e308, -1e308, 5e-324, "nan", "-inf", "0.5", 7])
TEXTS = st.text(max_size=8) | st.sampled_from(
    ["", "closed", "within", "0", "-1", "9" * 400, "1e400", "a/b", "x" * 5000]
)
ODD = st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.just([]) | st.just({}) | st.just([[[[[]]]]])


def of_shape(hint: Any) -> st.SearchStrategy[Any]:
    """The JSON of values of a fact's type, with numbers of any size."""
    plain = {int: INTEGERS, float: FLOATS, str: TEXTS, bool: st.booleans(), NoneType: st.none()}
    arguments = get_args(hint)
    if get_origin(hint) is Annotated:
        return of_shape(arguments[0])
    if hint in plain:
        return plain[hint]
    if is_dataclass(hint):
        hints = get_type_hints(hint, include_extras=True)
        return st.fixed_dictionaries({_key(f.name, hints[f.name]): of_shape(hints[f.name]) for f in fields(hint)})
    if get_origin(hint) in (Union, UnionType):
        return st.one_of(*(of_shape(each) for each in arguments))
    if get_origin(hint) is list:
        return st.lists(of_shape(arguments[0]), max_size=3)
    if get_origin(hint) is tuple:
        return st.tuples(*(of_shape(each) for each in arguments)).map(list)
    if get_origin(hint) is dict:
        return st.dictionaries(TEXTS, of_shape(arguments[1]), max_size=3)
    return JSON  # Any, and what is read by pydantic


def _key(name: str, hint: Any) -> str:
    """The name of a field in JSON."""
    return next((mark.alias for mark in getattr(hint, "__metadata__", ()) if mark.alias), name)


@st.composite
def about(draw: st.DrawFn, hint: Any) -> Any:
    """Such a value, of which often one part has another shape."""
    value = whole = [draw(of_shape(hint))]
    at: Any = 0
    while draw(st.booleans()) and isinstance(value[at], list | dict) and value[at]:
        value = value[at]
        at = draw(st.sampled_from(sorted(value) if isinstance(value, dict) else range(len(value))))
    if draw(st.booleans()):
        value[at] = draw(ODD)
    return whole[0]


PARTS = {"phase": "after", "table": "bigram", "layer": "libraries", "task": "digits"}
TYPES: dict[str, FactType[Any]] = FACTS | {
    named.id: named
    for family in FAMILIES.values()
    for named in [family.of(**PARTS), family.of(**{**PARTS, "phase": "before"})]
}
EVIDENCE = st.lists(st.sampled_from(sorted(TYPES)), max_size=5, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: about(TYPES[name].shape) for name in names})
)


@settings(max_examples=150)
@given(EVIDENCE)
def test_any_value_of_about_the_shape_of_its_fact_can_be_shown(values: dict[str, Any]) -> None:
    content = record(*(strange(name, value, TYPES[name].unit) for name, value in values.items()))
    page, _ = rendered(content)
    assert set(values) <= set(page.ids)
    assert list(inspect_text.lines(content))
    assert output.unclaimed(content)


@settings(max_examples=20)
@given(st.data())
@pytest.mark.parametrize("name", sorted({*LEADS, *(name for name in TYPES if ".task." in name)}))
def test_a_lead_takes_every_value_of_its_type(name: str, data: st.DataObject) -> None:
    value = data.draw(of_shape(TYPES[name].shape))
    TYPES[name].read(value)
    assert isinstance(lead(name, value, TYPES[name].unit), str)


@given(
    st.dictionaries(
        st.sampled_from([*LEADS, "transport.x", "environment.image.ran", "learning.heldout.loss.after"]),
        JSON,
        max_size=8,
    )
)
def test_any_value_of_any_fact_can_be_shown(values: dict[str, Any]) -> None:
    page, _ = rendered(record(*(strange(name, value) for name, value in values.items())))
    assert len(page.ids) == len(set(page.ids))
    assert set(values) <= set(page.ids)


@given(st.fixed_dictionaries({}, optional={k: JSON for k in (*record(), "evidence", "verdicts") if k != "schema"}))
def test_any_record_can_be_shown(content: dict[str, Any]) -> None:
    page, _ = rendered({"schema": "seatrial.record/1", **content})
    assert set(page.targets) <= set(page.ids)


@given(
    st.dictionaries(
        st.sampled_from(("execution", "learning", "performance", "x")),
        st.dictionaries(st.text(max_size=30), JSON, max_size=4),
    )
)
def test_any_evidence_can_be_shown(evidence: dict[str, Any]) -> None:
    page, _ = rendered({**record(), "evidence": evidence})
    assert len(page.ids) == len(set(page.ids))


def test_a_value_nested_without_end_is_cut(tmp_path: Path) -> None:
    value: Any = "bottom"
    for _ in range(150):
        value = {"down": value}
    page, _ = pages(tmp_path, record(strange("execution.deep", value)))
    assert "bottom" not in page.words


@pytest.mark.parametrize("wrap", [lambda value: [value], lambda value: {"status": value}])
def test_nesting_at_the_place_of_every_known_fact(wrap: Callable[[Any], Any], tmp_path: Path) -> None:
    value: Any = "bottom"
    for _ in range(900):
        value = wrap(value)
    page, text = pages(tmp_path, record(*(strange(name, value) for name in TYPES)))
    assert set(TYPES) <= set(page.ids)
    assert "bottom" not in page.words + text
