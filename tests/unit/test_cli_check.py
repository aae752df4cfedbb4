"""`seatrial check` as a user calls it: output forms, exit codes, selection, bad paths."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from seatrial.check.explain import markdown
from seatrial.cli.main import main
from seatrial.trial.loader import template
from tests.support.manifests import GONE, HEAD, WORKER, changed

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
EKS = template("eks-g6-qwen2.5-1.5b")
BROKEN = {f"{WORKER}.rayStartParams.num-gpus": "8", "spec.rayVersion": GONE}


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


def seatrial(*arguments: str, stdin: str = "", cwd: Path | None = None) -> Done:
    """Calls the command in this process, which is much faster than in one of its own."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        if cwd:
            patch.chdir(cwd)
        with pytest.raises(SystemExit) as ended:
            main(["check", *arguments])
    return Done(int(ended.value.code or 0), out.getvalue(), err.getvalue())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "good.yaml").write_text(changed({}))
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "bad.yml").write_text(changed(BROKEN))
    (tmp_path / ".hidden.yaml").write_text("not: [read")
    (tmp_path / "notes.txt").write_text("not: [read")
    return tmp_path


def test_a_clean_file_says_so(folder: Path) -> None:
    done = seatrial("good.yaml", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith("1 resource checked: 0 errors, 0 warnings")


def test_a_folder_with_an_error(folder: Path) -> None:
    done = seatrial(".", cwd=folder)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0].startswith("sub/bad.yml:")
    assert any(" error num-gpus-mismatch: rayStartParams.num-gpus: num-gpus 8, " in line for line in lines)
    assert lines[-1].startswith("2 resources checked: 1 error, 1 warning")


def test_a_folder_may_hold_other_yaml(folder: Path) -> None:
    (folder / "values.yaml").write_text("replicas: {{ .Values.n }}\n")
    assert seatrial(".", cwd=folder).returncode == 1
    assert seatrial("values.yaml", cwd=folder).returncode == 2
    assert seatrial("values.yaml", "--skip-others", cwd=folder).returncode == 0


def test_standard_input_and_several_documents() -> None:
    stream = changed({}) + "\n---\n" + changed(BROKEN) + "\n---\n{apiVersion: v1, kind: ConfigMap}\n"
    done = seatrial("-", "--format", "json", stdin=stream)
    document = json.loads(done.stdout)
    assert done.returncode == 1
    assert (
        document["summary"] | {"resources": 2, "other_documents": 1, "errors": 1, "warnings": 1} == document["summary"]
    )
    [error] = [finding for finding in document["findings"] if finding["severity"] == "error"]
    assert error["path"] == "<stdin>"
    keys = "path line column rule severity message seen expected fix source"
    assert error.keys() >= set(keys.split())
    assert error["line"] > changed({}).count("\n")


