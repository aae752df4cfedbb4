"""`--effective`: whose KubeRay counts, and that nothing is torn apart at any width."""

from __future__ import annotations

from pathlib import Path

import pytest

from seatrial.check.command import resources
from seatrial.check.effective import Effective, document, each
from seatrial.cli.effective import rows
from seatrial.errors import InputError
from seatrial.trial.loader import template
from tests.support.manifests import changed

pytestmark = pytest.mark.unit

EKS = template("eks-g6-qwen2.5-1.5b")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "new.yaml").write_text(EKS.replace('"1.6"', '"1.9"'))
    (tmp_path / "old.yaml").write_text(EKS.replace('"1.6"', '"1.5"'))
    (tmp_path / "plain.yaml").write_text(changed({}))
    return tmp_path


def test_a_trial_s_own_kuberay_counts_unless_one_is_given(folder: Path) -> None:
    def seen(kuberay: str | None) -> list[str]:
        return [one.kuberay for one in each(resources((folder,)), kuberay)]

    assert seen(None) == ["1.9", "1.5", "1.6"]
    assert seen("1.7") == ["1.7", "1.7", "1.7"]
    with pytest.raises(InputError, match=r"^kuberay: saw new; expected a version"):
        seen("new")


def test_the_version_changes_what_is_derived_and_an_unknown_one_is_said(folder: Path) -> None:
    new, old, plain = document(each(resources((folder,)), None))
    probes = [next(line["value"] for line in one["derived"] if line["name"] == "probes") for one in (new, old)]
    assert probes == ["readiness http, liveness http", "readiness wget, liveness wget"]
    assert new["notes"] == ["KubeRay 1.9 is not known here, 1.4 to 1.7 are; what is different in it may be missed"]
    assert old["notes"] == plain["notes"] == []
    assert (new["path"], new["rendered"]) == (str(folder / "new.yaml"), {"name": "rayjob.yaml"})
    assert "rendered" not in plain


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_names_numbers_and_words_are_whole_at_every_width(folder: Path, width: int) -> None:
    [one] = each(resources((folder / "old.yaml",)), None)
    assert isinstance(one, Effective)
    shown = [text for text, _ in rows(one.lines, width)]
    assert max(map(len, shown)) <= width
    words = {word for text in shown for word in text.split()}
    for line in one.lines:
        assert any(text.startswith(f"    {line.name} ") and text.endswith(f" {line.line}") for text in shown), line
        assert words >= {*line.value.split(), *line.reason.split()}
