"""The report's parts: Markdown, values and words, charts."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from seatrial.evidence.facts import (
    FACTS,
    FAMILIES,
    Reason,
    environment,
    execution,
    learning,
    outside,
    performance,
    recovery,
    transport,
)
from seatrial.report import charts, tasks, words
from seatrial.report.leads import LEADS, lead
from seatrial.report.markdown import code, escape
from seatrial.report.reading import figure, number, seconds, size, string, visible
from seatrial.report.values import Layout, Listing, Pairs, Points, Scalar, Table
from tests.browser.sample import record, verdict
from tests.unit.test_report import rendered
from tests.unit.test_report_fuzz import JSON

pytestmark = pytest.mark.unit

# --- Markdown ----------------------------------------------------------------------------------------------------


@given(st.text(max_size=60))
def test_escaped_text_reads_as_it_was(text: str) -> None:
    shown = MarkdownIt("commonmark").enable("table").parse(f"| a |\n| - |\n| x{escape(text)}x |\n")
    cells = [t for t in shown if t.type == "inline"]
    assert len(cells) == 2
    read = "".join(c.content for c in cells[1].children or () if c.type != "html_inline")
    assert " ".join(read.split()) == " ".join(f"x{' '.join(visible(text).split())}x".split())


@given(st.text(max_size=60))
def test_code_reads_as_it_was(text: str) -> None:
    cells = [
        t
        for t in MarkdownIt("commonmark").enable("table").parse(f"| a |\n| - |\n| {code(text)} |\n")
        if t.type == "inline"
    ]
    assert [c.type for c in cells[1].children or ()] == ["code_inline"]
    assert (cells[1].children or [])[0].content.strip() == (" ".join(visible(text).split()) or "-")


@pytest.mark.parametrize("harm", ["@team", "see #12", "https://evil.example", "www.evil.example"])
def test_nothing_is_linked_or_mentioned(harm: str) -> None:
    assert harm not in escape(harm)
    assert escape(harm).replace("<!-- -->", "").replace("\\", "") == harm


# --- values and words --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (3.0, "3"), (9999, "9999"), (12345, "12,345"), (0.1234567, "0.123457"), (5.409948, "5.40995"), (1e-7, "1e-07"), (-4.5, "-4.5"),
     (1234567.8, "1,234,568"), (1e300, "1e+300"), (2**53, "9.0072e+15")],
)  # fmt: skip
def test_numbers_read_well(value: float, text: str) -> None:
    assert figure(value) == text


def test_sizes_and_times_read_well() -> None:
    assert [size(n) for n in (0, 1023, 1536, 38 * 2**30, 2**60)] == [
        "0 B",
        "1,023 B",
        "1.5 KiB",
        "38 GiB",
        "1,048,576 TiB",
    ]
    assert [seconds(s) for s in (0.0, 0.0597, 1.5, 1234.5)] == ["0 s", "59.7 ms", "1.5 s", "1,234 s"]


@pytest.mark.parametrize("value", [None, True, "x", "", "1e5", "0x1", [], {}, "9" * 400])
def test_what_is_no_number(value: Any) -> None:
    assert number(value) is None


def test_counters_are_numbers() -> None:
    assert number("18446744073709551616") == 2.0**64


@pytest.mark.parametrize(
    ("value", "shape"),
    [([[1, 2.0], [2, None]], Points), ([{"rank": 1}, {"rank": 2, "x": []}], Table), ([1, "a", None], Listing), ({"a": 1, "b": [1]}, Pairs),
     ({str(i): i for i in range(40)}, Listing), ([], Scalar), (2.5, Scalar), ([[1, 2], "x"], object)],
)  # fmt: skip
def test_the_shape_of_a_value_decides_how_it_is_laid_out(value: Any, shape: type) -> None:
    assert isinstance(Layout().node(value), shape)


def test_names_are_not_grouped_and_bytes_are_sizes() -> None:
    made = Layout().node([{"pid": 123456, "peak_bytes": "2147483648", "tokens": 123456}])
    assert isinstance(made, Table)
    assert [cell.text for cell in made.rows[0]] == ["123456", "2 GiB", "123,456"]
    assert made.rows[0][1].exact == "2147483648 bytes"


@given(st.sampled_from(sorted(LEADS)), JSON)
def test_a_lead_never_fails(name: str, value: Any) -> None:
    assert isinstance(lead(name, value, "steps"), str)


def test_long_text_says_how_long_it_is() -> None:
    assert string("x" * 5000).endswith("… [5,000 characters, cut here]")


# What no heading is worth: it is named after its id, stands in the table of held-out windows, or is a layer.
LEFT_TO_ITS_ID = {
    *(error.id for error in (m.ERROR for m in (environment, execution, learning, performance, recovery, transport))),
    *(
        type.id
        for type in (
            outside.SCRIPT_NAME,
            outside.JOB,
            outside.PROCESSES,
            outside.ATTEMPTS_SEEN,
            transport.CONNECTIVITY,
            transport.WINDOW,
            performance.WINDOW_BY_PROBE,
            performance.GPU_USE,
            learning.ISOLATION,
            recovery.NEWEST_CHECKPOINT,
            environment.LOADED,
            environment.DEVICES,
            environment.STARTED_WITH,
            environment.PODS,
            environment.MANIFEST,
            environment.RAY,
        )
    ),
    *(family.pattern for family in (learning.LOSS, learning.BITS_PER_BYTE, learning.BASELINE, environment.LAYER)),
}


def test_every_fact_has_a_title_or_is_left_to_its_id() -> None:
    titled = {*words.FACTS, *(fact.family.pattern for fact in tasks.FACTS.values())}
    assert titled | LEFT_TO_ITS_ID == {*FACTS, *FAMILIES}
    assert not titled & LEFT_TO_ITS_ID


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_its_sentence_beside_the_verdict(reason: Reason) -> None:
    page, _ = rendered(record(verdicts=(verdict("execution.completed", "not-established", reason),)))
    assert f"{reason}: {reason.meaning}" in page.words


# --- charts ------------------------------------------------------------------------------------------------------

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


def texts(svg: str) -> list[str]:
    """The texts of a drawing, which must be well-formed, titled and without a coordinate that is no number."""
    root = ET.fromstring(svg)
    assert root.attrib["role"] == "img"
    assert [child.tag for child in root][:2] == ["title", "desc"]
    assert "nan" not in svg
    assert "inf" not in svg
    return [t.text or "" for t in root.iter("text")]


@pytest.mark.parametrize(
    "points",
    [[], [(1, None)], [(1, 2.0)], [(1, 2.0), (2, 2.0)], [(1, 0.0), (2, None), (3, 5.0)], [(1, 1e308), (2, -1e308), (3, 1.0)], [(5, 1.0), (5, 2.0)],
     [(0, 5e-324), (1, 0.0)], [(1, 1e15), (2, 1e15 + 1)]],
)  # fmt: skip
def test_a_line_chart_of_anything(points: list[charts.Point]) -> None:
    lines = [charts.Line(points), charts.Line(points, dots=True, labels=("<first>",))]
    shown = texts(
        charts.line_chart(
            "k", "<t>", "d", lines, x_label="x", y_label="y", levels=[charts.Level(1.0, "one")], from_zero=True
        )
    )
    assert ("nothing to draw" in shown) == (not any(y is not None and abs(y) < 1e300 for _, y in points))


@given(st.lists(st.tuples(NUMBERS, st.none() | NUMBERS), max_size=12), NUMBERS)
def test_no_series_breaks_a_chart(points: list[charts.Point], level: float) -> None:
    second = charts.SecondAxis("other", 1.4427)
    texts(
        charts.line_chart(
            "k",
            "t",
            "d",
            [charts.Line(points)],
            x_label="x",
            y_label="y",
            second=second,
            levels=[charts.Level(level, "l")],
        )
    )
    values = [y for _, y in points if y is not None]
    texts(charts.histogram("k", "t", "d", values, x_label="x", y_label="n", marks=[charts.Level(level, "m")]))
    texts(charts.bar_chart("k", "t", "d", [charts.Bar("b", v, "v") for v in values]))


def test_gaps_are_not_bridged() -> None:
    svg = charts.line_chart(
        "k", "t", "d", [charts.Line([(1, 1.0), (2, 2.0), (3, None), (4, 1.0), (5, 2.0)])], x_label="x", y_label="y"
    )
    assert svg.count('class="line seen"') == 2


@given(NUMBERS, NUMBERS)
def test_ticks_lie_inside_in_order(a: float, b: float) -> None:
    low, high = sorted((a, b))
    found = charts.ticks(low, high)
    slack = (high - low) * 1e-6
    assert found
    assert found == sorted(set(found))
    assert len(found) <= 20
    assert all(low - slack <= t <= high + slack for t in found)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 1, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]), (0, 20, ["0", "5", "10", "15", "20"]), (3, 3, ["3"]), (0, 2.5e6, ["0", "5e+05", "1e+06", "1.5e+06", "2e+06", "2.5e+06"])],
)  # fmt: skip
def test_ticks_are_round(low: float, high: float, expected: list[str]) -> None:
    assert charts.tick_texts(charts.ticks(low, high)) == expected
