"""The team's own manifest: all of theirs stays, what the trial needs is added, as a file or as a kustomize component."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.errors import InputError
from seatrial.render import emit, render
from seatrial.render.patch import Edit, merged, pointer
from seatrial.trial import Trial
from tests.support.kubernetes import EKS, PYTHON_PATH, SHARED, TEAM_TRIAL, group, loaded, pod_templates, trial, validate

pytestmark = pytest.mark.unit

ENTRYPOINT = "python -m seatrial.driver --trial /etc/seatrial/trial.json --address auto"
TEAM = """
# The team's job.
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: ml}
data: {version: "1.10", on: "yes", octal: "0123"}
---
apiVersion: ray.io/v1
kind: RayJob
metadata:
  name: finetune
  namespace: ml
  labels: {app: finetune}
spec:
  entrypoint: python /fsx/train.py --lr 1e-4
  shutdownAfterJobFinishes: true
  ttlSecondsAfterFinished: 0600
  runtimeEnvYAML: |
    env_vars:
      A: "1"
  rayClusterSpec:
    rayVersion: "2.58.0"
    headGroupSpec:
      rayStartParams: {num-gpus: "0", dashboard-host: 0.0.0.0}
      template:
        spec:
          containers:
            - &ray
              name: ray-head
              image: public.ecr.aws/deep-learning-containers/ray:train-ml-cuda-v1.1.0
              resources: {limits: {cpu: 4, memory: 16Gi}, requests: {cpu: 4, memory: 16Gi}}
              volumeMounts: [{name: fsx, mountPath: /fsx}]
          volumes: &volumes
            - {name: fsx, persistentVolumeClaim: {claimName: fsx}}
    workerGroupSpecs:
      - groupName: gpu
        replicas: 2
        minReplicas: 2
        maxReplicas: 2
        rayStartParams: {}
        template:
          metadata:
            annotations: {karpenter.sh/do-not-disrupt: "true"}
          spec:
            containers:
              - <<: *ray
                name: worker
                env:
                  - {name: PYTHONPATH, value: /fsx/lib}
                  - {name: NCCL_DEBUG, value: WARN}
            volumes: *volumes
