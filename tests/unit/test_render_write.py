"""`seatrial render`: folders that are written again, files of others that are left, and what the command says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from seatrial.cli.main import main
from seatrial.errors import InputError
from seatrial.render import render, write
from seatrial.ship import package
from seatrial.trial.loader import template
from tests.support.kubernetes import loaded, trial
from tests.unit.test_render_template import TEAM

pytestmark = pytest.mark.unit

NAME = "eks-g6-qwen2.5-1.5b"
CLAIM = {
    "path": "/d/x",
    "volume": {"claim": "made", "mountPath": "/d", "create": {"size": "1Gi", "storageClassName": "fsx"}},
}


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_second_render_changes_nothing(tmp_path):
    first = write(render(trial()), tmp_path / "out")
    second = write(render(trial()), tmp_path / "out")
    assert set(first.written) == set(second.unchanged) == names(tmp_path / "out") - {".seatrial-render"}
    assert second.written == second.removed == second.foreign == ()


def test_own_files_are_replaced_and_removed(tmp_path):
    write(render(trial(storage=CLAIM)), tmp_path)
    later = write(render(trial()), tmp_path)
    assert later.removed == ("00-storage.yaml",)
    assert "rayjob.yaml" in later.written
    assert not (tmp_path / "00-storage.yaml").exists()


def test_files_of_others_are_left_and_named(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "overlay").mkdir()
    written = write(render(trial()), tmp_path)
    assert written.foreign == ("notes.txt", "overlay")
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("list_of_render", [True, False])
def test_what_was_edited_is_never_overwritten(list_of_render, tmp_path):
    write(render(trial()), tmp_path)
    (tmp_path / "rayjob.yaml").write_text("edited")
    if not list_of_render:
        (tmp_path / ".seatrial-render").unlink()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(
        InputError, match=r"was changed, or was not written by seatrial render.*choose another folder: `seatrial render"
    ):
        write(render(trial(storage=CLAIM)), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_that_cannot_be_one(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write(render(trial()), tmp_path / "file")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], in_tmp: Path) -> Callable[..., tuple[int, str, str]]:
    """Calls the command line; returns exit code, stdout, stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main(list(arguments))
        out, err = capsys.readouterr()
        return int(end.value.code or 0), out, err

    return call


def prepared(text: str = "") -> None:
    Path("trial.yaml").write_text(text or template(NAME))


def test_the_template_renders_as_it_is(run, in_tmp):
    prepared()
    code, out, err = run("render", "trial.yaml")
    (folder,) = [path for path in in_tmp.iterdir() if path.is_dir()]
    assert (code, err) == (0, "")
    assert out.startswith(f"wrote 4 files in {folder.name}\n")
    assert f"kubectl apply -f {folder.name}" in out
    assert f"kubectl -n training get rayjob {folder.name} -w" in out
    code, out, _ = run("render", "trial.yaml")
    assert out.startswith(f"unchanged: 4 files in {folder.name}\n")


def test_json_is_one_document(run, in_tmp):
    prepared()
    code, out, err = run("render", "trial.yaml", "-o", "out", "--json", "--no-name-suffix")
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert document["name"] == "qwen2-5-1-5b-first-look"
    assert document["order"] == ["00-access.yaml", "configmap.yaml", "rayjob.yaml"]
    assert set(document["written"]) | {".seatrial-render"} == names(in_tmp / "out")


def test_a_stream_for_kubectl(run, in_tmp):
    prepared()
    code, out, _ = run("render", "trial.yaml", "-o", "-", "--cluster")
    kinds = [document["kind"] for document in loaded(out)]
    assert code == 0
    assert kinds == ["ServiceAccount", "Role", "RoleBinding", *["ConfigMap"] * len(package()), "RayCluster"]
    assert names(in_tmp) == {"trial.yaml"}


def prepared_for_team() -> None:
    Path("team.yaml").write_text(TEAM)
    lines = template(NAME).splitlines(keepends=True)
    theirs = ("  namespace:", "  head:", "  workerGroups:")
    text = "".join(line for line in lines if not line.startswith(theirs))
    prepared(text.replace("  provider: eks\n", "  provider: eks\n  template: {from: team.yaml}\n"))


@pytest.mark.parametrize("theirs", [False, True])
def test_what_is_rendered_passes_the_check(theirs, run, in_tmp):
    """All of it, unless one of the parts of the package lies where the pods cannot reach it."""
    prepared_for_team() if theirs else prepared()
    _, stream, _ = run("render", "trial.yaml", "-o", "-")
    Path("all.yaml").write_text(stream)
    code, out, _ = run("check", "all.yaml")
    assert code == 0
    assert "1 resource checked: 0 errors, 0 warnings" in out
    documents = loaded(stream)
    own = [each for each in documents if each["kind"] == "ConfigMap" and "binaryData" in each]
    assert len(own) == len(package())
    own[-1]["metadata"]["namespace"] = "elsewhere"
    Path("all.yaml").write_text(yaml.safe_dump_all(documents))
    code, out, _ = run("check", "all.yaml")
    assert code == 1
    assert f"namespace-differs: configMap.name: ConfigMap {own[-1]['metadata']['name']} is in " in out


def test_a_component_on_the_command_line(run, in_tmp):
    prepared_for_team()
    code, out, _ = run("render", "trial.yaml", "--kustomize", "-o", "component")
    assert code == 0
    assert "kustomization.yaml" in names(in_tmp / "component")
    assert "components:" in out


def test_an_option_that_does_not_fit_the_template_has_no_place_in_the_trial(run, in_tmp):
    prepared_for_team()
    code, _, err = run("render", "trial.yaml", "--cluster")
    assert code == 2
    assert err.startswith("seatrial: --cluster: ")
    assert "holds a RayJob; expected a template with a RayCluster" in err


@pytest.mark.parametrize(
    ("edit", "options", "said"),
    [
        (("provider: eks", "provider: local"), (), "trial.yaml:11:13: cluster.provider: saw local; expected eks or kubernetes"),
        (("g6.12xlarge, replicas", "x9.huge, replicas"), (), "trial.yaml:15:18: cluster.workerGroups.0.gpus: is unknown"),
        (("env_vars: {}", "env_vars: {HF_TOKEN: abcdef-abcdef}"), (), "trial.yaml:17:44: runtimeEnv.env_vars.HF_TOKEN: looks"),
        (("eks", "eks"), ("--kustomize",), "cluster.template: missing"),
        (("eks", "eks"), ("-o", "-", "--json"), "--output: saw -"),
        (("  volume: {claim: fsx, mountPath: /fsx}\n", ""), (), "storage.volume: missing"),
    ],
)  # fmt: skip
def test_a_mistake_is_a_line_with_its_place(edit, options, said, run, in_tmp):
    text = template(NAME)
    assert edit[0] in text
    prepared(text.replace(*edit, 1))
    code, out, err = run("render", "trial.yaml", *options)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1
    assert names(in_tmp) == {"trial.yaml"}
