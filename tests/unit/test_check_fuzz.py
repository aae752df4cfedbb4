"""Any value at any place of a manifest: `check` says something or nothing, and never falls over."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seatrial.check.effective import lines
from seatrial.check.manifest import Manifest, is_ray
from seatrial.check.reading import YamlDocument, documents
from seatrial.check.rule import Asked, Facts
from seatrial.check.runner import Selection, check_bytes
from seatrial.check.structure import Schema
from seatrial.check.values import Value
from tests.support.manifests import resource

pytestmark = pytest.mark.unit

SCHEMA, RULES = Schema(), Selection().rules()
FACTS = Facts("1.6", Asked(8, 1, "/fsx/runs"))
TEXT = st.sampled_from(
    ["", "0", "4", "-1", "${X}", "$(X)", "16Gi", "16GB", "true", "a:b", "a;b", "g6.12xlarge", "p9.huge", "x" * 300, "é\u2028", "latest", "K8sJobMode", "SidecarMode", "'", '"', "a@sha256:b", "1e999", "٣"]
)  # fmt: skip
SCALARS = st.one_of(
    TEXT, st.none(), st.booleans(), st.integers(-(10**30), 10**30), st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)), max_leaves=6)  # fmt: skip


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [way]
    if isinstance(value, dict):
        for key, child in value.items():
            found += places(child, (*way, key))
    elif isinstance(value, list):
        for position, child in enumerate(value):
            found += places(child, (*way, position))
    return found


BASES = {kind: resource(kind) for kind in ("RayCluster", "RayJob", "RayService")}
PLACES = [(kind, way) for kind, base in BASES.items() for way in places(base)]


def planted(kind: str, way: tuple[Any, ...], value: Any) -> Any:
    document = copy.deepcopy(BASES[kind])
    if not way:
        return value
    parent: Any = document
    for part in way[:-1]:
        parent = parent[part]
    parent[way[-1]] = value
    return document


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(PLACES), VALUES, st.sampled_from(PLACES), VALUES)
def test_any_value_at_any_path(first: Any, one: Any, second: Any, other: Any) -> None:
    document = planted(*first, one)
    if first[0] == second[0] and isinstance(document, dict):
        try:
            parent: Any = document
            for part in second[1][:-1]:
                parent = parent[part]
            parent[second[1][-1]] = other
        except (LookupError, TypeError):
            pass
    raw = json.dumps(document).encode()
    outcome = check_bytes(raw, "m.yaml", FACTS, RULES, SCHEMA)
    assert all("\n" not in finding.message for finding in outcome.findings)
    for item in documents(raw, "m.yaml"):
        if isinstance(item, YamlDocument) and item.root and is_ray(root := Value.of(item.root, "m.yaml")):
            assert list(lines(Manifest(root), "1.6"))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([place for place in PLACES if place[1]]))
def test_a_placeholder_never_makes_an_error(place: tuple[str, tuple[Any, ...]]) -> None:
    """At a leaf, a placeholder can only take findings away or leave them untold."""
    kind, way = place
    parent: Any = BASES[kind]
    for part in way:
        parent = parent[part]
    if isinstance(parent, (dict, list)) or way[-1] in ("apiVersion", "kind"):
        return
    before = check_bytes(json.dumps(BASES[kind]).encode(), "m", FACTS, RULES, SCHEMA)
    after = check_bytes(json.dumps(planted(kind, way, "${LATER}")).encode(), "m", FACTS, RULES, SCHEMA)
    errors = {finding.rule for finding in after.findings if finding.severity == "error"}
    assert errors <= {finding.rule for finding in before.findings if finding.severity == "error"}