"""


def for_team(**sections: Any) -> Trial:
    return trial(TEAM_TRIAL, **sections)


def rendered(text: str = TEAM, **options: Any) -> Any:
    return render(for_team(), base=text, **options)


def resource(text: str) -> dict[str, Any]:
    return next(
        d for d in loaded(text) if d["apiVersion"].startswith("ray.io/") and d["kind"] in ("RayJob", "RayCluster")
    )


def keeps(theirs: Any, result: Any, path: str = "") -> None:
    """Fails where `result` lacks or changes something of theirs, beyond what is meant to be changed."""
    if isinstance(theirs, dict):
        for key, value in theirs.items():
            assert key in result, f"{path}.{key}"
            keeps(value, result[key], f"{path}.{key}")
    elif isinstance(theirs, list):
        assert len(result) >= len(theirs), path
        for position, value in enumerate(theirs):
            if isinstance(value, dict) and value.get("name") == "PYTHONPATH":
                assert result[position]["value"] == f"{PYTHON_PATH}:{value['value']}"
            elif path.endswith(".lifecycle.preStop.exec.command") and "headGroupSpec" in path and position == 2:
                assert result[position] == f"python -m seatrial.driver.stop; {value}"
            else:
                keeps(value, result[position], f"{path}[{position}]")
    elif theirs is not None and not path.endswith(".spec.entrypoint"):
        assert (type(theirs), theirs) == (type(result), result), path


def additions(theirs: Any, result: Any, path: str = "") -> set[str]:
    """Paths that only the result has."""
    if isinstance(theirs, dict) and isinstance(result, dict):
        new = {f"{path}.{key}" for key in set(result) - set(theirs)}
        return new.union(*(additions(theirs[key], result[key], f"{path}.{key}") for key in theirs))
    if isinstance(theirs, list) and isinstance(result, list):
        new = {f"{path}[+{item.get('name', '')}]" for item in result[len(theirs) :]}
        return new.union(
            *(additions(a, b, f"{path}[{i}]") for i, (a, b) in enumerate(zip(theirs, result, strict=False)))
        )
    return set()


def test_their_documents_are_kept_and_the_needed_is_added():
    found = rendered()
    theirs, result = loaded(TEAM), loaded(found.files["rayjob.yaml"])
    assert [d["kind"] for d in result] == ["ConfigMap", "RayJob"]
    keeps(theirs, result)
    assert theirs[0] == result[0]
    validate(result[1])
    head = ".spec.rayClusterSpec.headGroupSpec.template"
    worker = ".spec.rayClusterSpec.workerGroupSpecs[0].template"
    assert additions(theirs[1], result[1]) == {
        ".metadata.annotations",
        f"{head}.metadata",
        f"{head}.spec.volumes[+seatrial]",
        f"{head}.spec.containers[0].env",
        f"{head}.spec.containers[0].lifecycle",
        f"{head}.spec.containers[0].volumeMounts[+seatrial]",
        f"{worker}.metadata.annotations.seatrial.io/trial-digest",
        f"{worker}.spec.volumes[+seatrial]",
        f"{worker}.spec.containers[0].volumeMounts[+seatrial]",
    }
    assert (found.name, found.namespace, found.order) == ("finetune", "ml", ("configmap.yaml", "rayjob.yaml"))
    assert loaded(found.files["configmap.yaml"])[0]["metadata"]["namespace"] == "ml"


def test_the_entrypoint_is_replaced_and_remembered():
    job = resource(rendered().files["rayjob.yaml"])
    assert job["spec"]["entrypoint"] == ENTRYPOINT
    assert job["metadata"]["annotations"] == {
        "seatrial.io/replaced-entrypoint": "python /fsx/train.py --lr 1e-4",
        "seatrial.io/trial-digest": rendered().digest,
    }
    again = resource(
        render(for_team(), base=TEAM.replace("python /fsx/train.py --lr 1e-4", ENTRYPOINT)).files["rayjob.yaml"]
    )
    assert "seatrial.io/replaced-entrypoint" not in again["metadata"]["annotations"]


def test_a_secret_in_their_entrypoint_is_not_spread():
    text = TEAM.replace("python /fsx/train.py", "HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz python /fsx/train.py")
    annotations = resource(rendered(text).files["rayjob.yaml"])["metadata"]["annotations"]
    assert annotations["seatrial.io/replaced-entrypoint"] == "HF_TOKEN=[redacted] python /fsx/train.py --lr 1e-4"
    assert "train.py" not in rendered(text, kustomize=True).files["patch-rayjob.yaml"]


def test_the_driver_stops_before_ray_does():
    stop = "python -m seatrial.driver.stop"
    hook = 'name: ray-head\n              lifecycle: {preStop: {exec: {command: [/bin/sh, -c, "ray stop"]}}}'
    other = hook.replace('{exec: {command: [/bin/sh, -c, "ray stop"]}}', "{httpGet: {path: /, port: 80}}")
    for text, command in ((TEAM, stop), (TEAM.replace("name: ray-head", hook), f"{stop}; ray stop")):
        head = pod_templates(resource(rendered(text).files["rayjob.yaml"]))["head"]["spec"]["containers"][0]
        assert head["lifecycle"]["preStop"]["exec"]["command"] == ["/bin/sh", "-c", command]
    head = pod_templates(resource(rendered(TEAM.replace("name: ray-head", other)).files["rayjob.yaml"]))["head"]
    assert head["spec"]["containers"][0]["lifecycle"]["preStop"] == {"httpGet": {"path": "/", "port": 80}}


def test_a_required_network_is_pinned_and_asked_for():
    which = for_team(cluster={"require": "efa"})
    with pytest.raises(InputError, match=r"workerGroupSpecs.0 limits: holds no vpc.amazonaws.com/efa"):
        render(which, base=TEAM)
    line = "              - <<: *ray\n"
    asks = "                resources: {limits: {vpc.amazonaws.com/efa: 1}}\n"
    text = TEAM.replace(line, line + asks)
    env = pod_templates(resource(render(which, base=text).files["rayjob.yaml"]))["gpu"]["spec"]["containers"][0]["env"]
    assert {"name": "NCCL_NET", "value": "Libfabric"} in env
    with pytest.raises(InputError, match=r"NCCL_NET: is Socket; expected Libfabric"):
        render(which, base=text.replace("{name: NCCL_DEBUG, value: WARN}", "{name: NCCL_NET, value: Socket}"))


@pytest.mark.parametrize("asked", ["ml", None])
def test_the_config_map_goes_where_the_pods_are(asked):
    """Where the manifest names no namespace, nothing does: kubectl, ArgoCD or kustomize decide for all."""
    for text, where in ((TEAM, "ml"), (TEAM.replace("  namespace: ml\n  labels", "  labels"), None)):
        found = render(for_team(cluster={"namespace": asked}), base=text)
        spaces = {config["metadata"].get("namespace") for config in loaded(found.files["configmap.yaml"])}
        assert spaces == {resource(found.files["rayjob.yaml"])["metadata"].get("namespace")} == {where}
        assert found.namespace == (where or asked)


def test_another_namespace_than_the_template_names():
    with pytest.raises(InputError, match=r"cluster.namespace: saw training; expected ml, which team.yaml names"):
        render(for_team(cluster={"namespace": "training"}), base=TEAM)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rayVersion", "2.58.0"), ("labels", {"a": "b"}), ("annotations", {"a": "b"}), ("serviceAccount", "a"),
        ("imagePullSecrets", ["a"]), ("priorityClass", "a"), ("queue", "a"), ("deadline", "2h"), ("head", {"cpu": 2}),
        ("workerGroups", group()["workerGroups"]),
    ],
)  # fmt: skip
def test_what_the_template_says_is_not_said_again(key, value):
    with pytest.raises(InputError, match=rf"cluster.{key}: is given beside cluster.template; .*set it in team.yaml"):
        render(for_team(cluster={key: value}), base=TEAM)


def test_a_claim_is_not_made_beside_a_template():
    volume = {"claim": "fsx", "mountPath": "/fsx", "create": {"size": "1200Gi", "storageClassName": "fsx"}}
    with pytest.raises(InputError, match=r"storage.volume.create: is given beside cluster.template"):
        render(for_team(storage={"path": "/fsx/x", "volume": volume}), base=TEAM)


def test_variables_of_theirs_win():
    templates = pod_templates(resource(rendered().files["rayjob.yaml"]))
    env = {e["name"]: e["value"] for e in templates["gpu"]["spec"]["containers"][0]["env"]}
    assert env == {"PYTHONPATH": f"{PYTHON_PATH}:/fsx/lib", "NCCL_DEBUG": "WARN"}
    head = {e["name"]: e["value"] for e in templates["head"]["spec"]["containers"][0]["env"]}
    assert head == {"PYTHONPATH": PYTHON_PATH, "RAY_JOB_STOP_WAIT_TIME_S": "60"}


def test_a_claim_of_the_trial_is_mounted_where_theirs_is_not():
    elsewhere = for_team(storage={"path": "/runs/x", "volume": {"claim": "runs", "mountPath": "/runs"}})
    for template in pod_templates(resource(render(elsewhere, base=TEAM).files["rayjob.yaml"])).values():
        assert template["spec"]["volumes"][-1]["persistentVolumeClaim"] == {"claimName": "runs"}
        assert template["spec"]["containers"][0]["volumeMounts"][-1]["mountPath"] == "/runs"


REFUSED = ("expected one RayJob or RayCluster", "spec.clusterSelector", "spec.runtimeEnvYAML: sets PYTHONPATH")


def manifests() -> list[Path]:
    return sorted((SHARED / "cases/manifests").glob("*.yaml"))


@pytest.mark.parametrize("path", manifests() or [None], ids=lambda path: path.name if path else "none")
def test_published_manifests(path):
    """Real ones: each is kept whole, or refused in a line; the trial names no image, for theirs to be taken."""
    if path is None:
        pytest.skip(f"no manifests in {SHARED / 'cases/manifests'}")
    text, found = path.read_text(), None
    which = for_team(image=None, storage={"path": "/runs/x", "volume": {"claim": "runs", "mountPath": "/runs"}})
    try:
        found = render(which, base=text)
    except InputError as error:
        said = str(error)
    if found is None:
        assert any(known in said for known in REFUSED), said
    else:
        result = next(found.files[name] for name in found.order if name != "configmap.yaml")
        keeps(loaded(text), loaded(result))


@pytest.mark.parametrize("name", ["01", "02", "11"])
def test_the_manifests_that_teams_start_from_are_taken(name):
    path = next(iter(p for p in manifests() if p.name.startswith(name)), None)
    if path is None:
        pytest.skip(f"no manifests in {SHARED / 'cases/manifests'}")
    assert render(for_team(image=None), base=path.read_text()).kind == ("RayJob" if name == "11" else "RayCluster")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("kind: RayJob", "kind: RayService", "holds neither a RayJob nor a RayCluster; expected one RayJob or RayCluster"),
        ("name: finetune\n", "name: {{ .Release.Name }}\n", "of a Helm template; expected a manifest as kubectl takes it"),
        ("shutdownAfter", "clusterSelector: {ray.io/cluster: x}\n  shutdownAfter", "spec.clusterSelector"),
        ("shutdownAfter", "submissionMode: InteractiveMode\n  shutdownAfter", "spec.submissionMode: saw InteractiveMode"),
        ('A: "1"', 'PYTHONPATH: "1"', "spec.runtimeEnvYAML: sets PYTHONPATH"),
        ("train-ml-cuda-v1.1.0", "train-ml-cuda-v1.0.0", "image: saw public.ecr.aws"),
        ("value: /fsx/lib", "valueFrom: {fieldRef: {fieldPath: metadata.name}}", "PYTHONPATH: has a valueFrom"),
        ("persistentVolumeClaim: {claimName: fsx}", "emptyDir: {}", "mount /fsx: exists already"),
        ("name: fsx, persistent", "name: seatrial, persistent", "volume seatrial: exists already"),
        ("&volumes\n            - {name: fsx, ", "&volumes\n            - {name: fsx, fsx: [", "not YAML"),
        ("replicas: 2", "replicas: 2\n        replicas: 3", "replicas is given twice; expected each key once"),
        ("  - <<: *ray\n", "  - !Ref x\n              - <<: *ray\n", "tag !Ref"),
    ],
)  # fmt: skip
def test_what_leaves_no_room_is_said(old, new, said):
    assert old in TEAM
    with pytest.raises(InputError) as error:
        rendered(TEAM.replace(old, new, 1))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_storage_must_be_shared():
    which = for_team(storage={"path": "/scratch/x"})
    with pytest.raises(InputError, match=r"storage.path: /scratch/x is on no volume of headGroupSpec"):
        render(which, base=TEAM)
    with pytest.raises(InputError, match=r"storage.path: /etc/seatrial/x is on no volume of headGroupSpec"):
        render(for_team(storage={"path": "/etc/seatrial/x"}), base=TEAM)  # the package's own volume is no storage


def test_two_ray_resources_are_one_too_many():
    with pytest.raises(InputError, match="holds 2 RayJobs or RayClusters"):
        rendered(f"{TEAM}---\n{TEAM}")


def test_a_cluster_is_asked_for_and_a_job_is_there():
    with pytest.raises(InputError, match="expected a template with a RayCluster"):
        rendered(cluster_only=True)


def test_the_path_of_the_template_stays_at_home(tmp_path):
    path = tmp_path / "team.yaml"
    path.write_text(TEAM)
    which = for_team(cluster={"template": {"from": str(path)}})
    config = loaded(render(which).files["configmap.yaml"])[0]
    assert '"template":{"from":"team.yaml"}' in config["data"]["trial.json"]
    assert str(tmp_path) not in render(which).stream()


def test_a_template_that_is_not_there(tmp_path):
    for path, said in ((tmp_path / "no.yaml", "is no file"), (tmp_path, "is no file")):
        with pytest.raises(InputError, match=said):
            render(for_team(cluster={"template": {"from": str(path)}}))


def test_a_component_gives_what_the_file_gives(tmp_path):
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    base, component, overlay = (tmp_path / name for name in ("base", "component", "overlay"))
    for folder in (base, component, overlay):
        folder.mkdir()
    (base / "job.yaml").write_text(TEAM)
    (base / "kustomization.yaml").write_text("resources: [job.yaml]\n")
    for name, text in rendered(kustomize=True).files.items():
        (component / name).write_text(text)
    (overlay / "kustomization.yaml").write_text("resources: [../base]\ncomponents: [../component]\n")
    done = subprocess.run(["kubectl", "kustomize", overlay], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    file = resource(rendered().files["rayjob.yaml"])
    file["metadata"]["annotations"].pop("seatrial.io/replaced-entrypoint")  # the base has it still
    assert resource(done.stdout) == file
    added = loaded(rendered().files["configmap.yaml"])
    theirs = {"settings", "finetune"}
    result = {d["metadata"]["name"]: d for d in loaded(done.stdout)}
    assert result == {name: result[name] for name in theirs} | {each["metadata"]["name"]: each for each in added}
    (base / "job.yaml").write_text(TEAM.replace("groupName: gpu", "groupName: other"))
    assert subprocess.run(["kubectl", "kustomize", overlay], capture_output=True, check=False).returncode != 0


def test_a_component_is_small_and_copies_nothing():
    files = rendered(kustomize=True).files
    assert set(files) == {"kustomization.yaml", "configmap.yaml", "patch-rayjob.yaml", "README.md"}
    (kustomization,) = loaded(files["kustomization.yaml"])
    assert kustomization["kind"] == "Component"
    assert kustomization["patches"][0]["target"] == {
        "group": "ray.io",
        "version": "v1",
        "kind": "RayJob",
        "name": "finetune",
    }
    operations = loaded(files["patch-rayjob.yaml"])[0]
    older = rendered(TEAM.replace("ray.io/v1", "ray.io/v1alpha1"), kustomize=True).files["kustomization.yaml"]
    assert loaded(older)[0]["patches"][0]["target"]["version"] == "v1alpha1"
    assert {op["op"] for op in operations} == {"add", "replace", "test"}
    assert "fsx" not in str([op["path"] for op in operations])


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(),
    st.sampled_from(["yes", "0o17", "1.10", "16Gi", "", " ", "a: b", "# x", "- x", "|", "\n", "a\nb\n", "1e3", "NULL", "y", "=", "<<"]),
)  # fmt: skip
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=12
)  # fmt: skip


@given(values)
@settings(max_examples=100)
def test_what_is_written_is_read_back_the_same(value):
    document = {"value": value, "list": [value]}
    assert yaml.safe_load(emit.document(document, "a comment")) == document


@given(values, st.sampled_from([None, "'", '"']), st.booleans())
@settings(max_examples=100)
def test_what_is_read_is_written_with_the_same_meaning(value, style, flow):
    text = yaml.safe_dump({"value": value}, default_style=style, default_flow_style=flow, allow_unicode=True)
    (read,) = emit.read(text, "x.yaml")
    assert yaml.safe_load(emit.document(read)) == yaml.safe_load(text)


def test_unquoted_scalars_keep_their_text():
    text = "a: 1.10\nb: 0o17\nc: yes\nd: 2026-01-01\ne: ~\nf:\ng: 0x1F\nh: 1_000\n"
    assert emit.document(emit.read(text, "x")[0]) == text.replace("f:\n", "f: null\n")


def test_a_pod_patch_and_an_edit():
    base = {"a": {"b": 1, "c": 2}, "env": [{"name": "X", "value": "1"}], "args": [1, 2]}
    patch = {"a": {"b": None, "d": 3}, "env": [{"name": "X", "valueFrom": {}}, {"name": "Y"}], "args": [3]}
    assert merged(base, patch) == {
        "a": {"c": 2, "d": 3},
        "env": [{"name": "X", "valueFrom": {}}, {"name": "Y"}],
        "args": [3],
    }
    edit = Edit({"a": None, "l": [{"x": 1}]})
    edit.put(("a", "b/c"), 1)
    edit.append(("l", 0, "env"), "e")
    edit.append(("l", 0, "env"), "f")
    assert edit.result == {"a": {"b/c": 1}, "l": [{"x": 1, "env": ["e", "f"]}]}
    assert [op["path"] for op in edit.operations] == ["/a", "/l/0/env", "/l/0/env/-"]
    assert pointer(("a/b", "~", 0)) == "/a~1b/~0/0"


def test_the_published_image_is_the_one_of_the_trial():
    assert EKS["image"] in TEAM
