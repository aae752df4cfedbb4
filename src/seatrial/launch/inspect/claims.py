"""The claims that a job is judged by: from a file with `claims:` as in a trial, or from a whole trial."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from seatrial.errors import InputError, InputErrors, shown
from seatrial.trial.base import Section
from seatrial.trial.claims import Claim
from seatrial.trial.loader import explain, load
from seatrial.trial.source import parse, read


class _File(Section):
    claims: tuple[Claim, ...] = Field(min_length=1)


def read_claims(path: Path) -> tuple[list[dict[str, Any]], str | None]:
    """The resolved claims, and the image of a whole trial. Raises InputError with a line for each mistake."""
    source = parse(read(path), str(path))
    if not isinstance(source.data, dict):
        raise InputError(f"saw {shown(source.data)}", place=source.place(()), expected="a map with `claims`")
    if "workload" in source.data:
        trial = load(path).trial
        return [claim.resolved() for claim in trial.claims], trial.image
    try:
        file = _File.model_validate_json(json.dumps(source.data))
    except ValidationError as error:
        raise InputErrors(explain(source, error.errors(include_url=False))) from None
    return [claim.resolved() for claim in file.claims], None
