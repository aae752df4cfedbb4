"""Rows of a source, and a count of those that cannot be used."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from seatrial.canon import printable
from seatrial.errors import RunError, clean

NAMED = 8  # bad rows that are named; the others are counted

NOT_JSON, NO_FIELD, WRONG_TYPE, EMPTY, NOT_UTF8 = "not JSON", "no such field", "wrong type", "empty", "not UTF-8"
NO_ANSWER, REFUSED, TOO_LONG = "no answer", "refused by the template", "no answer within sequence_length"
REWRITTEN = "earlier turns are rendered differently once more turns follow"


@dataclass(frozen=True)
class Row:
    """One row: text as UTF-8 bytes or a list of messages, or the kind of its problem.

    `place` is where a person finds it (`file:line`); with `more`, the next row continues this document.
    """

    place: str
    value: Any = None
    problem: str = ""
    detail: str = ""
    more: bool = False


@dataclass
class BadRows:
    """How many rows of which kind were left out; the first few by name."""

    limit: int
    counts: dict[str, int] = field(default_factory=dict)
    named: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def add(self, row: Row, problem: str, detail: str = "") -> None:
        """Counts a row; the first few are named."""
        self.counts[problem] = self.counts.get(problem, 0) + 1
        if len(self.named) < NAMED:
            self.named.append(printable(f"{row.place}: {problem}{f' ({clean(detail)})' if detail else ''}"))

    @property
    def exceeded(self) -> bool:
        return self.total > self.limit

    def refuse(self) -> None:
        """Raises RunError if there are more than the trial allows: kinds, first places, and what to write."""
        if not self.exceeded:
            return
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.counts.items()))
        more = f" and {self.total - len(self.named)} more" if self.total > len(self.named) else ""
        raise RunError(
            f"workload.data: {self.total} bad rows, expected at most max_bad_rows = {self.limit}: {kinds};"
            f" {'; '.join(self.named)}{more}; mend them, or set workload.data.max_bad_rows: {self.total}"
        )
