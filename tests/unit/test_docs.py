"""The pages that are written from the registries say what the registries say."""

from __future__ import annotations

import pytest
from tools.facts_docs import PAGES, ROOT, written

from seatrial.evidence.facts import FACTS, FAMILIES
from seatrial.evidence.facts.reasons import GROUPS, MEANINGS, Reason, meaning
from seatrial.trial.claims import KINDS

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_the_tables_of_the_registries(page: str) -> None:
    text = (ROOT / page).read_text()
    assert "<!-- end -->" in text
    assert written(text) == text, "run `make docs`"


def test_another_table_is_seen() -> None:
    text = (ROOT / "docs/evidence.md").read_text()
    assert written(text.replace("`execution.status`", "`execution.state`")) == text
    assert written(text.replace("witnesses disagree", "witnesses differ")) == text


def test_every_fact_and_every_reason_stands_in_the_docs() -> None:
    text = (ROOT / "docs/evidence.md").read_text()
    names = [name for name in {**FACTS, **FAMILIES} if not name.endswith(".error")]
    assert len(names) > 60
    assert [name for name in names if f"`{name}`" not in text] == []
    assert [reason for reason in Reason if f"| `{reason}` |" not in text] == []


def test_every_kind_of_evidence_has_facts_and_an_error() -> None:
    assert {type.kind for type in FACTS.values()} == set(KINDS)
    assert {f"{kind}.error" for kind in KINDS} <= set(FACTS)


def test_every_reason_has_one_meaning() -> None:
    assert {*MEANINGS} == {*Reason}
    assert sum(map(len, GROUPS.values())) == len(Reason)
    assert all(meaning(reason) == reason.meaning for reason in Reason)
    assert meaning("a word of tomorrow") == ""
