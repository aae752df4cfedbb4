"""The record as a typed document; `seatrial schema record` prints it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA = "seatrial.record/1"
Digest = str


class Document(BaseModel):
    """A part of the record."""

    model_config = ConfigDict(extra="forbid")


class FactDocument(Document):
    """One observed value with its witness; `value` is there exactly if `state` is `value`."""

    id: str
    state: Literal["value", "not-applicable", "unknown", "error"]
    value: Any = None
    unit: str = ""
    witness: str = ""
    reason: str = ""


class VerdictDocument(Document):
    """What became of one claim; `evidence` names the facts that were looked at."""

    claim: str
    verdict: Literal["supported", "refuted", "not-established"]
    reason: str
    asked: dict[str, Any]
    seen: str
    evidence: list[str]


class FaultDocument(Document):
    """An error of seatrial's own while it made the facts of a kind or judged a claim: where, and what."""

    about: str
    where: str
    error: str


class ArtifactDocument(Document):
    """A file of the run, relative to the run directory."""

    path: str
    size: int
    sha256: Digest


class RecordDocument(Document):
    """The sealed account of one run."""

    schema_: Literal["seatrial.record/1"] = Field(alias="schema")
    run: str
    sealed: str
    seatrial: str
    python: str
    cites: Digest | None
    trial: dict[str, Any]
    claims: list[dict[str, Any]]
    void: str | None
    ended_early: str | None
    exit_code: int
    verdicts: list[VerdictDocument]
    evidence: dict[str, dict[str, FactDocument]]
    artifacts: list[ArtifactDocument]
    faults: list[FaultDocument] = Field(default_factory=list)
    observed: bool = False  # a job that was looked at while it ran: nothing in it was run for this record
