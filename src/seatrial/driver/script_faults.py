"""Known errors of scripts and what to do about each: a table of patterns, searched in the script's output."""

from __future__ import annotations

import re
from collections.abc import Sequence

# (a pattern in the output, what to do). The first match counts.
_ADVICE: tuple[tuple[str, str], ...] = (
    (
        r"When connecting to an existing cluster, \w+.* must not be provided",
        "its ray.init asks for resources as if it started a Ray, but under seatrial Ray runs already: call ray.init()"
        " without arguments, or not at all",
    ),
    (
        r"Failed to merge the Job's runtime env",
        "its ray.init has a runtime_env that contradicts the trial's runtimeEnv: leave one of them out",
    ),
    (
        r"Maybe you called ray\.init twice",
        "call ray.init once, or with ignore_reinit_error=True",
    ),
    (
        r"AuthenticationError|Unauthenticated|invalid auth token|requires? (an )?auth(entication)? token",
        "Ray needs a token: give RAY_AUTH_TOKEN or a token file to the script too",
    ),
    (
        r"No module named 'seatrial'",
        "the script's interpreter does not find seatrial: do not replace PYTHONPATH in workload.env or in ray.init",
    ),
    (
        r"No module named '",
        "a package of the script is not in the image: runtimeEnv.pip adds it",
    ),
)
_WORKER = re.compile(r"^\(\w+ pid=\d+(, ip=[\w.:]+)?\) ")  # the prefix of a worker's line
_NOISE = re.compile(r"^\s*$|^\s+|^[─━╭╰│=*-]{3,}|^(INFO|WARNING|DEBUG)\b|^\d{4}-\d\d-\d\d .*\b(INFO|WARNING)\b")
_ERROR = re.compile(r"^[\w.]*(Error|Exception|Interrupt|Exit|Failed\w*)\b.*")
_LONGEST = 400


def advice(tail: Sequence[str]) -> str:
    """What to do about the first known error in the output; empty if there is none."""
    text = "\n".join(tail)
    return next((what for pattern, what in _ADVICE if re.search(pattern, text)), "")


def last_line(tail: Sequence[str]) -> str:
    """The script's last line that names an error, else the workers' last one, else the last line that is no noise."""
    own = [line.rstrip() for line in tail if not _WORKER.match(line)]
    workers = [_WORKER.sub("", line).rstrip() for line in tail if _WORKER.match(line)]
    errors = [line for line in (*workers, *own) if _ERROR.match(line)]
    spoken = [line for line in (*workers, *own) if not _NOISE.match(line)]
    said = next(iter((errors or spoken)[-1:]), "").strip()
    return re.sub(r"^seatrial\.errors\.\w+: ", "", said)[:_LONGEST]