def test_trials_are_checked_as_what_they_render_to(tmp_path: Path) -> None:
    (tmp_path / "eks.yaml").write_text(template("eks-g6-qwen2.5-1.5b"))
    (tmp_path / "local.yaml").write_text(template("local"))
    (tmp_path / "many.yaml").write_text(template("eks-g6-qwen2.5-1.5b").replace("replicas: 2}", "replicas: 1}"))
    done = seatrial("eks.yaml", cwd=tmp_path)
    assert done.returncode == 0
    assert "1 resource checked: 0 errors, 0 warnings" in done.stdout
    done = seatrial("local.yaml", cwd=tmp_path)
    assert done.returncode == 0
    assert "local.yaml: a valid trial; it runs without Kubernetes" in done.stdout
    done = seatrial("many.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("seatrial: many.yaml:")


def checked(folder: Path, *changes: tuple[str, str], options: tuple[str, ...] = ()) -> Done:
    """The check of the trial for EKS with some of its text replaced."""
    text = EKS
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    (folder / "t.yaml").write_text(text)
    return seatrial("t.yaml", *options, cwd=folder)


def test_what_a_trial_adds_to_the_image_is_judged_as_in_a_manifest(tmp_path: Path) -> None:
    done = checked(tmp_path, ("pip: []", 'pip: ["torch==2.1", "ray==2.40.0"]'))
    assert done.returncode == 1
    assert (
        "t.yaml:17:13: error runtime-env-reinstalls-ray: runtimeEnv: ray==2.40.0, the cluster has 2.58.0" in done.stdout
    )
    assert "t.yaml:17:13: warning runtime-env-reinstalls-torch: runtimeEnv: installs torch==2.1 over" in done.stdout
    done = checked(tmp_path, ("  provider: eks", "  provider: eks\n  rayVersion: 2.40.0"))
    assert "error ray-version-mismatch" in done.stdout
    done = checked(tmp_path, ("  provider: eks", "  provider: eks\n  queue: gpus"), options=("--min-severity", "info"))
    assert "gang-not-enforced" not in done.stdout
    quiet = ("runtimeEnv: {pip: [], env_vars: {}}", "runtimeEnv: {pip: [einops==0.8.1], env_vars: {A: $HOME/a}}")
    assert "runtimeEnv" not in checked(tmp_path, quiet).stdout  # no shell reads it, unlike a manifest's


HF_TOKEN = "hf_abcdefghijklmnopqrstuvwxyz0123"
GROUP = "{instanceType: g6.12xlarge, replicas: 2"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (("env_vars: {}", f"env_vars: {{HF_TOKEN: {HF_TOKEN}}}"), "t.yaml:17:44: runtimeEnv.env_vars.HF_TOKEN"),
        (("  provider", f"  annotations: {{note: {HF_TOKEN}}}\n  provider"), "t.yaml:11:23: cluster.annotations.note"),
        (("  provider", "  annotations: {a.org/db-password: hunter2hunter2}\n  provider"), 't.yaml:11:36: cluster.annotations."a.org/db-password"'),
        ((GROUP, f"{GROUP}, pod: {{containers: [{{name: ray-worker, env: [{{name: HF_TOKEN, value: {HF_TOKEN}}}]}}]}}"), "t.yaml:15:127: cluster.workerGroups.0.pod.containers.0.env.0.value"),
    ],
)  # fmt: skip
def test_a_secret_is_named_by_its_key_and_not_shown(tmp_path: Path, change: tuple[str, str], field: str) -> None:
    done = checked(tmp_path, change)
    assert done.returncode == 2
    assert f"seatrial: {field}: looks like a secret; expected no secret in manifests; remove it" in done.stderr
    assert HF_TOKEN not in done.stderr + done.stdout


