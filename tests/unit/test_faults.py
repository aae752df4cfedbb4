"""An error of seatrial's own is never weak evidence: the record is sealed, the claim is internal, the exit code is 70."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from seatrial.cli.main import group
from seatrial.evidence import judges, makers
from seatrial.evidence.facts import Fact, execution
from seatrial.evidence.judges.look import Answer, Look, supported
from seatrial.evidence.run import Run
from seatrial.record import latest, read_record, verify
from seatrial.trial.claims import Claim
from tests.support.sealed import unpacked

pytestmark = pytest.mark.unit
HERE = Path(__file__).name


def typo_in_a_judge(_: Claim, look: Look) -> Answer:
    return supported(str(look.value(execution.STATUS).stauts))  # type: ignore[attr-defined]


def typo_in_a_maker(run: Run) -> Iterator[Fact[Any]]:
    yield execution.ATTEMPTS.seen(run.plan["steps"], "nobody")  # type: ignore[index]


def judged(root: Path) -> tuple[int, dict[str, Any]]:
    """Exit code of `seatrial judge`, and the new record."""
    done = CliRunner().invoke(group, ["judge", str(root)], standalone_mode=False)
    assert done.exception is None
    return int(done.return_value), read_record(latest(root))[0]


def reasons(record: dict[str, Any]) -> dict[str, str]:
    return {verdict["claim"]: verdict["reason"] for verdict in record["verdicts"]}


def test_a_bug_in_a_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = unpacked("run", tmp_path)
    before = reasons(read_record(latest(root))[0])
    monkeypatch.setitem(judges.JUDGES["run"], "execution.completed", typo_in_a_judge)  # type: ignore[arg-type]
    code, record = judged(root)
    assert code == record["exit_code"] == 70
    assert reasons(record) == {**before, "execution.completed": "internal"}  # the others are judged as before
    (fault,) = record["faults"]
    assert fault["about"] == "execution.completed"
    assert "AttributeError: 'Ended' object has no attribute 'stauts'" in fault["error"]
    assert fault["where"].startswith("seatrial/evidence/judges/")
    assert fault["where"] in next(v["seen"] for v in record["verdicts"] if v["claim"] == "execution.completed")
    assert verify(latest(root)).problems == []


def test_a_bug_in_a_maker_of_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = unpacked("run", tmp_path)
    before = reasons(read_record(latest(root))[0])
    monkeypatch.setitem(makers.MAKERS["run"], "execution", typo_in_a_maker)  # type: ignore[arg-type]
    code, record = judged(root)
    assert code == record["exit_code"] == 70
    assert record["evidence"]["execution"] == {}
    found = reasons(record)
    without = {name for name, reason in found.items() if reason == "internal"}
    assert {"execution.completed", "execution.all_ranks_participated", "recovery.checkpoint_reloads"} <= without
    assert {name: reason for name, reason in found.items() if name not in without}  # what needs none of those facts
    assert all(before[name] == reason for name, reason in found.items() if name not in without)
    assert [fault["about"] for fault in record["faults"]] == ["execution"]
    assert "TypeError: 'PlanFacts' object is not subscriptable" in record["faults"][0]["error"]


def test_a_bug_in_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdicts are shown, the record is sealed, one line says where, and the exit code is 70 all the same."""
    from seatrial.report import page

    def typo(_: object) -> list[str]:
        return page.nothing_of_this_name  # type: ignore[attr-defined,no-any-return]

    root = unpacked("run", tmp_path)
    monkeypatch.setattr(page, "sections_of", typo)
    done = CliRunner().invoke(group, ["judge", str(root)], standalone_mode=False)
    assert (done.exception, done.return_value) == (None, 70)
    assert "execution.completed" in done.stdout
    (line,) = done.stderr.splitlines()
    assert "no report: tests/unit/test_faults.py" in line or "no report: seatrial/report/page.py:" in line
    assert "AttributeError: module 'seatrial.report.page' has no attribute 'nothing_of_this_name'" in line
    assert read_record(latest(root))[0]["exit_code"] == 1
    assert latest(root).name == "record.2.json"
    assert verify(root / "record.json").problems == []


def test_a_clean_record_has_no_faults(tmp_path: Path) -> None:
    root = unpacked("run", tmp_path)
    code, record = judged(root)
    assert (code, record.get("faults")) == (1, None)


def test_no_claim_hides_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was claimed of a job that was looked at: what was seen is still not what it should be."""
    monkeypatch.setitem(makers.MAKERS["observed"], "transport", typo_in_a_maker)  # type: ignore[arg-type]
    code, record = judged(unpacked("observed", tmp_path))
    assert code == record["exit_code"] == 70
