"""`seatrial image` on trial files and references, against a real registry: what it prints, writes and leaves alone."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from seatrial.cli.main import main
from seatrial.errors import InputError
from seatrial.image.pin import write
from tests.support.registry import PASSWORD, Pushed, Registry, login
from tests.support.trials import TINY

pytestmark = pytest.mark.registry

LABELS = {"framework_version": "2.13.0"}


@pytest.fixture(scope="module")
def ray(registry: Registry) -> Pushed:
    """`team/ray:v1`: an index over two platforms."""
    amd = registry.image("team/ray", labels=LABELS)
    arm = registry.image("team/ray", architecture="arm64", labels=LABELS)
    return registry.index("team/ray", "v1", [amd, arm])


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["image", *arguments])
    return int(ended.value.code or 0)


def failed(capsys: Any, *arguments: str, code: int = 2) -> str:
    assert call(*arguments) == code
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1), err
    return str(err).strip()


def trial(path: Path, image: str, ending: str = "\n") -> bytes:
    """A trial file with comments; `image` is the text of its line from the key on."""
    document = yaml.safe_dump(TINY, sort_keys=False, default_flow_style=None, width=1000)
    raw = f"# a trial — with é\n{image}\n\n# the rest\n{document}# end".replace("\n", ending).encode()
    path.write_bytes(raw)
    return raw


FORMS = {
    "plain": "image: {ref}",
    "comment": "image:   {ref}   # the published one",
    "single": "image: '{ref}'  # it's",
    "double": 'image: "{ref}"',
    "quoted-key": '"image" : "{ref}"',
    "next-line": "image:\n  # on its own line\n  {ref}",
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("ending", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_write_changes_the_image_and_no_other_byte(
    registry: Registry, ray: Pushed, in_tmp: Path, capsys: Any, form: str, ending: str
) -> None:
    path, ref = in_tmp / "t.yaml", f"{registry.host}/team/ray:v1"
    before = trial(path, form.format(ref=ref), ending)
    path.chmod(0o640)
    assert call("resolve", "t.yaml", "--write") == 0
    assert f"t.yaml: wrote image: {ref}@{ray.digest}" in capsys.readouterr().out
    assert path.read_bytes() == before.replace(ref.encode(), f"{ref}@{ray.digest}".encode())
    assert path.stat().st_mode & 0o777 == 0o640
    assert call("resolve", "t.yaml", "--write") == 0
    assert "t.yaml: unchanged: the reference names the digest that is pinned" in capsys.readouterr().out
    assert os.listdir() == ["t.yaml"]


def test_a_byte_order_mark_a_link_and_a_missing_tag(registry: Registry, in_tmp: Path) -> None:
    pushed = registry.image("team/default", "latest")
    ref = f"{registry.host}/team/default"
    before = trial(in_tmp / "real.yaml", f"image: {ref}")
    (in_tmp / "real.yaml").write_bytes(b"\xef\xbb\xbf" + before.partition(b"\n")[2])
    (in_tmp / "t.yaml").symlink_to("real.yaml")
    assert call("resolve", "t.yaml", "--write") == 0
    assert (in_tmp / "t.yaml").is_symlink()
    assert (in_tmp / "t.yaml").read_bytes().startswith(f"\ufeffimage: {ref}:latest@{pushed.digest}\n".encode())


def test_without_write_nothing_is_written(registry: Registry, ray: Pushed, in_tmp: Path, capsys: Any) -> None:
    before = trial(in_tmp / "t.yaml", f"image: {registry.host}/team/ray:v1")
    assert call("resolve", "t.yaml") == 0
    out = capsys.readouterr().out
    assert f"  index        {ray.digest}\n" in out
    assert "  linux/arm64  sha256:" in out
    assert "  label        framework_version=2.13.0\n" in out
    assert f"  pin          {registry.host}/team/ray:v1@{ray.digest}\n" in out
    assert out.endswith("t.yaml: not pinned\n")
    assert (in_tmp / "t.yaml").read_bytes() == before


def test_a_tag_that_moved(registry: Registry, in_tmp: Path, capsys: Any) -> None:
    old = registry.image("team/moving", "v1", labels={"build": "1"})
    ref = f"{registry.host}/team/moving:v1"
    before = trial(in_tmp / "t.yaml", f"image: {ref}@{old.digest} # pinned")
    new = registry.image("team/moving", "v1", labels={"build": "2"})
    for more in ([], ["--write"]):
        assert call("resolve", "t.yaml", *more) == 1
        assert (
            f"t.yaml: the tag moved: {old.digest} is pinned, but the tag names {new.digest} now"
            in capsys.readouterr().out
        )
        assert (in_tmp / "t.yaml").read_bytes() == before
    assert call("resolve", f"{ref}@{old.digest}") == 1
    assert call("resolve", f"{registry.host}/team/moving@{old.digest}") == 0  # without a tag nothing can move
    assert call("resolve", "t.yaml", "--write", "--update") == 0
    assert (in_tmp / "t.yaml").read_bytes() == before.replace(old.digest.encode(), new.digest.encode())


def test_pinned_to_one_platform_is_not_moved(registry: Registry, ray: Pushed, in_tmp: Path, capsys: Any) -> None:
    amd = registry.image("team/ray", labels=LABELS)
    before = trial(in_tmp / "t.yaml", f"image: {registry.host}/team/ray:v1@{amd.digest}")
    assert call("resolve", "t.yaml", "--write", "--update") == 0
    assert (
        "t.yaml: unchanged: pinned to the linux/amd64 manifest of the index that the tag names"
        in capsys.readouterr().out
    )
    assert (in_tmp / "t.yaml").read_bytes() == before


def test_json(registry: Registry, ray: Pushed, in_tmp: Path, capsys: Any) -> None:
    ref = f"{registry.host}/team/ray:v1"
    assert call("resolve", ref, "--platform", "linux/amd64", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document.pop("platforms")[0]["platform"] == "linux/amd64"
    assert document == {
        "reference": ref, "digest": ray.digest, "media_type": "application/vnd.oci.image.index.v1+json",
        "labels": LABELS, "labels_of": "linux/amd64", "state": "unpinned", "pin": f"{ref}@{ray.digest}",
        "trial": None, "wrote": False,
    }  # fmt: skip
    assert call("same", ref, ray.digest, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "a": ref,
        "b": ray.digest,
        "kind": "same",
        "why": f"both are {ray.digest}",
    }


def test_same(registry: Registry, ray: Pushed, capsys: Any) -> None:
    amd = registry.image("mirror/ray-amd", "v1", labels=LABELS)
    registry.image("mirror/other", "v1")
    ref, part, other = (f"{registry.host}/{name}:v1" for name in ("team/ray", "mirror/ray-amd", "mirror/other"))
    assert call("same", ref, f"{registry.host}/team/ray@{ray.digest}") == 0
    assert call("same", ref, part) == 1
    assert f"contains: {amd.digest} is the linux/amd64 manifest of the index {ray.digest}" in capsys.readouterr().out
    assert call("same", ref, part, "--platform", "linux/amd64") == 0
    assert call("same", ref, other) == 1
    assert f"different: {ray.digest} is not sha256:" in capsys.readouterr().out


def test_mistakes_are_one_line(registry: Registry, ray: Pushed, in_tmp: Path, capsys: Any) -> None:
    ref = f"{registry.host}/team/ray:v1"
    (in_tmp / "folder").mkdir()
    assert failed(capsys, "resolve", "folder", "--write") == "seatrial: folder: is a folder; expected a YAML file"
    assert (
        failed(capsys, "resolve", ref, "--write") == f"seatrial: --write: saw {ref}; expected a trial file to write to"
    )
    assert "no.yaml: cannot be read: No such file" in failed(capsys, "resolve", "no.yaml")
    assert "--update: saw --update alone; expected --update together" in failed(capsys, "resolve", "t.yaml", "--update")
    trial(in_tmp / "t.yaml", "")
    assert "t.yaml:5:1: image: missing; expected the image" in failed(capsys, "resolve", "t.yaml")
    trial(in_tmp / "t.yaml", "image: Team/Ray")
    line = failed(capsys, "resolve", "t.yaml")
    assert line.startswith(
        'seatrial: t.yaml:2:8: image: saw name part "Ray" in "Team/Ray"; expected lower-case letters'
    )
    assert 'saw digest "sha256:1"' in failed(capsys, "resolve", f"{ref}@sha256:1")
    trial(in_tmp / "t.yaml", f"image: {registry.host}/team/ray:v2")
    assert "has no team/ray:v2 (MANIFEST_UNKNOWN)" in failed(capsys, "resolve", "t.yaml", "--write")
    assert "saw linux/s390x; expected one that" in failed(capsys, "resolve", ref, "--platform", "linux/s390x")
    assert "cannot reach the registry localhost:1: " in failed(capsys, "resolve", "localhost:1/x", code=4)


@pytest.mark.parametrize(
    "form", ["image: &here {ref}", 'image: "{ref}\\u0031"', "image: >-\n  {ref}"], ids=["anchor", "escape", "block"]
)
def test_a_form_that_is_not_rewritten(registry: Registry, ray: Pushed, in_tmp: Path, capsys: Any, form: str) -> None:
    before = trial(in_tmp / "t.yaml", form.format(ref=f"{registry.host}/team/ray:v" + ("" if "u0031" in form else "1")))
    line = failed(capsys, "resolve", "t.yaml", "--write")
    assert (
        "t.yaml:2:8: image: cannot be rewritten in this form; expected the reference itself, plain or in quotes" in line
    )
    assert (in_tmp / "t.yaml").read_bytes() == before


def test_an_alias_is_not_rewritten_elsewhere(registry: Registry, ray: Pushed, in_tmp: Path, capsys: Any) -> None:
    ref = f"{registry.host}/team/ray:v1"
    document = yaml.safe_dump({k: v for k, v in TINY.items() if k != "metadata"}, sort_keys=False)
    before = f"metadata: {{name: &here '{ref}'}}\nimage: *here\n{document}"
    (in_tmp / "t.yaml").write_text(before)
    assert "t.yaml:1:18: image: cannot be rewritten" in failed(capsys, "resolve", "t.yaml", "--write")
    assert (in_tmp / "t.yaml").read_text() == before


def test_a_file_that_changed_meanwhile_is_left_alone(in_tmp: Path) -> None:
    before = trial(in_tmp / "t.yaml", "image: team/ray:v10")
    for old in ("team/ray:v1", "team/ray:v2"):
        with pytest.raises(InputError, match="image: cannot be rewritten"):
            write(in_tmp / "t.yaml", old, f"{old}@sha256:{'0' * 64}")
    assert (in_tmp / "t.yaml").read_bytes() == before


def test_a_file_that_cannot_be_replaced(
    registry: Registry, ray: Pushed, in_tmp: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = trial(in_tmp / "t.yaml", f"image: {registry.host}/team/ray:v1")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    line = failed(capsys, "resolve", "t.yaml", "--write")
    assert line == "seatrial: t.yaml: cannot be written: No space left on device"
    assert os.listdir() == ["t.yaml"]
    assert (in_tmp / "t.yaml").read_bytes() == before


def test_refused_credentials_end_with_4(basic_registry: Registry, docker: Path, capsys: Any) -> None:
    ref = f"{basic_registry.host}/team/cli:v1"
    pushed = basic_registry.image("team/cli", "v1")
    login(docker, basic_registry.host, password="wrong-word")
    line = failed(capsys, "resolve", ref, code=4)
    assert "tried with the entry" in line
    assert "wrong-word" not in line
    login(docker, basic_registry.host)
    assert call("resolve", ref) == 0
    out = capsys.readouterr().out
    assert pushed.digest in out
    assert PASSWORD not in out
