"""The exception tree; each class carries the exit code of a command that ends with it.

SeatrialError                 70  a bug in seatrial, unless a subclass says otherwise
├── InputError                 2  the user's input is wrong: place, seen, expected, what to do
├── EvidenceError              2  a record or run directory cannot be read
└── RunError                   4  the run ended early, or could not start
    ├── TimedOut               4  a limit of `workload.timeout` passed
    └── Interrupted            4  Ctrl-C or SIGTERM
"""

from __future__ import annotations

from dataclasses import dataclass

EXIT_OK = 0
EXIT_REFUTED = 1
EXIT_INPUT = 2
EXIT_NOT_ESTABLISHED = 3
EXIT_ENDED_EARLY = 4
EXIT_INTERNAL = 70


class SeatrialError(Exception):
    """Base of every error that seatrial raises on purpose."""

    exit_code = EXIT_INTERNAL


@dataclass(frozen=True)
class Place:
    """A place in the user's input. `line` and `column` count from 1; 0 means unknown."""

    path: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}" if self.line else self.path


class InputError(SeatrialError):
    """One mistake in the user's input, told in one line."""

    exit_code = EXIT_INPUT

    def __init__(self, seen: str, *, place: Place | None = None, field: str = "", expected: str = "", fix: str = ""):
        self.seen, self.place, self.field, self.expected, self.fix = seen, place, field, expected, fix
        super().__init__(self.line())

    def line(self) -> str:
        """`place: field: seen; expected …; fix`, without the parts that are unknown."""
        head = "".join(f"{part}: " for part in (str(self.place) if self.place else "", self.field) if part)
        tail = "; ".join(part for part in (self.seen, self.expected and f"expected {self.expected}", self.fix) if part)
        return head + tail


class InputErrors(InputError):
    """Several mistakes in the user's input, one line each."""

    def __init__(self, errors: list[InputError]):
        self.errors = errors
        super().__init__("\n".join(e.line() for e in errors))

    def line(self) -> str:
        return "\n".join(e.line() for e in self.errors)


class EvidenceError(SeatrialError):
    """A run directory, record or event file cannot be read, or does not hold what it must."""

    exit_code = EXIT_INPUT


class RunError(SeatrialError):
    """The run ended early, or could not start. The record holds what was seen until then."""

    exit_code = EXIT_ENDED_EARLY


class TimedOut(RunError):
    """A limit of `workload.timeout` passed without progress."""


class Interrupted(RunError):
    """The user or the cluster asked the run to stop."""


def shown(value: object) -> str:
    """A wrong value in one line: text and numbers verbatim, any other value by its kind."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a map" if value else "an empty map"
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    if isinstance(value, bool):
        return "true" if value else "false"
    return clean(f'"{value}"' if isinstance(value, str) else f"{value}")


def clean(text: str, limit: int = 80) -> str:
    """`text` in one printable line of bounded length."""
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: limit + 1])
    return line if len(line) <= limit else f"{line[:limit]}…"
