"""The paths as text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from seatrial.cli.output import PLAIN_WIDTH

QUESTIONS = {"internode": "between hosts", "gpudirect": "GPUDirect RDMA", "intranode": "inside a host"}
UNSEEN = "a rank that was not seen"
MOST_HOSTS = 12  # a matrix of more does not fit a terminal


def lines(document: dict[str, Any], expect: str, ranks: int) -> Iterator[str]:
    """The findings first, then the facts behind them."""
    for finding in document["findings"]:
        yield from _finding(finding, expect)
    yield ""
    yield _seen(document, ranks)
    for name, versions in document["versions"].items():
        if len(versions) > 1:
            said = "; ".join(f"{version} on {', '.join(who)}" for version, who in versions.items())
            yield f"{name} differs: {said}"
    if document["communicators"]:
        yield ""
        yield from _communicators(document["communicators"])
    if document["paths"]:
        yield ""
        yield from matrix(document)
    for test in document["connectivity"]:
        yield ""
        yield from _wrapped(_tested(test), "")
    if document["troubles"]:
        yield ""
        for trouble in document["troubles"]:
            yield from _wrapped(f"{trouble['line']}", "")
            yield from _wrapped(trouble["meaning"], "    ")


def _finding(finding: dict[str, Any], expect: str) -> Iterator[str]:
    what, word = QUESTIONS[finding["question"]], finding["finding"]
    if word == "refuted":
        yield from _wrapped(f"{what}: refuted: {finding['reason']}", "")
    else:
        value = finding["value"] or "unknown"
        yield from _wrapped(f"{what}: {value}, {word}" + (f" ({finding['reason']})" if finding["reason"] else ""), "")
    if word == "refuted" or (expect and finding["question"] == "internode"):
        for line in finding["lines"]:
            yield f"    {line}"


def _seen(document: dict[str, Any], ranks: int) -> str:
    versions = [f"{name} {next(iter(v))}" for name, v in document["versions"].items() if len(v) == 1]
    seen = f"{_count(document['processes'], 'process', 'es')} on {_count(len(document['hosts']), 'host')}"
    known = "" if ranks else "; only these were seen, --ranks says how many there should be"
    torn = document["not_evidence"]["torn_lines"]
    return ", ".join([seen, *versions, *([_count(torn, "torn line")] if torn else [])]) + known


def _tested(test: dict[str, Any]) -> str:
    what = f"{test['collective'] or 'nccl-tests'}, {test['ranks']} ranks on {len(test['hosts'])} hosts"
    largest, busbw, _ = max(test["rows"])
    wrong = f", {test['wrong']} wrong values" if test["wrong"] else ""
    return f"{test['file']}: {what}: busbw {busbw:g} GB/s at {largest} bytes{wrong}; the network's rate, not this job's"


def _count(number: int, what: str, several: str = "s") -> str:
    return f"{number} {what}{'' if number == 1 else several}"


def _communicators(communicators: list[dict[str, Any]], most: int = 10) -> Iterator[str]:
    for c in communicators[:most]:
        network = f", network {' and '.join(c['network'])}" if c["network"] else ""
        missing = f", {c['ranks'] - c['seen']} ranks not seen" if c["seen"] < c["ranks"] else ""
        yield f"communicator {c['name']}: {c['ranks']} ranks on {c['nodes']} nodes{network}{missing}"
    if len(communicators) > most:
        yield f"and {len(communicators) - most} more communicators"


def matrix(document: dict[str, Any]) -> Iterator[str]:
    """The paths from host (row) to host (column). More hosts than fit are summed up by path."""
    hosts = document["hosts"]
    cells = {(p["from"], p["to"]): p["paths"] for p in document["paths"]}
    if len(hosts) > MOST_HOSTS:
        yield from _summed(cells)
        return
    names = {host: str(number) for number, host in enumerate(hosts)}
    kinds = sorted({path for paths in cells.values() for path in paths})
    letters = {kind: chr(ord("A") + number % 26) for number, kind in enumerate(kinds)}
    for host, number in names.items():
        yield f"{number:>3}  {host}"
    yield "     " + " ".join(f"{names[h]:>3}" for h in hosts) + "   from row to column"
    for row in hosts:
        shown = ["".join(letters[k] for k in cells.get((row, column), {})) or "." for column in hosts]
        yield f"{names[row]:>3}  " + " ".join(f"{cell:>3}" for cell in shown)
    yield "  ".join(f"{letter} {kind}" for kind, letter in letters.items())
    for (source, target), paths in cells.items():
        if source is None or target is None:
            yield f"{source or UNSEEN} -> {target or UNSEEN}: {', '.join(paths)}"


def _summed(cells: dict[tuple[str | None, str | None], dict[str, int]]) -> Iterator[str]:
    between: dict[str, int] = {}
    inside: dict[str, int] = {}
    for (source, target), paths in cells.items():
        for path in paths:
            where = inside if source == target else between
            where[path] = where.get(path, 0) + 1
    for words, counts in (("between hosts", between), ("inside hosts", inside)):
        for path, pairs in sorted(counts.items(), key=lambda item: -item[1]):
            yield f"{path}: {pairs} pairs {words}"


def _wrapped(text: str, indent: str) -> Iterator[str]:
    yield from textwrap.wrap(
        text, PLAIN_WIDTH, initial_indent=indent, subsequent_indent=indent + "    ", break_long_words=False
    )
