"""What the operator makes of a group, held against what KubeRay's pod.go does."""

from __future__ import annotations

from typing import Any

import pytest

from seatrial.check.manifest import Manifest, RayClusterSpec
from seatrial.check.operator import command, head_ports, probes, shared_memory, start_line
from seatrial.check.reading import YamlDocument, documents
from seatrial.check.values import CannotTell, Value
from seatrial.kube.apimachinery import version
from tests.support.manifests import GONE, HEAD, HEAD_CONTAINER, WORKER, WORKER_CONTAINER, WORKER_POD, changed

pytestmark = pytest.mark.unit

LIMITS = f"{WORKER_CONTAINER}.resources.limits"
NO_SHM = {f"{WORKER_POD}.volumes.1": GONE, f"{WORKER_CONTAINER}.volumeMounts.1": GONE}


def cluster(changes: dict[str, Any], kind: str = "RayCluster") -> RayClusterSpec:
    [document] = documents(changed(changes, kind).encode(), "m.yaml")
    assert isinstance(document, YamlDocument)
    found = Manifest(Value.of(document.root, "m.yaml")).cluster
    assert found
    return found


def worker_line(changes: dict[str, Any]) -> str:
    return start_line(cluster(changes).workers[0])


def test_the_head_line() -> None:
    assert start_line(cluster({}).head) == (
        "ray start --head --block --dashboard-agent-listen-port=52365 --dashboard-host=0.0.0.0 "
        "--memory=34359738368 --metrics-export-port=8080 --num-cpus=0 --num-gpus=0"
    )


def test_the_worker_line() -> None:
    assert worker_line({}) == (
        "ray start --address=<head service>:6379 --block --dashboard-agent-listen-port=52365 "
        "--memory=171798691840 --metrics-export-port=8080 --num-cpus=40 --num-gpus=4"
    )


@pytest.mark.parametrize(
    ("changes", "has", "lacks"),
    [
        ({f"{LIMITS}.cpu": "200m"}, "--num-cpus=1", ""),  # rounded up
        ({f"{LIMITS}.cpu": GONE}, "--num-cpus=40", ""),  # from the request
        ({f"{LIMITS}.memory": GONE}, "", "--memory="),  # never from the request
        ({f"{WORKER}.rayStartParams": {}}, "--num-gpus=4", ""),
        ({f"{WORKER}.rayStartParams": {"resources": '"{\\"x\\": 1}"'}}, "", "--num-gpus"),  # unparsable: nothing detected
        ({f"{WORKER}.rayStartParams": {"resources": "'{\"x\": 1}'"}}, "--num-gpus=4", ""),
        ({f"{WORKER}.rayStartParams": {"log-color": "false", "no-redirect-output": "false"}}, "--log-color=false", "no-redirect"),
        ({f"{WORKER}.rayStartParams": {"block": "false"}}, "--block", "false"),
        ({f"{WORKER}.resources": {"CPU": "8", "x": "2"}, f"{WORKER}.rayStartParams": {}}, "--num-cpus=8", "--num-cpus=40"),
        ({f"{WORKER}.labels": {"b": "1", "a": "2"}}, "--labels=a=2,b=1", ""),
        ({f"{HEAD}.rayStartParams.port": "6380"}, "--address=<head service>:6380", ""),
    ],
)  # fmt: skip
def test_what_changes_the_worker_line(changes: dict[str, Any], has: str, lacks: str) -> None:
    line = worker_line(changes)
    assert has in line
    assert not lacks or lacks not in line


def test_gpu_keys() -> None:
    base = {f"{WORKER}.rayStartParams": {}, f"{LIMITS}.[nvidia.com/gpu]": GONE}
    assert "--num-gpus=2" in worker_line({**base, f"{LIMITS}.[amd.com/gpu]": "2"})
    assert "--num-gpus=3" in worker_line({**base, f"{LIMITS}.[nvidia.com/mig-2g.20gb]": "3"})
    assert "--num-gpus" not in worker_line({**base, f"{LIMITS}.[nvidia.com/gpu.shared]": "2"})
    assert '"TPU":4.0' in worker_line({**base, f"{LIMITS}.[google.com/tpu]": "4"})


