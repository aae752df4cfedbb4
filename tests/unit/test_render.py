"""Generated manifests: valid for Kubernetes and KubeRay, the same bytes each time, and only what the trial says."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.canon import canonical, sha256
from seatrial.errors import InputError
from seatrial.render import context, render
from seatrial.render.objects import deadline
from seatrial.ship import Part, package
from seatrial.trial import Trial
from seatrial.trial.cluster import mebibytes
from seatrial.trial.loader import builtin
from tests.support.kubernetes import EKS, PLAIN, PYTHON_PATH, group, loaded, pod_templates, trial, validate

pytestmark = pytest.mark.unit

TOKEN = "abcdef-abcdef-abcdef"
FULL = {
    "labels": {"team": "vision", "cost.example/centre": "17"},
    "annotations": {"owner": "someone@example.org"},
    "serviceAccount": "trainer",
    "imagePullSecrets": ["registry"],
    "priorityClass": "high",
    "queue": "gpu",
    "head": {"cpu": 2, "memory": "8Gi", "nodeSelector": {"pool": "cpu"}, "tolerations": [{"key": "head", "operator": "Exists"}]},
}  # fmt: skip
CREATE = {"claim": "made", "mountPath": "/data", "create": {"size": "100Gi", "storageClassName": "efs"}}
VARIANTS = {
    "eks": (trial(), {}),
    "everything": (trial(cluster=FULL), {}),
    "cluster": (trial(cluster=FULL), {"cluster_only": True}),
    "plain": (trial(PLAIN), {}),
    "plain names": (trial(), {"name_suffix": False}),
    "cpu": (trial(PLAIN, {"workerGroups": [{"cpu": 4, "gpus": 0, "memory": "8Gi", "replicas": 2}]}, scaling={"num_workers": 8}), {}),
    "claim": (trial(storage={"path": "/data/x", "volume": CREATE}), {}),
    "two groups": (trial(cluster={"workerGroups": [{"instanceType": "g6.12xlarge"}, {"instanceType": "g5.48xlarge", "gpus": 4}]}), {}),
}  # fmt: skip


def documents(which: Trial, **options: bool) -> dict[str, dict]:
    """Everything that kubectl would apply, by kind; of the ConfigMaps the first."""
    return {document["kind"]: document for document in reversed(loaded(render(which, **options).stream()))}


def config_maps(which: Trial) -> list[dict]:
    return loaded(render(which).files["configmap.yaml"])


def job(which: Trial) -> dict:
    return documents(which)["RayJob"]


def refused(which: Trial, **options: bool) -> str:
    with pytest.raises(InputError) as error:
        render(which, **options)
    return str(error.value)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_document_is_valid_and_complete(variant):
    which, options = VARIANTS[variant]
    rendered = render(which, **options)
    found = loaded(rendered.stream())
    for document in found:
        validate(document)
        assert document["metadata"]["annotations"]["seatrial.io/trial-digest"] == rendered.digest
        assert document["metadata"].get("namespace") == which.cluster.namespace
    kinds = [document["kind"] for document in found]
    assert kinds[-2:] == ["ConfigMap", "RayCluster" if options.get("cluster_only") else "RayJob"]
    assert set(rendered.order) == set(rendered.files) - {"README.md"}
    for text in rendered.files["configmap.yaml"].split("---\n"):
        assert len(text) < 256 << 10  # kubectl keeps a copy in an annotation


def test_two_renders_are_byte_equal():
    statement = (
        "import hashlib; from tests.support.kubernetes import trial; from seatrial.render import render\n"
        "print(hashlib.sha256(repr(render(trial()).files).encode()).hexdigest())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", statement],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1


def test_what_the_pods_mount_is_the_trial_and_the_package():
    which = trial()
    first, *others = config_maps(which)
    binaries = [each["binaryData"] for each in (first, *others)]
    assert [(file, base64.b64decode(data)) for each in binaries for file, data in each.items()] == [
        (part.file, part.data) for part in package()
    ]
    assert not any("data" in each for each in others)
    text = first["data"]["trial.json"]
    assert Trial.from_resolved(text) == which
    assert text.encode() == canonical(which.resolved())
    assert sha256(text.encode()) == first["metadata"]["annotations"]["seatrial.io/trial-digest"]


@pytest.mark.parametrize("count", [1, 2, 3, 12])
def test_one_folder_holds_every_part(count, monkeypatch):
    """With one part the manifests are the plainest: a ConfigMap, and a volume of it."""
    sent = tuple(Part(f"seatrial-{number}.zip", bytes([number])) for number in range(1, count + 1))
    monkeypatch.setattr(context, "package", lambda: sent)
    which = trial(metadata={"name": "n" * 60})
    found, own = config_maps(which), render(which).name
    names = [each["metadata"]["name"] for each in found]
    assert names == [own, *(f"{own}-package-{number}" for number in range(2, count + 1))]
    assert {each["metadata"]["namespace"] for each in found} == {"training"}
    for document in found:
        validate(document)
    for role, template in pod_templates(job(which)).items():
        if role == "submitter":
            continue
        (volume,) = [each for each in template["spec"]["volumes"] if each["name"] == "seatrial"]
        sources = [{"configMap": {"name": name}} for name in names]
        assert volume == {"name": "seatrial", **(sources[0] if count == 1 else {"projected": {"sources": sources}})}
        (container,) = template["spec"]["containers"]
        assert variables(container)["PYTHONPATH"] == ":".join(f"/etc/seatrial/{part.file}" for part in sent)
    (comment,) = set(re.findall(r"# seatrial comes with the (\w+)", render(which).files["rayjob.yaml"]))
    assert comment == ("ConfigMap" if count == 1 else "ConfigMaps")


@given(st.text(min_size=1, max_size=200))
@settings(max_examples=15)
def test_names_are_what_kuberay_takes(name):
    for suffix in (True, False):
        rendered = render(trial(metadata={"name": name}), name_suffix=suffix)
        assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", rendered.name)
        assert len(rendered.name) <= 47
        assert rendered.name.endswith(f"-{rendered.digest[7:15]}") == suffix


def test_the_job_is_run_once_and_cleaned_up():
    spec = job(trial())["spec"]
    assert spec["entrypoint"] == "python -m seatrial.driver --trial /etc/seatrial/trial.json --address auto"
    assert spec["shutdownAfterJobFinishes"] is True
    assert (spec["backoffLimit"], spec["entrypointNumCpus"], spec["ttlSecondsAfterFinished"]) == (0, 0, 600)
    assert spec["rayClusterSpec"]["rayVersion"] == "2.58.0"
    submitter = spec["submitterPodTemplate"]["spec"]
    assert submitter["restartPolicy"] == "Never"
    assert submitter["containers"][0]["image"] == EKS["image"]
    assert "command" not in submitter["containers"][0]
    assert "runtimeEnvYAML" not in spec


def test_the_deadline_follows_from_the_limits():
    assert deadline(trial()) == 30 * 60 + 2 * 120 + 40 * 60
    assert deadline(trial(cluster={"deadline": "90m"})) == 5400
    long = trial()
    long = long.model_copy(update={"workload": long.workload.model_copy(update={"steps": 10**6})})
    assert deadline(long) == 24 * 60 * 60


def test_head_and_workers():
    templates = pod_templates(job(trial()))
    head, worker = (templates[name]["spec"]["containers"][0] for name in ("head", "workers"))
    assert {p["name"]: p["containerPort"] for p in head["ports"]} == {
        "gcs-server": 6379,
        "dashboard": 8265,
        "client": 10001,
    }
    assert variables(head)["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert worker["resources"]["limits"] == {
        "cpu": "40", "memory": "160Gi", "nvidia.com/gpu": "4", "vpc.amazonaws.com/efa": "1",
    }  # fmt: skip
    for container in (head, worker):
        resources = container["resources"]
        assert {**resources["limits"], "ephemeral-storage": "10Gi"} == resources["requests"]
        assert variables(container)["PYTHONPATH"] == PYTHON_PATH
        assert {m["mountPath"] for m in container["volumeMounts"]} == {"/etc/seatrial", "/dev/shm", "/tmp/ray", "/fsx"}
        assert container["lifecycle"]["preStop"]
    for name in ("head", "workers"):
        annotations = templates[name]["metadata"]["annotations"]
        assert annotations["karpenter.sh/do-not-disrupt"] == "true"
        assert annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"
    seen = variables(worker)
    assert (seen["NCCL_DEBUG"], seen["NCCL_SOCKET_IFNAME"], seen["HF_HOME"]) == ("INFO", "eth0", "/fsx/huggingface")
    assert not {"RDMAV_FORK_SAFE", "FI_EFA_USE_DEVICE_RDMA"} & set(seen)


def variables(container: dict) -> dict[str, str | None]:
    return {entry["name"]: entry.get("value") for entry in container["env"]}


def test_a_gang_has_a_fixed_size_and_ray_counts_what_the_pod_has():
    cluster = job(trial())["spec"]["rayClusterSpec"]
    assert cluster["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0", "num-gpus": "0"}
    (workers,) = cluster["workerGroupSpecs"]
    assert workers["replicas"] == workers["minReplicas"] == workers["maxReplicas"] == 2
    assert workers["rayStartParams"] == {"num-gpus": "4"}


def test_one_worker_a_node_where_it_takes_all_gpus():
    own = {"seatrial.io/trial": render(trial()).name, "seatrial.io/role": "worker"}
    template = pod_templates(job(trial()))["workers"]
    assert own.items() <= template["metadata"]["labels"].items()
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = template["spec"]["affinity"]
    assert affinity["podAntiAffinity"][required][0]["labelSelector"]["matchLabels"] == own
    assert affinity["podAffinity"][required][0]["topologyKey"] == "topology.kubernetes.io/zone"
    part = pod_templates(job(trial(cluster=group(gpus=2, replicas=4))))["workers"]["spec"]
    assert "affinity" not in part
    assert part["topologySpreadConstraints"][0]["whenUnsatisfiable"] == "ScheduleAnyway"


@pytest.mark.parametrize(
    ("asked", "efa"),
    [
        ({"instanceType": "g6.12xlarge", "replicas": 2}, "1"),
        ({"instanceType": "ml.g6.12xlarge", "replicas": 2}, "1"),
        ({"instanceType": "g6.12xlarge", "replicas": 2, "efa": 0}, None),
        ({"instanceType": "g6.12xlarge", "replicas": 4, "gpus": 2}, None),
        ({"instanceType": "p5.48xlarge", "replicas": 1}, "32"),
        ({"instanceType": "p5.48xlarge", "replicas": 2, "gpus": 4}, "16"),
        ({"instanceType": "g6.2xlarge", "replicas": 8}, None),
    ],
)
def test_efa_only_where_it_is(asked, efa):
    templates = pod_templates(job(trial(cluster={"workerGroups": [asked]})))
    worker = templates["workers"]["spec"]
    container = worker["containers"][0]
    assert container["resources"]["limits"].get("vpc.amazonaws.com/efa") == efa
    assert (variables(container).get("FI_PROVIDER"), variables(container).get("FI_EFA_USE_HUGE_PAGE")) == (
        ("efa", "0") if efa else (None, None)
    )
    assert ("aws.amazon.com/efa" in str(worker["tolerations"])) == bool(efa)
    assert not re.search(r"/efa|FI_", str(templates["head"]))


def test_a_required_network_is_pinned():
    worker = pod_templates(job(trial(cluster={"require": "efa"})))["workers"]
    assert {"name": "NCCL_NET", "value": "Libfabric"} in worker["spec"]["containers"][0]["env"]
    with pytest.raises(InputError, match=r"cluster.require: saw efa, and cluster.workerGroups.0 has no EFA interface"):
        render(trial(cluster={"require": "efa", **group(efa=0)}))


def test_plain_kubernetes_has_nothing_of_aws():
    stream = "\n".join(text for name, text in render(trial(PLAIN)).files.items() if name != "configmap.yaml")
    assert not re.search(r"amazon|aws\b|/efa|EFA|FI_|instance-type", stream)


@pytest.mark.parametrize("memory", ["2Gi", "16Gi", "64Gi", "160Gi", "1100Gi"])
def test_shared_memory_holds_the_object_store_and_leaves_room(memory):
    pod = pod_templates(job(trial(cluster=group(memory=memory))))["workers"]["spec"]
    shm = next(v["emptyDir"] for v in pod["volumes"] if v["name"] == "shm")
    assert shm["medium"] == "Memory"
    assert 0.3 <= mebibytes(shm["sizeLimit"]) / mebibytes(memory) < 0.5


def test_a_small_shared_memory_gets_a_smaller_object_store():
    (workers,) = job(trial(cluster=group(shm="8Gi")))["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert int(workers["rayStartParams"]["object-store-memory"]) < 8 << 30


def test_numbers_of_the_trial_win_over_the_table():
    asked = group(gpus=3, cpu=7, memory="30Gi", efa=1, replicas=3, name="big")
    template = pod_templates(job(trial(cluster=asked)))["big"]["spec"]["containers"][0]
    assert template["resources"]["limits"] == {
        "cpu": "7", "memory": "30Gi", "nvidia.com/gpu": "3", "vpc.amazonaws.com/efa": "1",
    }  # fmt: skip


def test_a_pod_patch_is_merged():
    patch = {
        "terminationGracePeriodSeconds": 30,
        "automountServiceAccountToken": None,
        "hostNetwork": True,
        "containers": [
            {
                "name": "ray-worker",
                "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
                "env": [
                    {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
                    {"name": "HF_HOME", "valueFrom": {"configMapKeyRef": {"name": "home", "key": "hf"}}},
                ],
                "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
            }
        ],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
    }
    resource = job(trial(cluster=group(pod=patch)))
    validate(resource)
    spec = pod_templates(resource)["workers"]["spec"]
    (container,) = spec["containers"]
    assert spec["terminationGracePeriodSeconds"] == 30
    assert "automountServiceAccountToken" not in spec
    assert container["securityContext"] == {"capabilities": {"add": ["IPC_LOCK"]}}
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "4"
    env = {entry["name"]: entry for entry in container["env"]}
    assert env["HF_TOKEN"]["valueFrom"]["secretKeyRef"]["key"] == "token"
    assert "value" not in env["HF_HOME"]
    assert "NCCL_SOCKET_IFNAME" not in env  # the host's interface has another name
    assert len(container["volumeMounts"]) == len(spec["volumes"]) == 5


def test_everything_that_a_cluster_section_says_is_there():
    found = documents(trial(cluster=FULL))
    resource = found["RayJob"]
    assert "ServiceAccount" not in found
    assert found["RoleBinding"]["subjects"][0]["name"] == "trainer"
    assert resource["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpu"
    for name, template in pod_templates(resource).items():
        assert template["metadata"]["labels"]["team"] == "vision"
        assert template["metadata"]["annotations"]["owner"] == "someone@example.org"
        assert template["spec"]["priorityClassName"] == "high"
        assert template["spec"]["imagePullSecrets"] == [{"name": "registry"}]
        assert (template["spec"].get("nodeSelector") == {"pool": "cpu"}) == (name != "workers")


def test_the_readme_says_what_to_do():
    text = render(trial()).files["README.md"]
    for part in ("kubectl apply -f 00-access.yaml", "kubectl -n training get rayjob", "not pinned", "imageID", "580"):
        assert part in text
    pinned = trial(image=EKS["image"] + "@sha256:" + "0" * 64)
    assert "not pinned" not in render(pinned).files["README.md"]
    assert "kubectl exec" in render(trial(PLAIN), cluster_only=True).files["README.md"]


@pytest.mark.parametrize(
    ("which", "said"),
    [
        (builtin("local").trial, "cluster.provider: saw local; expected eks or kubernetes"),
        (trial(cluster={"provider": "ray"}), "cluster.provider: saw ray"),
        (trial(storage={"path": "/fsx/x"}), "storage.volume: missing; expected a claim that every pod mounts"),
        (trial(storage={"path": "s3://bucket/x"}), "storage.path: saw s3://bucket/x; expected a folder"),
        (trial(image=None), "cluster.rayVersion: the trial names no image, so its Ray version is unknown"),
        (trial(image=None, cluster={"rayVersion": "2.58.0"}), "image: missing"),
        (trial(image="team/ray:1"), "cluster.rayVersion: team/ray:1 has no known Ray version"),
        (trial(cluster={"workerGroups": []}), "cluster.workerGroups: missing"),
        (trial(cluster={"workerGroups": [{"instanceType": "x9.large"}]}), "cluster.workerGroups.0.gpus: is unknown"),
        (trial(cluster={"workerGroups": [{"gpus": 8, "cpu": 8}]}), "cluster.workerGroups.0.memory: is unknown"),
        (trial(cluster=group(gpus=5)), "cluster.workerGroups.0.gpus: saw 5; expected at most the 4 of g6.12xlarge"),
        (trial(cluster=group(efa=2)), "cluster.workerGroups.0.efa: saw 2; expected at most the 1"),
        (trial(cluster=group(shm="200Gi")), "cluster.workerGroups.0.shm: saw 200Gi; expected less than memory (160Gi)"),
        (trial(cluster=group(replicas=1)), "scaling.num_workers: saw 8, each with one GPU; expected at most the 4"),
        (trial(scaling={"num_workers": 7, "gpus_per_worker": 1}), "global_batch"),
        (trial(runtimeEnv={"env_vars": {"HF_TOKEN": TOKEN}}), "runtimeEnv.env_vars.HF_TOKEN: looks like a secret"),
        (trial(cluster=group(pod={"containers": [{"name": "ray-worker", "env": [{"name": "HF_TOKEN", "value": TOKEN}]}]})),
         "cluster.workerGroups.0.pod.containers.0.env.0.value: looks like a secret"),
    ],
)  # fmt: skip
def test_what_cannot_be_rendered_is_said_in_a_line(which, said):
    message = refused(which)
    assert said in message
    assert TOKEN not in message
    assert "\n" not in message


def test_several_problems_are_several_lines():
    which = trial(runtimeEnv={"env_vars": {"HF_TOKEN": TOKEN}}, storage={"path": "s3://bucket/x"})
    lines = refused(which).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["runtimeEnv.env_vars.HF_TOKEN", "storage.path"]


def test_a_component_needs_a_base():
    assert "cluster.template: missing" in refused(trial(), kustomize=True)


sizes = st.builds(lambda n, unit: f"{n}{unit}", st.integers(64, 2000), st.sampled_from(["Gi"]))
group_sections = st.fixed_dictionaries(
    {"replicas": st.integers(1, 50), "gpus": st.integers(0, 16), "cpu": st.integers(8, 200), "memory": sizes},
    optional={
        "name": st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True).filter(lambda n: not n.startswith("head")),
        "shm": st.integers(1, 60).map(lambda n: f"{n}Gi"),
        "instanceType": st.sampled_from(["g6.48xlarge", "p5.48xlarge", "unknown.type"]),
        "nodeSelector": st.just({"pool": "a"}),
        "pod": st.just({"hostIPC": False}),
    },
)


@given(
    st.lists(group_sections, min_size=1, max_size=3, unique_by=lambda g: g.get("name", id(g))),
    st.sampled_from([EKS, PLAIN]),
)
@settings(max_examples=15)
def test_any_cluster_section_renders_validly_or_is_refused(groups, base):
    which = trial(base, {"workerGroups": groups}, scaling={"num_workers": 4})
    try:
        resource = documents(which)["RayJob"]
    except InputError:
        assert any(g["gpus"] > 8 for g in groups)
        return
    validate(resource)
    templates = pod_templates(resource)
    assert len(templates) == len(groups) + 2
    assert json.dumps(resource) == json.dumps(job(which))
