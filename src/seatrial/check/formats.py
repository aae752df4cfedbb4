"""How an outcome is written: text, json, sarif, junit, github."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any
from xml.etree import ElementTree as xml

import seatrial
from seatrial.check.rule import RULES, SEVERITIES, Severity
from seatrial.check.runner import Finding, Outcome
from seatrial.errors import InputError

FORMATS = ("text", "json", "sarif", "junit", "github")
_SARIF = {"error": "error", "warning": "warning", "info": "note"}
_GITHUB = {"error": "error", "warning": "warning", "info": "notice"}
RULES_PAGE = "https://github.com/seatrial/seatrial/blob/main/docs/rules.md"


def shown(outcome: Outcome, least: Severity) -> list[Finding]:
    """The findings that count: not set aside, and of at least that severity."""
    kept = SEVERITIES[: SEVERITIES.index(least) + 1]
    return [finding for finding in outcome.findings if not finding.suppressed and finding.severity in kept]


def summary(outcome: Outcome, findings: list[Finding], notes: tuple[str, ...]) -> dict[str, Any]:
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


def document(outcome: Outcome, least: Severity, notes: tuple[str, ...] = ()) -> dict[str, Any]:
    """The outcome as one JSON document."""
    findings = shown(outcome, least)
    return {
        "findings": [_finding(finding) for finding in findings],
        "suppressed": [{**_finding(f), "reason": f.suppressed} for f in outcome.findings if f.suppressed],
        "cannot_tell": [
            {"path": u.path, "line": u.line, "column": u.column, "rule": u.rule, "reason": u.reason}
            for u in outcome.cannot_tell
        ],
        "problems": [_problem(problem) for problem in outcome.problems],
        "summary": summary(outcome, findings, notes),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "path": finding.path,
        "line": finding.line,
        "column": finding.column,
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
    place = problem.place
    return {
        "path": place.path if place else "",
        "line": place.line if place else 0,
        "column": place.column if place else 0,
        "message": problem.line(),
    }


def sarif(outcome: Outcome, least: Severity) -> dict[str, Any]:
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
    results = [
        {
            "ruleId": f.rule,
            "ruleIndex": used.index(f.rule),
            "level": _SARIF[f.severity],
            "message": {"text": f"{f.message}; {f.fix}" if f.fix else f.message},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": f.path},
                        "region": {"startLine": max(f.line, 1), "startColumn": max(f.column, 1)},
                    }
                }
            ],
        }
        for f in findings
    ]
    notifications = [
        {
            "level": "error",
            "message": {"text": problem.line()},
            "locations": [
                {"physicalLocation": {"artifactLocation": {"uri": problem.place.path if problem.place else ""}}}
            ],
        }
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


def junit(outcome: Outcome, least: Severity, paths: Iterable[str]) -> str:
    """JUnit XML: one test case a file, failed by errors and warnings that are listed; unreadable files are errors."""
    findings = shown(outcome, least)
    suite = xml.Element("testsuite", name="seatrial check")
    broken = {problem.place.path if problem.place else "" for problem in outcome.problems}
    everything = sorted({*paths, *(finding.path for finding in findings), *broken})
    for path in everything:
        case = xml.SubElement(suite, "testcase", classname="seatrial.check", name=path)
        for problem in outcome.problems:
            if (problem.place.path if problem.place else "") == path:
                xml.SubElement(case, "error", message=problem.line(), type="unreadable")
        here = [finding for finding in findings if finding.path == path]
        if here:
            failure = xml.SubElement(case, "failure", message=f"{len(here)} findings", type=here[0].rule)
            failure.text = "\n".join(f"{f.line}:{f.column}: {f.severity} {f.rule}: {f.message}" for f in here)
    suite.set("tests", str(len(everything)))
    suite.set("failures", str(len({finding.path for finding in findings})))
    suite.set("errors", str(len(broken)))
    xml.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + xml.tostring(suite, encoding="unicode")


def github(outcome: Outcome, least: Severity) -> list[str]:
    """Workflow commands that annotate a pull request."""
    lines = []
    for f in shown(outcome, least):
        where = f"file={_property(f.path)},line={f.line},col={f.column},title={_property(f.rule)}"
        lines.append(f"::{_GITHUB[f.severity]} {where}::{_data(f.message)}")
    for problem in outcome.problems:
        place = problem.place
        where = f" file={_property(place.path)},line={max(place.line, 1)}" if place else ""
        lines.append(f"::error{where}::{_data(problem.line())}")
    return lines


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def text(finding: Finding) -> str:
    """One line: place, severity, rule, what was seen, what is right."""
    short = finding.field.rpartition("].")[2] or finding.field  # the line says which group
    seen = f"{short}: {finding.seen}" if short else finding.seen
    said = f"{seen}; expected {finding.expected}" if finding.expected else seen
    return f"{finding.path}:{finding.line}:{finding.column}: {finding.severity} {finding.rule}: {said}"


def closing(outcome: Outcome, findings: list[Finding], least: Severity) -> str:
    """The last line of the text form."""
    counts = summary(outcome, findings, ())
    parts = [_count(counts["errors"], "error"), _count(counts["warnings"], "warning")]
    hidden = counts["infos"] + (counts["warnings"] if least == "error" else 0)
    if least == "info":
        parts.append(_count(counts["infos"], "note"))
    elif hidden:
        parts.append(f"{hidden} not listed (--min-severity info)")
    for key, words in (("suppressed", "set aside in the file"), ("cannot_tell", "cannot tell (--verbose)")):
        if counts[key]:
            parts.append(f"{counts[key]} {words}")
    if counts["unreadable"]:
        parts.append(f"{counts['unreadable']} unreadable")
    return f"{_count(counts['resources'], 'resource')} checked: {', '.join(parts)}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def as_json(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, indent=2)
