"""Whether a node takes a pod, by Kubernetes' own rules."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.check.manifest import Manifest
from seatrial.check.reading import YamlDocument, documents
from seatrial.check.server.fit import FITS, Demand, demand, limits, misfit, requests, room, tolerated
from seatrial.check.values import Value
from seatrial.kube.kuberay import Operator
from seatrial.kube.nodes import Node, Taint
from tests.support.manifests import GONE, HEAD_POD, WORKER_CONTAINER, WORKER_POD, changed

pytestmark = pytest.mark.unit

NODE = Node("n1", {"zone": "a", "size": "8"}, {"cpu": Fraction(8), "memory": Fraction(32 << 30)})
NOTHING = Demand({}, {}, None, ())


def groups(changes: dict[str, Any]) -> Any:
    [document] = documents(changed(changes).encode(), "m.yaml")
    assert isinstance(document, YamlDocument)
    cluster = Manifest(Value.of(document.root, "m.yaml")).cluster
    assert cluster
    return cluster.groups


def expression(operator: str, *values: str, key: str = "zone") -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("term", "fits"),
    [
        ([expression("In", "a", "b")], True),
        ([expression("In", "b")], False),
        ([expression("NotIn", "b")], True),
        ([expression("NotIn", "b", key="no-such-label")], True),
        ([expression("Exists")], True),
        ([expression("Exists", key="no-such-label")], False),
        ([expression("DoesNotExist", key="no-such-label")], True),
        ([expression("DoesNotExist")], False),
        ([expression("Gt", "7", key="size")], True),
        ([expression("Gt", "8", key="size")], False),
        ([expression("Lt", "9", key="size")], True),
        ([expression("Lt", "9", key="no-such-label")], False),
        ([expression("Near", "a")], False),
        ([expression("In", "a"), expression("In", "9", key="size")], False),
        ([], False),
    ],
)
def test_expressions(term: list[dict[str, Any]], fits: bool) -> None:
    assert (misfit(NODE, replace(NOTHING, terms=({"matchExpressions": term},)))[0] == FITS) is fits


def test_terms_are_alternatives_and_volumes_are_not() -> None:
    here, elsewhere = {"matchExpressions": [expression("In", "a")]}, {"matchExpressions": [expression("In", "b")]}
    assert misfit(NODE, replace(NOTHING, terms=(elsewhere, here)))[0] == FITS
    assert misfit(NODE, replace(NOTHING, volumes=((here,), (elsewhere,))))[0] != FITS
    assert misfit(NODE, replace(NOTHING, terms=()))[0] != FITS
    by_name = {"matchFields": [expression("In", "n1", key="metadata.name")]}
    assert misfit(NODE, replace(NOTHING, terms=(by_name,)))[0] == FITS
    assert misfit(replace(NODE, name="n2"), replace(NOTHING, terms=(by_name,)))[0] != FITS


@pytest.mark.parametrize(
    ("toleration", "does"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "gpu", "value": "true"}, True),
        ({"key": "gpu", "operator": "Equal", "value": "present"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({}, False),
    ],
)
def test_tolerations(toleration: dict[str, Any], does: bool) -> None:
    assert tolerated(Taint("gpu", "true", "NoSchedule"), [toleration]) is does


def test_a_preference_keeps_nothing_off() -> None:
    assert misfit(replace(NODE, taints=(Taint("gpu", "", "PreferNoSchedule"),)), NOTHING)[0] == FITS


def test_requests_of_a_pod() -> None:
    [head, worker] = groups({})
    assert (requests(head)["cpu"], requests(worker)["nvidia.com/gpu"]) == (4, 4)
    [_, worker] = groups({f"{WORKER_CONTAINER}.resources.requests": GONE})
    assert requests(worker)["cpu"] == 40  # the limit
    sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    start = {"name": "i", "resources": {"requests": {"cpu": "60"}}}
    [_, worker] = groups({f"{WORKER_POD}.initContainers": [sidecar, start], f"{WORKER_POD}.containers.1": {"name": "log", "resources": {"requests": {"cpu": "500m"}}}})  # fmt: skip
    assert requests(worker)["cpu"] == 61  # the init container beside the sidecar, more than 40 + 1 + 0.5
    assert limits(worker)["cpu"] == 40


def test_the_autoscaler_sits_beside_the_head() -> None:
    [head, _] = groups({"spec.enableInTreeAutoscaling": True})
    assert requests(head)["cpu"] == Fraction(9, 2)
    own = {"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}}
    [head, _] = groups({"spec.enableInTreeAutoscaling": True, "spec.autoscalerOptions": own})
    assert requests(head)["cpu"] == 5


def test_mistyped_parts_want_nothing() -> None:
    [_, worker] = groups({f"{WORKER_POD}.tolerations": ["x", {"key": "gpu"}], f"{WORKER_POD}.affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": "x"}}}})  # fmt: skip
    assert (demand(worker).terms, demand(worker).tolerations) == ((), ({"key": "gpu"},))
    assert demand(groups({f"{HEAD_POD}.nodeSelector": GONE})[0]).labels == {}


def test_how_many_fit() -> None:
    wanted = replace(NOTHING, requests={"cpu": Fraction(3), "memory": Fraction(8 << 30)})
    assert (room(NODE, wanted), room(NODE, NOTHING)) == (2, 110)
    assert room(replace(NODE, allocatable={**NODE.allocatable, "pods": Fraction(1)}), wanted) == 1


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.integers(1, 64).map(Fraction))


@given(there=AMOUNTS, wanted=AMOUNTS, more=st.integers(0, 9))
def test_a_larger_node_is_never_worse(there: dict[str, Fraction], wanted: dict[str, Fraction], more: int) -> None:
    pod = replace(NOTHING, requests=wanted)
    small = replace(NODE, allocatable=there)
    large = replace(NODE, allocatable={key: amount + more for key, amount in there.items()})
    assert misfit(large, pod)[0] >= misfit(small, pod)[0]
    if misfit(small, pod)[0] == FITS:
        assert room(large, pod) >= room(small, pod) >= 1


def test_what_deployments_say_of_the_operator() -> None:
    def operator(image: str, *args: str, name: str = "kuberay-operator") -> Any:
        containers = [{"name": "proxy", "image": "envoy:1"}, {"name": name, "image": image, "args": list(args)}]
        spec = {"template": {"spec": {"containers": containers}}}
        return Operator.of({"metadata": {"namespace": "k"}, "spec": spec})

    assert operator("quay.io/kuberay/operator:v1.6.1").version == "1.6.1"
    assert operator("mirror:5000/kuberay/operator@sha256:ab", name="x").version == ""
    assert operator("kuberay/operator:nightly").version == ""
    assert operator("o:v1", "--feature-gates", "A=true, B=False,C").gates == {"A": True, "B": False}
    assert operator("o:v1", "--batch-scheduler=yunikorn").scheduler == "yunikorn"
    assert operator("o:v1", "--enable-batch-scheduler").scheduler == "volcano"
    assert operator("o:v1", "--enable-batch-scheduler=false", "--x").scheduler == ""
    assert operator("o:v1", "--config", "/etc/kuberay/config.yaml").scheduler is None
