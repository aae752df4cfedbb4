"""How an outcome is written: text, json, sarif, junit, github."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as xml

import seatrial
from seatrial.check.inputs import place, rendered
from seatrial.check.rule import RULES, SEVERITIES, Severity
from seatrial.check.runner import CheckResult, RuleFinding
from seatrial.errors import InputError, clean

FORMATS = ("text", "json", "sarif", "junit", "github")
_SARIF = {"error": "error", "warning": "warning", "info": "note"}
_GITHUB = {"error": "error", "warning": "warning", "info": "notice"}
RULES_PAGE = "https://github.com/seatrial/seatrial/blob/main/docs/rules.md"


def shown(outcome: CheckResult, least: Severity) -> list[RuleFinding]:
    """The findings that count: not set aside, and of at least that severity."""
    kept = SEVERITIES[: SEVERITIES.index(least) + 1]
    return [finding for finding in outcome.findings if not finding.suppressed and finding.severity in kept]


def counted(fail_on: str, least: Severity) -> tuple[Severity, ...]:
    """The severities that make the command fail: from `fail_on`, and never one that is not listed."""
    # `fail_on` is the least severe one that fails; one that is not even listed cannot make the command fail.
    last = min(SEVERITIES.index("error" if fail_on == "error" else "warning"), SEVERITIES.index(least))
    return SEVERITIES[: last + 1]


def summary(outcome: CheckResult, findings: list[RuleFinding], notes: tuple[str, ...]) -> dict[str, Any]:
    """Counts of everything, also of what is not listed."""
    counts = Counter(finding.severity for finding in outcome.findings if not finding.suppressed)
    return {
        "resources": outcome.resources,
        "other_documents": outcome.others,
        **{f"{severity}s" if severity != "info" else "infos": counts[severity] for severity in SEVERITIES},
        "listed": len(findings),
        "suppressed": sum(1 for finding in outcome.findings if finding.suppressed),
        "cannot_tell": len(outcome.cannot_tell),
        "unreadable": len(outcome.problems),
        "notes": list(notes),
    }


def document(outcome: CheckResult, least: Severity, notes: tuple[str, ...] = ()) -> dict[str, Any]:
    """The outcome as one JSON document."""
    findings = shown(outcome, least)
    return {
        "findings": [_finding(finding) for finding in findings],
        "suppressed": [{**_finding(f), "reason": f.suppressed} for f in outcome.findings if f.suppressed],
        "cannot_tell": [
            {**place(u.path, u.line, u.column), "rule": u.rule, "reason": u.reason} for u in outcome.cannot_tell
        ],
        "problems": [_problem(problem) for problem in outcome.problems],
        "summary": summary(outcome, findings, notes),
    }


def _finding(finding: RuleFinding) -> dict[str, Any]:
    return {
        **place(finding.path, finding.line, finding.column),
        "rule": finding.rule,
        "severity": finding.severity,
        "field": finding.field,
        "message": finding.message,
        "seen": finding.seen,
        "expected": finding.expected,
        "fix": finding.fix,
        "source": finding.source,
    }


def _problem(problem: InputError) -> dict[str, Any]:
    where = problem.place
    return {
        "path": where.path if where else "",
        "line": where.line if where else 0,
        "column": where.column if where else 0,
        "message": problem.line(),
    }


def _said(finding: RuleFinding) -> str:
    """The message, with the place in what a trial renders to where the finding's own place is the trial."""
    name = rendered(finding.path)[1]
    return f"{name}:{finding.line}: {finding.message}" if name else finding.message


def _relative(path: str) -> str:
    """A path as code hosts want it: from the working directory where it lies below it, with forward slashes."""
    here = Path(path)
    if here.is_absolute() and here.is_relative_to(Path.cwd()):
        here = here.relative_to(Path.cwd())
    return here.as_posix()


def _uri(path: str) -> str:
    """A path as a URI reference: relative where it can be, else `file:`."""
    name = _relative(path)
    return f"file://{quote(name)}" if name.startswith("/") else quote(name)


def sarif(outcome: CheckResult, least: Severity) -> dict[str, Any]:
    """SARIF 2.1.0, as code scanning of GitHub and GitLab reads it."""
    findings = shown(outcome, least)
    used = sorted({finding.rule for finding in findings})
    rules = [
        {
            "id": name,
            "shortDescription": {"text": RULES[name].title},
            "fullDescription": {"text": RULES[name].why},
            "help": {"text": f"{RULES[name].fix}. Source: {RULES[name].source}"},
            "helpUri": f"{RULES_PAGE}#{name}",
            "defaultConfiguration": {"level": _SARIF[RULES[name].severity]},
        }
        for name in used
    ]
    results = [_result(finding, used) for finding in findings]
    notifications = [
        {"level": "error", "message": {"text": problem.line()}, "locations": _locations(problem)}
        for problem in outcome.problems
    ]
    tool = {"name": "seatrial check", "version": seatrial.__version__, "informationUri": RULES_PAGE, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": tool},
                "results": results,
                "invocations": [
                    {"executionSuccessful": not outcome.problems, "toolExecutionNotifications": notifications}
                ],
                "columnKind": "unicodeCodePoints",
            }
        ],
    }


