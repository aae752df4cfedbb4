"""Findings that a file itself sets aside: annotation `seatrial.io/ignore: "rule-a, rule-b: the reason; rule-c: why"`.

On the resource it holds for all of it, on a pod template for that group. A reason is needed: whoever reads the file
next wants to know why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from seatrial.check.manifest import Manifest
from seatrial.check.rule import RULES, Hit, found_elsewhere
from seatrial.check.values import Value

ANNOTATION = "seatrial.io/ignore"


class Suppressions:
    """What the annotations of one resource set aside."""

    def __init__(self, manifest: Manifest):
        self._entries: list[tuple[tuple[str | int, ...], str, str]] = []  # below which path, which rule, why
        self._problems: list[tuple[str, Hit]] = []
        self._used: set[tuple[str | int, ...]] = set()
        self._read(manifest.root, manifest.metadata)
        if manifest.cluster:
            for group in manifest.cluster.groups:
                self._read(group.value, group.metadata)
        if manifest.submitter:
            self._read(manifest.submitter.template, manifest.submitter.metadata)

    def _read(self, scope: Value, metadata: Value) -> None:
        annotation = metadata.at("annotations", ANNOTATION)
        for entry in filter(None, (part.strip() for part in re.split(r"[;\n]", annotation.raw))):
            names, _, reason = (part.strip() for part in entry.partition(":"))
            for name in filter(None, re.split(r"[,\s]+", names)):
                if name not in RULES:
                    self._problems.append(
                        ("ignore-unknown-rule", Hit(annotation, f"{name} is no rule", "the id of a rule"))
                    )
                elif not reason:
                    hit = Hit(annotation, f"{name} without a reason", f'"{name}: why it does not matter here"')
                    self._problems.append(("ignore-without-reason", hit))
                else:
                    self._entries.append((scope.path, name, reason))

    def reason(self, rule_id: str, value: Value) -> str:
        """Why a finding at that value is set aside; empty if it is not."""
        for path, name, reason in self._entries:
            if name == rule_id and value.path[: len(path)] == path:
                return reason
        return ""

    def problems(self) -> Iterator[tuple[str, Hit]]:
        """Annotations that set nothing aside."""
        yield from self._problems


found_elsewhere(
    "ignore-unknown-rule",
    "warning",
    "manifest",
    title="seatrial.io/ignore names a rule that does not exist",
    why="A misspelt name sets nothing aside, and the finding it was meant for stays.",
    fix="use the id that the finding shows",
    source="https://github.com/seatrial/seatrial/blob/main/docs/rules.md",
)
found_elsewhere(
    "ignore-without-reason",
    "warning",
    "manifest",
    title="seatrial.io/ignore without a reason",
    why="The next reader cannot know whether it still does not matter. Without a reason nothing is set aside.",
    fix='write "rule-id: the reason"',
    source="https://github.com/seatrial/seatrial/blob/main/docs/rules.md",
)