def test_shared_memory() -> None:
    own = shared_memory(cluster({}).workers[0])
    assert (own.size, own.injected) == (54 << 30, False)
    added = shared_memory(cluster(NO_SHM).workers[0])
    assert (added.size, added.injected) == (160 << 30, True)
    plasma = shared_memory(cluster({**NO_SHM, f"{WORKER}.rayStartParams.plasma-directory": "/x"}).workers[0])
    assert (plasma.size, plasma.injected) == (64 << 20, False)
    bare = {**NO_SHM, f"{LIMITS}.memory": GONE, f"{WORKER_CONTAINER}.resources.requests.memory": GONE}
    assert shared_memory(cluster(bare).workers[0]).size is None


@pytest.mark.parametrize(
    ("kuberay", "ray", "kind"),
    [("1.6", "2.58.0", "http"), ("1.7", "2.53.0", "http"), ("1.5", "2.58.0", "wget"), ("1.6", "2.52.1", "wget"), ("1.6", "latest", "wget")],
)  # fmt: skip
def test_probes(kuberay: str, ray: str, kind: str) -> None:
    found = probes(cluster({"spec.rayVersion": ray}).head, kuberay)
    assert (found.readiness, found.liveness) == (kind, kind)


def test_probes_of_a_service_worker_and_own_probes() -> None:
    assert probes(cluster({}, "RayService").workers[0], "1.6").readiness == "wget"
    own = {f"{HEAD_CONTAINER}.livenessProbe": {"tcpSocket": {"port": 6379}}}
    assert probes(cluster(own).head, "1.6").liveness == "own"


def test_command() -> None:
    assert "ENTRYPOINT does not run" in command(cluster({}).head).reason
    own = command(cluster({f"{HEAD_CONTAINER}.command": ["sleep", "9"]}).head)
    assert own.value.startswith("/bin/bash -c -- 'sleep 9 && ulimit -n ")
    kept = {"metadata.annotations": {"ray.io/overwrite-container-cmd": "True"}, f"{HEAD_CONTAINER}.args": ["x"]}
    assert command(cluster(kept).head).value == "x"
    template = {
        f"{HEAD}.template.metadata.annotations.[ray.io/overwrite-container-cmd]": "true",
        f"{HEAD_CONTAINER}.args": ["y"],
    }
    assert command(cluster(template).head).value == "y"
    assert command(cluster({f"{HEAD_CONTAINER}.args": ["ray start --head"]}).head).value == "ray start --head"


def test_ports_of_the_head_service() -> None:
    assert set(head_ports(cluster({}))) == {"gcs-server", "dashboard", "client", "metrics"}
    assert set(head_ports(cluster({f"{HEAD_CONTAINER}.ports": [{"containerPort": 8265}]}))) == {"8265-port", "metrics"}
    none = head_ports(cluster({f"{HEAD_CONTAINER}.ports": GONE}))
    assert none.keys() == {"gcs-server", "dashboard", "client", "serve", "metrics"}


def test_a_placeholder_is_unknown_only_where_it_matters() -> None:
    with pytest.raises(CannotTell, match=r"\$\{CPUS\}"):
        worker_line({f"{LIMITS}.cpu": "${CPUS}"})
    assert "--num-cpus=8" in worker_line({f"{LIMITS}.cpu": "${CPUS}", f"{WORKER}.rayStartParams.num-cpus": "8"})
    assert "--num-gpus=${GPUS}" in worker_line({f"{WORKER}.rayStartParams.num-gpus": "${GPUS}", f"{LIMITS}.[nvidia.com/gpu]": "${GPUS}"})  # fmt: skip


@pytest.mark.parametrize(("text", "parsed"), [("2.53.0", (2, 53, 0)), ("v1.6", (1, 6)), ("1.6.2-rc.1", (1, 6, 2)), ("latest", None), ("2", None), ("2.058.0", (2, 58, 0)), ("02.58.0", None)])  # fmt: skip
def test_versions_as_apimachinery_parses_them(text: str, parsed: tuple[int, ...] | None) -> None:
    assert version(text) == parsed
