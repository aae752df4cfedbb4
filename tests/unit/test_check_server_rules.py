"""Every rule that needs a cluster, on one that breaks it and on one that does not, behind the port."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from seatrial.check.command import Checked, Settings, run
from seatrial.check.rules import load
from seatrial.check.runner import CheckResult, Selection
from seatrial.check.server.asking import ask
from seatrial.check.server.rule import CHECKS, SERVER_RULES
from tests.support.manifests import GONE, HEAD_POD, WORKER, WORKER_CONTAINER, WORKER_POD, changed
from tests.unit.server_answers.world import (
    ACCOUNTS,
    CLAIMS,
    CRD,
    DAEMON_SETS,
    DEPLOYMENTS,
    ML,
    NODE_POOLS,
    NODES,
    QUEUES,
    QUOTAS,
    STORAGE_CLASSES,
    VOLUMES,
    Recorded,
    World,
    empty,
    status,
)

pytestmark = pytest.mark.unit

load()

Change = Callable[[World], World]
AMOUNTS = f"{WORKER_CONTAINER}.resources"
LIMITS = f"{AMOUNTS}.limits"
OPERATOR = "items.0.spec.template.spec.containers.0"
EPHEMERAL = {
    "name": "scratch",
    "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "nvme"}}},
}
KUEUE = {"metadata.labels": {"kueue.x-k8s.io/queue-name": "training"}}
NO_GPUS = {f"items.{n}.status.allocatable.[nvidia.com/gpu]": "0" for n in (1, 2)}
OLD_DRIVERS = {f"items.{n}.metadata.labels.[nvidia.com/cuda.driver-version.major]": "570" for n in (1, 2)}


def gates(text: str) -> Change:
    return lambda w: w.set(DEPLOYMENTS, {f"{OPERATOR}.args": [text]})


def image(reference: str) -> Change:
    return lambda w: w.set(DEPLOYMENTS, {f"{OPERATOR}.image": reference})


def newer_crd(way: str) -> Change:
    """A CRD that has a field as well."""
    where = f"spec.versions.0.schema.openAPIV3Schema.properties.spec.properties.{way}"
    return lambda w: w.set(CRD, {where: {"type": "object", "x-kubernetes-preserve-unknown-fields": True}})


@dataclass(frozen=True)
class Case:
    """The clean manifest with changes, and the world with some: broken, and right."""

    rule: str
    manifest: dict[str, Any] = field(default_factory=dict)
    broken: Change = lambda world: world
    right: Change | None = None  # the clean world where it is the broken one that changes
    right_manifest: dict[str, Any] = field(default_factory=dict)  # beside a right world of its own
    severity: str = "error"
    kind: str = "RayCluster"


CASES = [
    Case("server-rejects", broken=lambda w: w.post(status("422"))),
    Case("server-rejects", broken=lambda w: w.post(status("403_webhook"))),
    Case("crd-missing", broken=lambda w: w.say(CRD, (404, {}))),
    Case("crd-missing", {"apiVersion": "ray.io/v1alpha1"}),
    Case("crd-older-than-manifest", {"spec.networkPolicy": {"mode": "DenyAll"}}),
    Case("operator-older-than-field", {"spec.authOptions": {"mode": "token"}}, image("quay.io/kuberay/operator:v1.4.2"), right_manifest={"spec.authOptions": {"mode": "token"}}),
    Case("feature-gate-off", {"spec.tlsOptions": {"enabled": True}}, newer_crd("tlsOptions"),
         right=lambda w: newer_crd("tlsOptions")(gates("--feature-gates=RayClusterMTLS=true")(w)), right_manifest={"spec.tlsOptions": {"enabled": True}}),
    Case("batch-scheduler-off", {"metadata.labels": {"volcano.sh/queue-name": "q"}}, severity="warning", right=gates("--batch-scheduler=volcano"), right_manifest={"metadata.labels": {"volcano.sh/queue-name": "q"}}),
    Case("namespace-missing", broken=lambda w: w.say(ML, status("404"))),
    Case("namespace-missing", broken=lambda w: w.set(ML, {"status.phase": "Terminating"})),
    Case("sa-missing", broken=lambda w: w.lose(ACCOUNTS, "train")),
    Case("pvc-missing", broken=lambda w: w.lose(CLAIMS, "fsx-claim")),
    Case("pvc-not-bound", broken=lambda w: w.set(CLAIMS, {"items.0.status.phase": "Pending"}), severity="warning"),
    Case("pvc-not-bound", broken=lambda w: w.set(CLAIMS, {"items.0.status.phase": "Lost"})),
    Case("pvc-rwo-many-pods", broken=lambda w: w.set(CLAIMS, {"items.0.spec.accessModes": ["ReadWriteOnce"], "items.0.spec.storageClassName": "gp3"})),
    Case("storage-class-missing", {f"{WORKER_POD}.volumes.3": EPHEMERAL},
         right=lambda w: w.set(STORAGE_CLASSES, {"items.0.metadata.name": "nvme"}), right_manifest={f"{WORKER_POD}.volumes.3": EPHEMERAL}),
    Case("no-node-fits", broken=lambda w: w.set(NODES, {f"items.{n}.status.allocatable.cpu": "39" for n in (1, 2)})),
    Case("no-node-fits", broken=lambda w: w.with_karpenter().lose(NODES, "cpu-1"), severity="warning"),
    Case("too-few-nodes", broken=lambda w: w.lose(NODES, "gpu-2")),
    Case("device-plugin-missing", broken=lambda w: w.set(NODES, NO_GPUS).lose(DAEMON_SETS, "nvidia-device-plugin-daemonset")),
    Case("cuda-driver-too-old", broken=lambda w: w.set(NODES, OLD_DRIVERS)),
    Case("kueue-queue-missing", KUEUE, lambda w: w.lose(QUEUES, "training"), right_manifest=KUEUE),
    Case("kueue-queue-missing", KUEUE, lambda w: w.set("/apis", {"groups.4": GONE}), right_manifest=KUEUE, severity="warning"),
    Case("kueue-queue-inactive", KUEUE, lambda w: w.set(QUEUES, {"items.0.status.conditions.0.status": "False"}), right_manifest=KUEUE, severity="warning"),
    Case("quota-too-small", broken=lambda w: w.set(QUOTAS, {"items.0.spec.hard.[requests.nvidia.com/gpu]": "7"})),
    Case("quota-too-small", broken=lambda w: w.set(QUOTAS, {"items.0.status.used.[requests.nvidia.com/gpu]": "9"}), severity="warning"),
]  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    def write(changes: dict[str, Any] | str, kind: str = "RayCluster", name: str = "m.yaml") -> Path:
        (tmp_path / name).write_text(changes if isinstance(changes, str) else changed(changes, kind))
        return tmp_path / name

    return write


def answered(path: Path, world: World, settings: Settings | None = None, *, offline: bool = False) -> Checked:
    """What the cluster adds to nothing, or to what the files alone show."""
    checked = run((path,), replace(settings or Settings(kuberay="1.7"), server=True))
    if not offline:
        checked = Checked(CheckResult(resources=1), [], (), checked.input)
    return ask(checked, Recorded(world), settings=settings)


def rules(checked: Checked) -> set[str]:
    return {finding.rule for finding in checked.outcome.findings if finding.severity != "info"}


def test_every_rule_has_a_check_and_a_case() -> None:
    assert CHECKS.keys() == {case.rule for case in CASES}
    assert set(CHECKS) - set(SERVER_RULES) == {"pvc-rwo-many-pods"}  # which files alone can break as well
    assert all(rule.needs == ("server",) and rule.source.startswith("https://") for rule in SERVER_RULES.values())


@pytest.mark.parametrize("kind", ["RayCluster", "RayJob"])
def test_the_clean_manifest_in_the_clean_world(kind: str, file: Callable[..., Path]) -> None:
    checked = answered(file({}, kind), World(), offline=True)
    assert (rules(checked), checked.notes, checked.outcome.problems) == (set(), (), [])


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: f"{CASES[n].rule}-{n}")
def test_breaks(number: int, file: Callable[..., Path]) -> None:
    case = CASES[number]
    checked = answered(file(case.manifest, case.kind), case.broken(World()))
    [found, *_] = [finding for finding in checked.outcome.findings if finding.rule == case.rule]
    assert (found.severity, found.line > 0) == (case.severity, True), found


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: f"{CASES[n].rule}-{n}")
def test_holds(number: int, file: Callable[..., Path]) -> None:
    case = CASES[number]
    checked = answered(file(case.right_manifest, case.kind), (case.right or (lambda world: world))(World()))
    assert case.rule not in rules(checked), checked.outcome.findings
    assert case.rule not in {untold.rule for untold in checked.outcome.cannot_tell}
    assert checked.notes == (), "a rule without an answer has not passed"


def seen(checked: Checked, rule: str) -> list[str]:
    return [finding.message for finding in checked.outcome.findings if finding.rule == rule]


def test_what_the_api_server_refuses_is_shown_where_it_is(file: Callable[..., Path]) -> None:
    path = file({})
    checked = answered(path, World().post(status("422")))
    [found] = [f for f in checked.outcome.findings if f.rule == "server-rejects"]
    assert found.field == "spec.workerGroupSpecs[0].rayStartParams.num-gpus"
    assert path.read_text().splitlines()[found.line - 1].strip().startswith('"num-gpus": "4"')
    assert "must be of type string" in found.message
    checked = answered(path, World().post(status("403_webhook")))
    assert "images must come from the mirror" in seen(checked, "server-rejects")[0]


def test_a_field_of_no_crd_is_said_once(file: Callable[..., Path]) -> None:
    path = file({"spec.headGroupSpec.ingressOptions": {}})
    checked = answered(path, World().post(status("400_strict")))
    assert "server-rejects" not in rules(checked)
    assert "came with KubeRay 1.7" in seen(checked, "crd-older-than-manifest")[0]
    checked = answered(file({"spec.headGroupSpec.typo": 1}), World(), offline=True)
    assert rules(checked) == {"unknown-field"}


def test_a_placeholder_that_the_server_refuses_is_not_wrong(file: Callable[..., Path]) -> None:
    path = file({f"{WORKER}.rayStartParams.num-gpus": "${GPUS}"})
    checked = answered(path, World().post(status("422")))
    assert "server-rejects" not in rules(checked)
    assert "server-rejects" in {untold.rule for untold in checked.outcome.cannot_tell}


def test_the_cluster_knows_better_than_the_version_given(file: Callable[..., Path]) -> None:
    path, settings = file({"spec.upgradeStrategy": {"type": "None"}}), Settings(kuberay="1.5", server=True)
    assert "field-newer-than-kuberay" in rules(run((path,), settings))
    checked = run((path,), settings)
    world = newer_crd("upgradeStrategy")(World())
    assert rules(ask(checked, Recorded(world))) == set()
    assert rules(ask(checked, Recorded(image("mirror/kuberay/operator:nightly")(world)))) == {
        "field-newer-than-kuberay"
    }


def test_a_gate_that_is_on_takes_the_warning_away(file: Callable[..., Path]) -> None:
    path = file({"spec.tlsOptions": {"enabled": True}})
    assert "alpha-gate-field" in rules(run((path,), Settings(kuberay="1.7")))
    world = newer_crd("tlsOptions")(gates("--feature-gates=AllAlpha=true,RayClusterStatusConditions=true")(World()))
    assert rules(answered(path, world, offline=True)) == set()
    newer = image("quay.io/kuberay/operator:v1.9.0")(newer_crd("tlsOptions")(World()))
    assert rules(answered(path, newer, offline=True)) == {"alpha-gate-field"}


def test_a_batch_scheduler_in_a_file_is_unknown(file: Callable[..., Path]) -> None:
    path = file({"metadata.labels": {"volcano.sh/queue-name": "q"}})
    checked = answered(path, World().set(DEPLOYMENTS, {f"{OPERATOR}.args": ["--config", "/etc/kuberay/config.yaml"]}))
    assert "batch-scheduler-off" not in rules(checked)
    assert "configuration file" in checked.notes[0]


def test_what_the_input_brings_need_not_be_there(file: Callable[..., Path]) -> None:
    beside = """
