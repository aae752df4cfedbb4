"""What `check` says about real manifests that nobody here wrote, reviewed one by one.

`tests/golden/manifests.yaml` has, for each file, every error and warning with its line and the reason why a reader would
agree, and how often each rule could not tell: "cannot tell" must not take the place of a rule. After a change that is
right, `python tests/golden/manifests.py` writes it anew and keeps the reasons; new ones need a reason by hand.
"""

from __future__ import annotations

import pytest
import yaml

from tests.golden.manifests import GOLDEN, MANIFESTS, seen

pytestmark = pytest.mark.unit

EXPECTED = yaml.safe_load(GOLDEN.read_text())


def test_every_error_and_warning_has_a_reason() -> None:
    without = [
        f"{name}: {finding['rule']}"
        for name, entry in EXPECTED.items()
        for finding in entry["findings"]
        if len(str(finding.get("why", ""))) < 20
    ]
    assert without == []


@pytest.mark.skipif(not MANIFESTS.is_dir(), reason="the real manifests are not part of a clone")
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_real_manifests(name: str) -> None:
    expected = EXPECTED[name]
    for finding in expected["findings"]:
        finding.pop("why", None)
    assert seen(MANIFESTS / name) == expected


@pytest.mark.skipif(not MANIFESTS.is_dir(), reason="the real manifests are not part of a clone")
def test_all_real_manifests_are_reviewed() -> None:
    assert sorted(EXPECTED) == sorted(path.name for path in MANIFESTS.glob("*.yaml"))
