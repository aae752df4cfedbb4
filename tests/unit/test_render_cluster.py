"""The trial's cluster and storage sections: what they take, what they refuse, and where the file is pointed at."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from seatrial.canon import canonical
from seatrial.driver.prepare import recorded
from seatrial.errors import InputError
from seatrial.trial import Trial
from seatrial.trial.cluster import below, mebibytes
from seatrial.trial.loader import load, template
from tests.support.kubernetes import EKS, PLAIN, group, trial

pytestmark = pytest.mark.unit


def refusal(**changes) -> str:
    with pytest.raises(ValidationError) as error:
        trial(**changes)
    return "; ".join(f"{'.'.join(map(str, d['loc']))} {d['msg']}" for d in error.value.errors())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cluster": {"namespace": "Team_A"}}, 'saw "Team_A"; expected lower-case letters'),
        ({"cluster": {"rayVersion": "2.58"}}, "the image's Ray version in three numbers"),
        ({"cluster": {"kuberayVersion": "v1.6"}}, 'a version such as "1.6"'),
        ({"cluster": {"labels": {"team": "a b"}}}, 'saw "a b"; expected a label value: at most 63 letters'),
        ({"cluster": {"labels": {"a/b/c": "x"}}}, "expected a label's key"),
        ({"cluster": {"annotations": {"seatrial.io/x": "y"}}}, "without the prefix seatrial.io/"),
        ({"cluster": {"head": {"memory": "16GB"}}}, "a size in Ki, Mi, Gi or Ti"),
        ({"cluster": {"head": {"tolerations": [{"operator": "Exists", "key": "a", "value": "b"}]}}}, "expected no value"),
        ({"cluster": {"head": {"tolerations": [{"value": "b"}]}}}, "has no key"),
        ({"cluster": {"deadline": "1s"}}, "greater than or equal to 60"),
        ({"cluster": {"template": {"from": ""}}}, "at least 1 character"),
        ({"cluster": {"template": {"file": "x"}}}, "Extra inputs"),
        ({"cluster": {"workerGroups": [{"instanceType": "g6"}]}}, "should match pattern"),
        ({"cluster": group(name="headgroup")}, "uses for the head"),
        ({"cluster": group(memory="16Gi", shm="16Gi")}, "expected less than memory"),
        ({"cluster": {"workerGroups": [{"name": "a"}, {"name": "a"}]}}, "two groups are named a"),
        ({"base": PLAIN, "cluster": {"workerGroups": [{"efa": 1}]}}, "saw kubernetes, and a group asks for EFA; expected eks"),
        ({"base": PLAIN, "cluster": {"require": "efa"}}, "saw efa with provider kubernetes; expected provider eks"),
        ({"cluster": {"require": "tcp"}}, "Input should be 'efa'"),
        ({"cluster": group(gpus=1)}, "asks for 8 GPUs; expected at most the 2 of cluster.workerGroups"),
        ({"storage": {"path": "/other", "volume": {"claim": "fsx", "mountPath": "/fsx"}}}, "expected /fsx, where"),
        ({"storage": {"path": "/fsx/../x", "volume": {"claim": "fsx", "mountPath": "/fsx"}}}, "expected /fsx, where"),
        ({"storage": {"path": "/tmp/x", "volume": {"claim": "fsx", "mountPath": "/tmp"}}}, "outside of /tmp"),
        ({"storage": {"path": "/etc/seatrial", "volume": {"claim": "c", "mountPath": "/etc/seatrial"}}}, "outside of /etc"),
        ({"storage": {"path": "/", "volume": {"claim": "fsx", "mountPath": "/"}}}, "an absolute path such as /fsx"),
        ({"storage": {"path": "/fsx", "volume": {"claim": "FSX", "mountPath": "/fsx"}}}, "as Kubernetes names objects"),
        ({"storage": {"path": "/fsx", "volume": {"claim": "f", "mountPath": "/fsx", "create": {}}}}, "create.size Field required"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(changes, said):
    assert said in refusal(**changes)


def test_the_number_of_gpus_is_not_asked_where_the_table_or_a_template_has_it():
    assert trial(cluster=group(replicas=1))
    assert trial(cluster={**group(gpus=1), "template": {"from": "x.yaml"}})


def test_a_trial_with_everything_survives_the_journey():
    which = trial(
        cluster={
            **group(nodeSelector={"a": "b"}, tolerations=[{"key": "k", "operator": "Exists"}], pod={"hostIPC": True}),
            "template": {"from": "team.yaml"},
            "deadline": "2h",
        },
        storage={
            "path": "/fsx",
            "volume": {"claim": "f", "mountPath": "/fsx", "create": {"size": "1Ti", "storageClassName": "fsx"}},
        },
    )
    assert which.resolved()["cluster"]["template"] == {"from": "team.yaml"}
    assert Trial.from_resolved(canonical(which.resolved())) == which


def test_names_of_keys_are_no_secrets_and_values_are():
    reference = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token-of-the-hub"}}}
    volume = {"name": "s", "secret": {"secretName": "hub-token"}}
    pod = {"containers": [{"name": "ray-worker", "env": [reference]}], "volumes": [volume]}
    toleration = {"key": "nvidia.com/gpu", "operator": "Exists"}
    which = trial(cluster=group(pod=pod, tolerations=[toleration]))
    assert recorded(which) == which.resolved()
    for secret in (
        {"env": [{"name": "HUB_TOKEN", "value": "abcdef-abcdef"}]},
        {"key": "hf_abcdefghijklmnopqrstuvwx"},
        {"secretName": "AKIAABCDEFGHIJKLMNOP"},
        {"HUB_TOKEN": "abcdef-abcdef"},
    ):
        with pytest.raises(InputError, match="cluster: holds what looks like a secret"):
            recorded(trial(cluster=group(pod=secret)))


def test_sizes_and_paths():
    assert [mebibytes(size) for size in ("16Gi", "1.5Gi", "512Mi", "1Ti", "2048Ki")] == [16384, 1536, 512, 1 << 20, 2]
    assert below("/fsx/a", "/fsx")
    assert below("/fsx", "/fsx")
    assert not below("/fsx2", "/fsx")


def written(folder: Path, *edits: tuple[str, str]) -> Path:
    text = template("eks-g6-qwen2.5-1.5b")
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    (folder / "t.yaml").write_text(text)
    return folder / "t.yaml"


def test_a_template_is_relative_to_the_file_that_names_it(in_tmp):
    (in_tmp / "platform").mkdir()
    (in_tmp / "platform/cluster.yaml").write_text("provider: eks\ntemplate: {from: job.yaml}\n")
    path = written(in_tmp, ("  namespace: training\n", "  namespace: training\n  template: {from: base/job.yaml}\n"))
    found = load(path).trial.cluster.template
    assert found is not None
    assert found.from_ == f"{in_tmp}/base/job.yaml"
    text = path.read_text()
    start, end = text.index("cluster:"), text.index("runtimeEnv:")
    path.write_text(f"{text[:start]}cluster: {{from: platform/cluster.yaml}}\n{text[end:]}")
    found = load(path).trial.cluster.template
    assert found is not None
    assert found.from_ == f"{in_tmp}/platform/job.yaml"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("replicas: 2}", "replica: 2}", "cluster.workerGroups.0.replica: unknown key; did you mean replicas?"),
        ("  namespace: training\n", "  template: {form: x}\n", "cluster.template.form: unknown key"),
        ("mountPath: /fsx}", "mountPath: /lustre}", "storage.path: saw /fsx/seatrial; expected /lustre"),
        ("namespace: training", "namespace: Training", 'cluster.namespace: saw "Training"'),
    ],
)
def test_mistakes_are_shown_in_the_file(old, new, said, in_tmp):
    with pytest.raises(InputError) as error:
        load(written(in_tmp, (old, new)))
    line = str(error.value).splitlines()[0]
    assert said in line
    assert line.startswith(f"{in_tmp}/t.yaml:")


def test_the_base_of_these_tests_is_the_published_example():
    assert EKS["cluster"]["workerGroups"][0]["instanceType"] in template("eks-g6-qwen2.5-1.5b")
