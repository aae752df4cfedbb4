"""What commands share about a run on a Ray cluster, and the options' names in messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from seatrial.errors import EvidenceError, InputError, InputErrors

if TYPE_CHECKING:
    from seatrial.launch.jobs_dashboard import Dashboard, SubmittedJob


@contextmanager
def options(*, of_files: bool = False, **names: str) -> Iterator[None]:
    """Names the option in an InputError about an argument: what is called knows its arguments, not how they are given.

    `names` are options by argument, as in `options(address="--on")`. An error with a place is about a key of that file
    and keeps its field, unless `of_files`: then the arguments are the files. Decorates a command, too.
    """
    try:
        yield
    except InputError as error:
        raise named(error, names, of_files) from None


def named(error: InputError, names: Mapping[str, str], of_files: bool = False) -> InputError:
    """`error` with the option as its field; see `options`."""
    if isinstance(error, InputErrors):
        return InputErrors([named(each, names, of_files) for each in error.errors])
    if error.field not in names or (error.place and not of_files):
        return error
    field = names[error.field]
    return InputError(error.seen, place=error.place, field=field, expected=error.expected, fix=error.fix)


def find_run(name: str, address: str) -> tuple[Dashboard, SubmittedJob]:
    """The dashboard and the job of a run by its name, or the beginning of one, or `last`; see `launch.jobs.attach`."""
    from seatrial.launch.jobs import attach
    from seatrial.launch.jobs_submitted import NotSubmittedHere

    try:
        return attach(name, address)
    except NotSubmittedHere as error:
        raise EvidenceError(f"{error}; give --on ADDRESS") from None