def _result(finding: RuleFinding, used: list[str]) -> dict[str, Any]:
    where = place(finding.path, max(finding.line, 1), max(finding.column, 1))  # SARIF counts from 1
    region = {"startLine": where["line"], "startColumn": where["column"]}
    said = _said(finding)
    return {
        "ruleId": finding.rule,
        "ruleIndex": used.index(finding.rule),
        "level": _SARIF[finding.severity],
        "message": {"text": f"{said}; {finding.fix}" if finding.fix else said},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(where["path"])}, "region": region}}],
        **({"properties": {"rendered": where["rendered"]}} if "rendered" in where else {}),
    }


def _locations(problem: InputError) -> list[dict[str, Any]]:
    if problem.place is None:
        return []
    region = {"region": {"startLine": problem.place.line}} if problem.place.line else {}
    return [{"physicalLocation": {"artifactLocation": {"uri": _uri(problem.place.path)}, **region}}]


def junit(outcome: CheckResult, least: Severity, paths: Iterable[str], failing: Iterable[Severity] = ("error",)) -> str:
    """JUnit XML: one test case a file, failed by what makes the command fail; what else is listed is its output.

    Files that cannot be read are errors.
    """
    findings, fails = shown(outcome, least), set(failing)
    suite = xml.Element("testsuite", name="seatrial check")
    # A file may be unreadable, have findings, both, or none: each is one test case.
    broken = {problem.place.path if problem.place else "" for problem in outcome.problems}
    everything = sorted({*paths, *(rendered(finding.path)[0] for finding in findings), *broken})
    for path in everything:
        case = xml.SubElement(suite, "testcase", classname="seatrial.check", name=clean(path, 1000))
        for problem in outcome.problems:
            if (problem.place.path if problem.place else "") == path:
                xml.SubElement(case, "error", message=problem.line(), type="unreadable")
        here = [finding for finding in findings if rendered(finding.path)[0] == path]
        if wrong := [finding for finding in here if finding.severity in fails]:
            failure = xml.SubElement(case, "failure", message=count(len(wrong), "finding"), type=wrong[0].rule)
            failure.text = _in_file(wrong)
        if others := [finding for finding in here if finding.severity not in fails]:
            xml.SubElement(case, "system-out").text = _in_file(others)
    suite.set("tests", str(len(everything)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", str(len(broken)))
    xml.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + xml.tostring(suite, encoding="unicode")


def _in_file(findings: list[RuleFinding]) -> str:
    """Findings of one file, a line each."""
    lines = []
    for f in findings:
        name = rendered(f.path)[1]
        where = f"{name}:{f.line}:{f.column}" if name else f"{f.line}:{f.column}"
        lines.append(f"{where}: {f.severity} {f.rule}: {f.message}")
    return "\n".join(lines)


def github(outcome: CheckResult, least: Severity) -> list[str]:
    """Workflow commands that annotate a pull request."""
    lines = []
    for f in shown(outcome, least):
        at = place(f.path, f.line, f.column)
        where = (
            f"file={_property(_relative(at['path']))},line={at['line']},col={at['column']},title={_property(f.rule)}"
        )
        lines.append(f"::{_GITHUB[f.severity]} {where}::{_data(_said(f))}")
    for problem in outcome.problems:
        at_fault = problem.place
        where = f" file={_property(_relative(at_fault.path))},line={max(at_fault.line, 1)}" if at_fault else ""
        lines.append(f"::error{where}::{_data(problem.line())}")
    return lines


# A workflow command is one line: what would end it, or a property in it, is percent-encoded.
def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def text(finding: RuleFinding) -> str:
    """One line: place, severity, rule, what was seen, what is right."""
    short = finding.field.rpartition("].")[2] or finding.field  # the line says which group
    seen = f"{short}: {finding.seen}" if short else finding.seen
    said = f"{seen}; expected {finding.expected}" if finding.expected else seen
    return f"{finding.path}:{finding.line}:{finding.column}: {finding.severity} {finding.rule}: {said}"


def count(number: int, word: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def as_json(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, indent=2)