def test_the_advice_about_a_secret_leads_to_a_clean_check(tmp_path: Path) -> None:
    said = checked(tmp_path, ("env_vars: {}", f"env_vars: {{HF_TOKEN: {HF_TOKEN}}}")).stderr
    pod = said.partition("cluster.workerGroups[].pod: ")[2].strip().replace("SECRET", "hub").replace("KEY", "token")
    done = checked(tmp_path, (GROUP, f"{GROUP}, pod: {pod}"), options=("--fail-on", "warning"))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("  provider", '  kubernetesVersion: "1.99.2"\n  provider'), "t.yaml:11:22: cluster.kubernetesVersion: saw 1.99.2; expected a release from 1."),
        (("mountPath: /fsx}", "mountPath: /fsx, create: {size: 1Ti}}"), "t.yaml:20:49: storage.volume.create.storageClassName: missing; expected a class that serves ReadWriteMany"),
    ],
)  # fmt: skip
def test_a_cluster_that_cannot_be_is_an_input_error(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    done = checked(tmp_path, change)
    assert done.returncode == 2
    assert done.stderr.startswith(f"seatrial: {words}")


def test_a_default_class_is_allowed_outside_eks(tmp_path: Path) -> None:
    create = ("mountPath: /fsx}", "mountPath: /fsx, create: {size: 1Ti}}")
    plain = (GROUP, "{replicas: 2, gpus: 4, cpu: 40, memory: 160Gi")
    assert checked(tmp_path, create, plain, ("provider: eks", "provider: kubernetes")).returncode == 0
    assert checked(tmp_path, ("mountPath: /fsx}", "mountPath: /fsx, create: {size: 1Ti, storageClassName: e}}")).returncode == 0  # fmt: skip


def test_a_trial_s_own_versions_count_unless_others_are_given(tmp_path: Path) -> None:
    group = (GROUP, f"{GROUP}, pod: {{containers: [{{name: ray-worker, restartPolicyRules: []}}]}}")  # came with 1.34
    older = ("  provider", '  kubernetesVersion: "1.30"\n  provider')
    unknown = "no such field: restartPolicyRules"
    assert unknown in checked(tmp_path, group, older).stdout
    assert unknown not in checked(tmp_path, group).stdout
    assert unknown not in checked(tmp_path, group, older, options=("--kubernetes", "1.34")).stdout
    assert "wait-gcs-forever" not in checked(tmp_path, options=("--kuberay", "1.5", "--min-severity", "info")).stdout


def test_what_to_know_about_a_trial_s_cluster(tmp_path: Path) -> None:
    late = "note: t.yaml:36:31: 500 steps within their limit may take 42 h, and the job is ended after 24 h"
    longer = ("step: 2m", "step: 5m")
    assert late in checked(tmp_path, longer).stdout
    for change in ((), (longer, ("  provider", "  deadline: 12h\n  provider"))):
        assert "note: " not in checked(tmp_path, *change).stdout
    strange = "KubeRay 1.9 is not known here, 1.4 to 1.7 are"
    assert f"note: t.yaml:12:19: {strange}" in checked(tmp_path, ('"1.6"', '"1.9"')).stdout
    assert f"note: {strange}" in checked(tmp_path, options=("--kuberay", "1.9")).stdout


def test_a_trial_must_fit_a_given_cluster(folder: Path) -> None:
    trial = (
        template("eks-g6-qwen2.5-1.5b")
        .replace("replicas: 2}", "replicas: 4}")
        .replace("num_workers: 8", "num_workers: 16")
    )
    (folder / "trial.txt").write_text(trial)
    done = seatrial("good.yaml", "--trial", "trial.txt", cwd=folder)
    assert done.returncode == 1
    assert "world-size-exceeds-gpus" in done.stdout


def test_without_kubernetes_schemas_it_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seatrial.check.structure.find_spec", lambda _: None)
    done = seatrial("good.yaml", cwd=folder)
    assert done.returncode == 0
    assert "not checked against Kubernetes' schemas: kubernetes-validate is not installed" in done.stdout


def test_select_ignore_and_severity(folder: Path) -> None:
    def rules(*arguments: str) -> set[str]:
        done = seatrial("sub/bad.yml", "--format", "json", *arguments, cwd=folder)
        return {finding["rule"] for finding in json.loads(done.stdout)["findings"]}

    assert rules("--select", "num-gpus") == {"num-gpus-mismatch"}
    assert "num-gpus-mismatch" not in rules("--ignore", "num-gpus-mismatch,ray-version")
    assert rules("--ignore", "num-gpus-mismatch,ray-version") == set()
    assert rules("--min-severity", "error") == {"num-gpus-mismatch"}
    assert rules("--min-severity", "info") > rules()
    assert seatrial("sub/bad.yml", "--select", "ray-version", cwd=folder).returncode == 0
    assert seatrial("sub/bad.yml", "--select", "ray-version", "--fail-on", "warning", cwd=folder).returncode == 1
    hidden = ("--select", "ray-version", "--fail-on", "warning", "--min-severity", "error")
    assert seatrial("sub/bad.yml", *hidden, cwd=folder).returncode == 0
    assert seatrial("good.yaml", "--kubernetes", "v1.34.2", cwd=folder).returncode == 0


def test_set_aside_in_the_file(tmp_path: Path) -> None:
    aside = {"metadata.annotations": {"seatrial.io/ignore": "num-gpus-mismatch: we oversubscribe on purpose"}}
    (tmp_path / "m.yaml").write_text(changed({**BROKEN, **aside}))
    done = seatrial("m.yaml", "-v", cwd=tmp_path)
    assert done.returncode == 0
    assert "set aside num-gpus-mismatch: we oversubscribe on purpose" in done.stdout
    template = {f"{HEAD}.template.metadata.annotations": {"seatrial.io/ignore": "num-gpus-mismatch: wrong group"}}
    (tmp_path / "m.yaml").write_text(changed({**BROKEN, **template}))
    assert seatrial("m.yaml", cwd=tmp_path).returncode == 1


def test_a_placeholder_is_told_only_when_asked(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(changed({f"{WORKER}.rayStartParams.num-gpus": "${GPUS}"}))
    assert "cannot tell num-gpus-mismatch" not in seatrial("m.yaml", cwd=tmp_path).stdout
    assert "cannot tell num-gpus-mismatch" in seatrial("m.yaml", "--verbose", cwd=tmp_path).stdout


def test_sarif_junit_and_github(folder: Path) -> None:
    run = json.loads(seatrial(".", "--format", "sarif", cwd=folder).stdout)["runs"][0]
    results: list[dict[str, Any]] = run["results"]
    assert results
    assert {result["ruleId"] for result in results} == {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    for result in results:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["locations"][0]["physicalLocation"]["region"]["startLine"] > 0
    suite = ElementTree.fromstring(seatrial(".", "--format", "junit", cwd=folder).stdout.encode())
    assert suite.attrib | {"tests": "2", "failures": "1", "errors": "0"} == suite.attrib
    assert {case.get("name") for case in suite} == {"good.yaml", "sub/bad.yml"}
    lines = seatrial(".", "--format", "github", cwd=folder).stdout.splitlines()
    assert any(
        line.startswith("::error file=sub/bad.yml,line=") and "title=num-gpus-mismatch::" in line for line in lines
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a: [1\n", "m.yaml:2:1: not YAML"),
        ("{{- if .Values.x }}\nkind: RayCluster\n{{- end }}\n", "helm template"),
        ("- a\n- b\n", "a list; expected a Kubernetes resource"),
        ("just text\n", "no apiVersion and kind"),
        ("", "no RayCluster, RayJob or RayService"),
        ("apiVersion: ray.io/v1\nkind: RayThing\n", "kind RayThing; expected RayCluster, RayJob or RayService"),
        ("apiVersion: v1\nkind: Pod\n", "no RayCluster, RayJob or RayService"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_exit_2(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "m.yaml").write_text(content)
    done = seatrial("m.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_other_documents_are_still_checked(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(f"a: [1\n---\n{changed(BROKEN)}\n")
    done = seatrial("m.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "num-gpus-mismatch" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("missing.yaml",), "missing.yaml: cannot be read: No such file"),
        ((), "no path given"),
        ((".", "--select", "nope"), "--select: saw nope"),
        ((".", "--kuberay", "new"), "--kuberay: saw new"),
        ((".", "--kubernetes", "1.2"), "--kubernetes: saw 1.2; expected a release from 1."),
        ((".", "--effective", "--kuberay", "new"), "--kuberay: saw new; expected a version"),
        ((".", "--effective", "--format", "sarif"), "--format: saw sarif with --effective; expected one of text, json"),
        ((".", "--reference", "x", "--format", "junit"), "--format: saw junit with --reference; expected one of"),
        (("--rules", "--format", "json"), "--format: saw json with --rules; expected one of text, markdown"),
        (("--explain", "x", "--format", "json"), "--format: saw json with --explain; expected text"),
        ((".", "--format", "markdown"), "--format: saw markdown; expected one of text, json, sarif"),
        (("m.yaml", "--reference", "x"), "seatrial: --reference: saw x; expected one of"),
        ((".", "--ignore", "nope"), "--ignore: saw nope"),
        (("m.yaml", "--trial", "trial.txt"), "seatrial: trial.txt:1:1: kubernetes: unknown key"),
        ((".", "--effective", "--reference", "x"), "saw --effective and --reference; expected one of them"),
        ((".",), "holds no manifest"),
        (("--explain", "num-gpu-mismatch"), "did you mean num-gpus-mismatch?"),
    ],
)
def test_wrong_arguments(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    (tmp_path / "trial.txt").write_text("kubernetes: 1.34\n")  # a key of the file, not the option of that name
    done = seatrial(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_explain_and_rules() -> None:
    done = seatrial("--explain", "num-gpus-mismatch")
    assert done.returncode == 0
    assert "num-gpus-mismatch (error)" in done.stdout
    assert "source  http" in done.stdout
    assert "num-gpus-mismatch" in seatrial("--rules").stdout


def test_the_page_of_rules_is_what_the_rules_say() -> None:
    assert (ROOT / "docs" / "rules.md").read_text() == markdown(), "run: seatrial check --rules --format markdown"


def test_effective(folder: Path) -> None:
    done = seatrial("good.yaml", "--effective", "--format", "json", cwd=folder)
    derived = json.loads(done.stdout)["resources"][0]["derived"]
    commands = {line["part"]: line["value"] for line in derived if line["name"] == "command"}
    assert "ray start --head" in commands["head"]
    assert all(line["reason"] for line in derived)
    text = seatrial("good.yaml", "--effective", cwd=folder).stdout
    assert "worker group gpu" in text


def test_reference(folder: Path) -> None:
    done = seatrial("good.yaml", "--reference", "ray-train-dlc-eks", "--format", "json", cwd=folder)
    items = json.loads(done.stdout)["deviations"]
    assert {item["kind"] for item in items} <= {"workload", "convention", "risk"}
    assert {"field", "seen", "reference", "why"} <= items[0].keys()
    assert any(item["seen"] == "32Gi" and item["reference"] == "16Gi" for item in items)
    assert seatrial("good.yaml", "--reference", "x", cwd=folder).returncode == 2
