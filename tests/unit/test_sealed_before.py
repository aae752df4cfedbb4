"""Records sealed by an earlier version verify, and are judged to the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from seatrial.canon import canonical, parse, plain
from seatrial.evidence import judge, read_evidence
from seatrial.record import read_record, verify
from tests.support.sealed import NAMES, unpacked

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("name", NAMES)
def test_a_record_sealed_before_verifies_and_is_judged_the_same(name: str, tmp_path: Path) -> None:
    root = unpacked(name, tmp_path)
    record, _ = read_record(root / "record.json")
    assert verify(root / "record.json", deep=True).problems == []
    run, evidence = read_evidence(root)
    judgement = judge(run.claims, evidence)
    assert judgement.faults == ()
    assert canonical(plain([verdict.json() for verdict in judgement])) == canonical(record["verdicts"])
    assert parse(canonical(plain(evidence.json()))) == record["evidence"]


@pytest.mark.parametrize("name", NAMES)
def test_every_fact_is_read_back_by_its_type(name: str, tmp_path: Path) -> None:
    """What a record holds is of the shape that the registry says, and written again it is the same."""
    run, evidence = read_evidence(unpacked(name, tmp_path))
    every = [fact for facts in evidence.facts.values() for fact in facts.values()]
    known = [fact for fact in every if fact.known]
    assert len(known) > 5
    assert [fact.id for fact in every if run.kind not in fact.type.kinds] == []
    for fact in known:
        value = parse(canonical(plain(fact.json()["value"])))
        again = fact.type.seen(fact.type.read(value), "").json()["value"]
        assert parse(canonical(plain(again))) == value, fact.id
