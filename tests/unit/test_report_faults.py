"""Errors of seatrial's own: one of the report's says where it happened, one in a record is loud wherever it is shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from seatrial.cli import inspect_text, output, result
from seatrial.cli.main import main
from seatrial.errors import EXIT_INTERNAL
from seatrial.evidence.facts import FactType, environment, execution, outside, performance, recovery, transport
from seatrial.report import ReportFault, figures, leads, summary, write
from seatrial.report.figures import Figure
from seatrial.report.view import RecordView
from tests.browser.sample import full, record, strange, verdict, written
from tests.unit.test_report import pages

pytestmark = pytest.mark.unit

FAULT = {"about": "learning", "where": "seatrial/evidence/training/learning.py:42", "error": "KeyError: 'loss'"}
SAID = "seatrial/evidence/training/learning.py:42: KeyError: 'loss' (while seatrial looked at learning)"


def broken(_: Any) -> str:
    raise AttributeError("planted")


def a_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    line = leads.LEADS[execution.ROSTER.id]
    monkeypatch.setitem(leads.LEADS, execution.ROSTER.id, replace(line, text=broken))


def a_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(view: RecordView) -> Figure | None:
        return Figure(broken(view), "", ())

    monkeypatch.setitem(figures.DRAWN, "learning", (draw,))


def a_key_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "seconds", broken)


def a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the ValueError of another shape."""
    monkeypatch.setattr(FactType, "read", lambda *_: broken(None))


@pytest.mark.parametrize(
    ("plant", "place"),
    [
        (a_lead, r"seatrial/report/leads\.py:\d+"),
        (a_figure, r"seatrial/report/figures\.py:\d+"),
        (a_key_figure, r"seatrial/report/summary\.py:\d+"),
        (a_reader, r"seatrial/report/(leads|reading)\.py:\d+"),
    ],
)
@pytest.mark.parametrize("there", [False, True])
def test_a_bug_of_the_report_says_where_it_is(
    plant: Any, place: str, there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, full())
    if there:
        write(path)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    plant(monkeypatch)
    with pytest.raises(ReportFault, match=f"no report: {place}: AttributeError: planted") as caught:
        write(path)
    assert str(caught.value).endswith(f"the record is sealed: {path}")
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == EXIT_INTERNAL
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_the_command_ends_with_the_line_and_exit_code_70(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    a_lead(monkeypatch)
    with pytest.raises(SystemExit) as ended:
        main(["report", str(written(tmp_path, full()))])
    assert ended.value.code == EXIT_INTERNAL
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].startswith("seatrial: no report: seatrial/report/")


# --- a fault in the record ---------------------------------------------------------------------------------------


def faulty(**rest: Any) -> dict[str, Any]:
    verdicts = (verdict("execution.completed"), verdict("learning.heldout.loss", "not-established", "internal"))
    return record(**{"verdicts": verdicts, "faults": [FAULT], "exit_code": EXIT_INTERNAL, **rest})


def test_a_fault_is_loud_in_the_report(tmp_path: Path) -> None:
    page, text = pages(tmp_path, faulty())
    assert f"Fault of seatrial's own: {SAID}" in page.words
    assert ("div", "banner loud") in [(tag, attributes.get("class")) for tag, attributes in page.tags]
    assert "seatrial itself failed: 1 of 2 claims supported, 1 not established" in page.words
    assert "Exit code 70: a fault of seatrial's own." in page.words
    assert "> **Fault of seatrial's own:** seatrial/evidence/training/learning.py:42: KeyError" in text.replace(
        "\\", ""
    )
    assert "seatrial itself failed: 1 of 2 claims supported" in text


def test_a_fault_is_told_where_nothing_was_claimed_or_all_is_void(tmp_path: Path) -> None:
    page, _ = pages(tmp_path, faulty(verdicts=(), observed=True))
    assert "seatrial itself failed: looked at; nothing was claimed" in page.words
    assert "Exit code 70" in page.words
    page, _ = pages(tmp_path, faulty(void="claims.json is another"))
    assert "Void: claims.json is another" in page.words
    assert "Exit code 70" in page.words


def test_many_faults_are_counted(tmp_path: Path) -> None:
    page, _ = pages(tmp_path, faulty(faults=[FAULT] * 4000))
    assert "and 3,995 more" in page.words


def test_without_a_fault_nothing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, text = pages(tmp_path, full())
    output.verdicts(full())
    assert "Fault" not in text + capsys.readouterr().out
    assert "itself failed" not in page.words


def shown(content: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> str:
    """What the terminal shows, each run of spaces as one."""
    result.show(content)
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("rest", [{}, {"observed": True}, {"observed": True, "verdicts": ()}])
def test_a_fault_is_told_on_the_terminal(rest: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    said = shown(faulty(**rest), capsys)
    assert f"Fault of seatrial's own: {SAID} exit code 70" in said


# --- the rest of the terminal ------------------------------------------------------------------------------------


def test_the_legend_has_a_line_for_each_reason_that_occurred(capsys: pytest.CaptureFixture[str]) -> None:
    output.verdicts(full())
    lines = capsys.readouterr().out.splitlines()
    assert lines.count("  uncorroborated   only one witness says so") == 1
    assert lines.count("  gradients        a rank's gradient is not, or not equally, in what was applied") == 1
    assert lines.index("") == 0
    table, legend = lines[1 : lines.index("", 1)], lines[lines.index("", 1) + 1 :]
    assert any("gradients: what was seen" in line for line in table)
    assert legend[4] == ""  # four reasons


def test_no_legend_where_every_claim_is_supported(capsys: pytest.CaptureFixture[str]) -> None:
    output.verdicts(record(verdicts=(verdict("execution.completed"), verdict("transport.internode"))))
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines() if line] == [
        "claim",
        "execution.completed",
        "transport.internode",
        "not",
    ]


def test_a_reason_that_this_version_does_not_know_has_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    content = record(verdicts=(verdict("execution.completed", "refuted", "reason-of-tomorrow"),))
    assert output.legend(content) == {}
    assert "reason-of-tomorrow: what was seen" in shown(content, capsys)


SHOWN = (
    *(outside.JOB, outside.PROCESSES, outside.ATTEMPTS_SEEN, environment.IMAGE_RAN, environment.PODS),
    *(environment.LOADED, environment.DEVICES, environment.MANIFEST, transport.INTERNODE, transport.WINDOW),
    *(performance.GPU_USE, performance.TOKENS_PER_SECOND, recovery.NEWEST_CHECKPOINT),
)


@pytest.mark.parametrize("value", [None, [], {}, "x", 10**400, [{}], {"x": [{"x": None}]}, [[1]]])
def test_values_of_another_shape_are_no_bug_on_the_terminal(value: Any, capsys: pytest.CaptureFixture[str]) -> None:
    content = record(*(strange(type.id, value) for type in SHOWN))
    assert list(inspect_text.lines(content))
    shown({**content, "observed": True}, capsys)
    shown(content, capsys)
