"""What machines read: places that exist, paths as URIs, and what counts as a failure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from seatrial.check import formats
from seatrial.check.runner import CheckResult, RuleFinding
from seatrial.errors import InputError, Place

pytestmark = pytest.mark.unit


def finding(path: str, severity: Any = "error", line: int = 7) -> RuleFinding:
    return RuleFinding(path, line, 3, "num-gpus-mismatch", severity, "spec.x", "8", "4", "make them equal", "https://x")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_trial_s_finding_is_placed_in_the_trial(here: Path) -> None:
    (here / "trial.yaml").write_text("")
    outcome = CheckResult([finding("trial.yaml#rayjob.yaml")])
    [one] = formats.document(outcome, "info")["findings"]
    assert (one["path"], one["line"], one["column"]) == ("trial.yaml", 1, 1)
    assert one["rendered"] == {"name": "rayjob.yaml", "line": 7, "column": 3}
    [result] = formats.sarif(outcome, "info")["runs"][0]["results"]
    where = result["locations"][0]["physicalLocation"]
    assert where == {"artifactLocation": {"uri": "trial.yaml"}, "region": {"startLine": 1, "startColumn": 1}}
    assert result["message"]["text"].startswith("rayjob.yaml:7: spec.x: 8; expected 4")
    assert result["properties"]["rendered"]["line"] == 7
    [line] = formats.github(outcome, "info")
    assert line.startswith("::error file=trial.yaml,line=1,col=1,title=num-gpus-mismatch::rayjob.yaml:7: spec.x")
    [case] = ElementTree.fromstring(formats.junit(outcome, "info", ["trial.yaml"]).encode())
    assert case.get("name") == "trial.yaml"
    assert "rayjob.yaml:7:3: error num-gpus-mismatch" in (case.findtext("failure") or "")
    assert formats.text(finding("trial.yaml#rayjob.yaml")).startswith("trial.yaml#rayjob.yaml:7:3: error")


def test_a_file_may_have_a_number_sign_in_its_name(here: Path) -> None:
    (here / "a").write_text("")
    (here / "a#b.yaml").write_text("")
    [one] = formats.document(CheckResult([finding("a#b.yaml")]), "info")["findings"]
    assert (one["path"], one["line"], "rendered" in one) == ("a#b.yaml", 7, False)


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("a b/100%#1.yaml", "a%20b/100%25%231.yaml"),
        ("sub/m.yaml", "sub/m.yaml"),
        ("../m.yaml", "../m.yaml"),
        ("a:b.yaml", "a%3Ab.yaml"),
        ("/elsewhere/ü.yaml", "file:///elsewhere/%C3%BC.yaml"),
        ("{here}/sub/m.yaml", "sub/m.yaml"),
    ],
)
def test_paths_as_uris(here: Path, path: str, uri: str) -> None:
    path = path.replace("{here}", str(here))
    outcome = CheckResult([finding(path)], problems=[InputError("bad", place=Place(path, 2)), InputError("none")])
    run = formats.sarif(outcome, "info")["runs"][0]
    notes = run["invocations"][0]["toolExecutionNotifications"]
    seen = [run["results"][0]["locations"][0], notes[0]["locations"][0]]
    assert {where["physicalLocation"]["artifactLocation"]["uri"] for where in seen} == {uri}
    assert notes[1]["locations"] == []
    assert json.loads(formats.as_json({"run": run})) == {"run": run}


def test_a_warning_fails_a_test_case_only_where_it_fails_the_command() -> None:
    outcome = CheckResult([finding("a.yaml"), finding("a.yaml", "warning", 9), finding("b.yaml", "warning")])

    def suite(*failing: Any) -> Any:
        return ElementTree.fromstring(formats.junit(outcome, "info", ["a.yaml", "b.yaml"], failing).encode())

    lenient, strict = suite("error"), suite("error", "warning")
    assert (lenient.get("failures"), strict.get("failures")) == ("1", "2")
    assert [case.findtext("system-out") for case in strict] == [None, None]
    assert lenient.find("testcase/failure").get("message") == "1 finding"
    assert [case.findtext("system-out")[:12] for case in lenient] == ["9:3: warning", "7:3: warning"]


@pytest.mark.parametrize(
    ("fail_on", "least", "counted"),
    [
        ("error", "info", ("error",)),
        ("warning", "info", ("error", "warning")),
        ("warning", "warning", ("error", "warning")),
        ("warning", "error", ("error",)),
    ],
)
def test_what_is_not_listed_does_not_fail(fail_on: str, least: Any, counted: tuple[str, ...]) -> None:
    assert formats.counted(fail_on, least) == counted
