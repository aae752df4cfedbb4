"""What commands share about a run on a Ray cluster, and the options' names in messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from seatrial.errors import EvidenceError, InputError, InputErrors

if TYPE_CHECKING:
    from seatrial.launch.jobs_dashboard import Dashboard, Job


@contextmanager
def options(**names: str) -> Iterator[None]:
    """Names the option in an InputError about an argument: what is called knows its arguments, not how they are given.

    `names` are options by argument, as in `options(address="--on")`. Decorates a command, too.
    """
    try:
        yield
    except InputError as error:
        raise _named(error, names) from None


def _named(error: InputError, names: Mapping[str, str]) -> InputError:
    if isinstance(error, InputErrors):
        return InputErrors([_named(each, names) for each in error.errors])
    if error.field not in names:
        return error
    field = names[error.field]
    return InputError(error.seen, place=error.place, field=field, expected=error.expected, fix=error.fix)


def find_run(name: str, address: str) -> tuple[Dashboard, Job]:
    """The dashboard and the job of a run by its name, or the beginning of one, or `last`; see `launch.jobs.attach`."""
    from seatrial.launch.jobs import attach
    from seatrial.launch.jobs_submitted import NotSubmittedHere

    try:
        return attach(name, address)
    except NotSubmittedHere as error:
        raise EvidenceError(f"{error}; give --on ADDRESS") from None