---
apiVersion: v1
kind: Namespace
metadata: {name: ml}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: train, namespace: ml}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: fsx-claim, namespace: ml}
spec: {accessModes: [ReadWriteMany], storageClassName: fsx-sc}
"""
    world = World().say(ML, status("404")).say(ACCOUNTS, empty()).say(CLAIMS, empty())
    checked = answered(file(changed({}) + beside), world)
    assert rules(checked) == set()
    assert ["namespace ml does not exist yet" in note for note in checked.notes] == [True]
    checked = answered(file(changed({}) + beside.replace("fsx-sc", "fsx-typo")), World())
    assert "storage-class-missing" in rules(checked)


def test_a_missing_namespace_is_the_only_finding(file: Callable[..., Path]) -> None:
    world = World().say(ML, status("404")).say(ACCOUNTS, empty()).say(CLAIMS, empty()).post(status("404"))
    assert rules(answered(file({}), world)) == {"namespace-missing"}


def test_a_claim_that_waits_for_its_first_pod_is_fine(file: Callable[..., Path]) -> None:
    world = World().set(CLAIMS, {"items.0.status.phase": "Pending", "items.0.spec.storageClassName": "gp3"})
    assert "pvc-not-bound" not in rules(answered(file({}), world))


def test_a_class_of_volumes_made_by_hand(file: Callable[..., Path]) -> None:
    path = file({f"{WORKER_POD}.volumes.3": EPHEMERAL})
    made = World().set(VOLUMES, {"items.0.spec.storageClassName": "nvme"})
    assert "storage-class-missing" not in rules(answered(path, made))
    unknown = answered(path, World().say(VOLUMES, status("403")))
    assert [f.severity for f in unknown.outcome.findings if f.rule == "storage-class-missing"] == ["warning"]


def test_no_node_fits_says_how_far_nodes_come(file: Callable[..., Path]) -> None:
    cases: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
        ({}, {"items.1.status.allocatable.cpu": "39", "items.2.status.allocatable.cpu": "39"}, "cpu 39 of 40", f"{AMOUNTS}.requests.cpu"),
        ({}, {"items.1.status.conditions": [], "items.2.spec.unschedulable": True}, "1 not ready", f"{WORKER_POD}.tolerations"),
        ({f"{WORKER_POD}.tolerations": []}, {}, "2 taint nvidia.com/gpu=true:NoSchedule", f"{WORKER_POD}.tolerations"),
        ({f"{WORKER_POD}.nodeSelector.pool": "gpu"}, {}, "3 other labels", f"{WORKER_POD}.nodeSelector"),
        ({}, {f"items.{n}.status.allocatable.[vpc.amazonaws.com/efa]": GONE for n in (1, 2)}, "2 no vpc.amazonaws.com/efa", "vpc.amazonaws.com/efa"),
    ]  # fmt: skip
    for manifest, nodes, words, place in cases:
        checked = answered(file(manifest), World().set(NODES, nodes))
        [found] = [f for f in checked.outcome.findings if f.rule == "no-node-fits"]
        assert words in found.seen
        assert place.replace(".0.", "[0].").rpartition("containers[0].")[2].rpartition("template.")[2] in found.field


def test_nodes_that_may_come_make_it_a_warning(file: Callable[..., Path]) -> None:
    for world, severity, words in (
        (World(), "error", "there are none"),
        (World().with_karpenter(), "warning", "; NodePool gpu may add one"),
        (World().say(NODE_POOLS, status("403")), "warning", "; whether an autoscaler may add one is unknown"),
    ):
        checked = answered(file({}), world.say(NODES, empty()))
        found = [f for f in checked.outcome.findings if f.rule == "no-node-fits"]
        assert [(f.severity, f.seen.endswith(words)) for f in found] == [(severity, True)] * 2


def test_a_volume_holds_its_pods_in_its_zone(file: Callable[..., Path]) -> None:
    term = {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b"]}]}
    world = World().set(VOLUMES, {"items.0.spec.nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}})
    assert len(seen(answered(file({}), world), "no-node-fits")) == 2
    checked = answered(file({}), world.say(VOLUMES, status("403")))
    assert "no-node-fits" not in rules(checked)
    assert checked.notes == ("persistent volumes are unknown: 403 (needs get /api/v1/persistentvolumes)",)


def test_some_old_drivers_are_a_warning(file: Callable[..., Path]) -> None:
    [one, *_] = OLD_DRIVERS.items()
    checked = answered(file({}), World().set(NODES, dict([one])))
    assert [f.severity for f in checked.outcome.findings if f.rule == "cuda-driver-too-old"] == ["warning"]
    assert "driver 570 of gpu-1: 1 of 2 that would take the pod" in seen(checked, "cuda-driver-too-old")[0]
    own = {"metadata.annotations": {"ray.io/overwrite-container-cmd": "true"}}
    assert "cuda-driver-too-old" not in rules(answered(file(own), World().set(NODES, OLD_DRIVERS)))
    unlabelled = {f"items.{n}.metadata.labels.{key}": GONE for n in (1, 2) for key in ("[nvidia.com/cuda.driver-version.major]", "[nvidia.com/cuda.driver.major]")}  # fmt: skip
    assert "cuda-driver-too-old" not in rules(answered(file({}), World().set(NODES, unlabelled)))


def test_a_running_resource_is_not_counted_twice(file: Callable[..., Path]) -> None:
    full = {"items.0.status.used.[requests.nvidia.com/gpu]": "9"}
    assert "quota-too-small" not in rules(answered(file({}), World().set(QUOTAS, full).post(status("409"))))


def test_a_scoped_quota_is_only_noted(file: Callable[..., Path]) -> None:
    world = World().set(QUOTAS, {"items.0.spec.hard.pods": "1", "items.0.spec.scopes": ["Terminating"]})
    checked = answered(file({}), world)
    assert "quota-too-small" not in rules(checked)
    assert "counts only some pods" in checked.notes[0]


def test_what_was_not_answered_is_said_once(file: Callable[..., Path]) -> None:
    world = World()
    for path in world.answers:
        world.say(path, status("403"))
    checked = answered(file(changed({}) + "\n---\n" + changed({"metadata.name": "other"})), world.post(status("403")))
    assert rules(checked) == set()
    assert "nodes are unknown: 403 (needs get /api/v1/nodes)" in checked.notes
    assert len(checked.notes) == len(set(checked.notes)) > 8
    assert sum("server-side dry run" in note for note in checked.notes) == 2


def test_a_cluster_that_knows_nobody_is_a_problem(file: Callable[..., Path]) -> None:
    world = World().post(status("401"))
    for path in world.answers:
        world.say(path, status("401"))
    checked = answered(file({}), world)
    [problem] = checked.outcome.problems
    assert problem.line() == "server: recorded does not answer: 401; expected a cluster that can be asked"
    assert rules(checked) == set()


def test_findings_are_set_aside_as_others(file: Callable[..., Path]) -> None:
    note = {"metadata.annotations": {"seatrial.io/ignore": "no-node-fits: nodes come on Monday"}}
    checked = answered(file(note), World().say(NODES, empty()))
    found = [f for f in checked.outcome.findings if f.rule == "no-node-fits"]
    assert {f.suppressed for f in found} == {"nodes come on Monday"}


def test_only_chosen_rules_run(file: Callable[..., Path]) -> None:
    world = World().set(CLAIMS, {"items.0.spec.accessModes": ["ReadWriteOncePod"]}).say(NODES, empty())
    chosen = Settings(Selection(select=("pvc",)), kuberay="1.7")
    assert rules(answered(file({}), world, chosen)) == {"pvc-rwo-many-pods"}
    others = Settings(Selection(ignore=("pvc-rwo-many-pods", "device-plugin-missing")), kuberay="1.7")
    assert rules(answered(file({}), world, others)) == {"no-node-fits"}


def test_the_release_that_was_assumed_is_compared(file: Callable[..., Path]) -> None:
    path, settings = file({}), Settings(Selection(select=("pvc-rwo-many-pods",)), kuberay="1.6", server=True)
    checked = ask(run((path,), settings), Recorded(World()), settings=settings)
    assert checked.notes[-1].endswith("assumed 1.6: `seatrial check --kuberay 1.7` assumes the same")


def test_a_placeholder_is_unknown_not_wrong(file: Callable[..., Path]) -> None:
    manifest = {
        f"{WORKER}.replicas": "${N}",
        f"{WORKER_POD}.nodeSelector.pool": "${POOL}",
        f"{HEAD_POD}.serviceAccountName": "${SA}",
        f"{WORKER_POD}.volumes.0.persistentVolumeClaim.claimName": "<your-claim>",
    }
    checked = answered(file(manifest), World())
    untold = {u.rule for u in checked.outcome.cannot_tell}
    assert {"no-node-fits", "too-few-nodes", "sa-missing", "pvc-missing", "quota-too-small"} <= untold
    assert rules(checked) & set(SERVER_RULES) == set()


def test_nothing_to_ask_about_asks_nothing(file: Callable[..., Path]) -> None:
    path = file("kind: ConfigMap\napiVersion: v1\n")
    checked = run((path,), Settings())
    assert ask(checked) is checked  # no kubeconfig is looked for


def test_standard_input_is_asked_about_too() -> None:
    read = run((Path("-"),), Settings(server=True), io.BytesIO(changed({}).encode()))
    world = World().lose(ACCOUNTS, "train")
    found = ask(Checked(CheckResult(resources=1), [], (), read.input), Recorded(world))
    assert {(f.path, f.rule) for f in found.outcome.findings} == {("<stdin>", "sa-missing")}


def test_each_file_is_read_once_for_both(file: Callable[..., Path]) -> None:
    """What the cluster is asked about is what was checked, even where the file is gone by then."""
    path = file({})
    checked = run((path,), Settings(kuberay="1.7", server=True))
    path.unlink()
    assert rules(ask(checked, Recorded(World().lose(ACCOUNTS, "train")))) == {"sa-missing"}


def test_what_a_folder_brings_beside_counts_though_it_is_not_checked(file: Callable[..., Path]) -> None:
    folder = file({}).parent
    file("{kind: ServiceAccount, apiVersion: v1, metadata: {name: train, namespace: ml}}", name="account.yaml")
    file("kind: ServiceAccount\n  no: YAML", name="broken.yaml")
    checked = answered(folder, World().say(ACCOUNTS, empty()), offline=True)
    assert (rules(checked), checked.outcome.problems, checked.paths) == (set(), [], [str(folder / "m.yaml")])


def test_what_was_not_kept_is_not_asked_about(file: Callable[..., Path]) -> None:
    with pytest.raises(ValueError, match="not kept"):
        ask(run((file({}),), Settings()), Recorded(World()))
