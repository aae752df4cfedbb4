"""Every typed layer of the environment takes what our own writers write, and loses nothing that evidence reads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from seatrial.canon import canonical, parse, plain
from seatrial.events.layers import (
    NAMES,
    HostSeen,
    Job,
    Kubernetes,
    Layer,
    Network,
    Packages,
    PodSeen,
    RayVersion,
    Sharding,
    Torch,
    Unit,
)
from seatrial.events.schema import Environment
from seatrial.evidence import gather
from seatrial.kube.pods import Pod
from seatrial.launch.inspect.write import Inspection, InspectionDirectory
from seatrial.probe import interfaces
from seatrial.probe.observed import HostObserver
from seatrial.probe.packages import installed
from tests.support.layers import lost

pytestmark = pytest.mark.unit

POD = Pod("pod-1", "node-1", "10.0.0.1", "Running", "head", "head", "ours/image", "ours/image@sha256:0", True, 0)


def read_back(content: Any) -> Any:
    """As a reader has it: from a line of JSON."""
    return parse(canonical(plain(content)))


def inspected(tmp_path: Path, **seen: Any) -> dict[str, dict[str, Any]]:
    """The layers that an inspection writes, by their names."""
    directory = InspectionDirectory(Inspection("theirs", {}, [], **seen), tmp_path)
    directory.finish()
    run = gather(directory.layout.root)
    return {e.layer: e.content for s in (run.driver, *run.probes) for e in s.all(Environment)}


def test_what_the_observer_of_this_host_sees(tmp_path: Path) -> None:
    with subprocess.Popen(
        ["ray::RayTrainWorker", "-c", "input()"], executable=sys.executable, stdin=subprocess.PIPE
    ) as worker:
        seen = HostObserver([worker.pid, 2**22 + 1], "01", str(tmp_path / "logs")).watch(0.0)
        worker.communicate(b"\n")
    assert seen["processes"].keys() == {str(worker.pid)}
    content = inspected(tmp_path, hosts={"ab12cd34ef": seen})[NAMES[HostSeen]]
    # Of a host with GPUs `gpus` says which, and of any other why none.
    assert lost(HostSeen, content, "gpus") == []


def test_what_an_inspection_writes_of_the_job(tmp_path: Path) -> None:
    layers = inspected(
        tmp_path,
        job={"status": "RUNNING", "job_id": "02", "start_time": 1},
        ray={"version": "2.58.0", "python": "3.11.7", "nodes": 2},
        kubernetes={
            "resource": "RayJob ml/theirs", "cluster": "ours", "status": {"jobStatus": "RUNNING"}, "effective": [],
            "pods": [POD.json()], "warnings": [],
        },
        problems={"node": "no answer"},
    )  # fmt: skip
    assert lost(Job, layers["job"]) == []
    assert lost(RayVersion, layers["ray"]) == []
    assert lost(Kubernetes, layers["kubernetes"], "effective_unknown") == []
    assert lost(PodSeen, layers["kubernetes"]["pods"][0]) == []


def test_what_a_probe_writes() -> None:
    network = read_back(interfaces.describe(interfaces.addresses()))
    assert network["interfaces"]
    assert lost(Network, network) == []
    assert lost(Packages, read_back({"installed": installed()})) == []


def test_what_a_rank_writes() -> None:
    torch = pytest.importorskip("torch")
    from seatrial.train.environment import process_layers

    rank: Any = SimpleNamespace(device=torch.device("cpu"), is_local_rank_zero=True)
    layers = {event.layer: read_back(event.content) for event in process_layers(rank)}
    assert lost(Torch, layers["torch"]) == []
    assert lost(Packages, layers["packages"]) == []
    unit = Unit(name="root", tensors=1, trainable=8, frozen=0, padded=8, padded_trainable=8)
    sharding = Sharding(units=(unit,), mesh=(1, 2), param_dtype="fp32", reduce_dtype="fp32", reshard_after_forward=True)
    assert lost(Sharding, read_back(sharding.content())) == []


def test_a_field_of_another_name_is_lost_and_a_value_of_another_type_refused() -> None:
    content = read_back(interfaces.describe(interfaces.addresses()))
    assert lost(Network, {"links": content["interfaces"]}) == [".interfaces"]
    with pytest.raises(ValidationError):
        lost(Network, {"interfaces": []})


def test_every_layer_has_a_name() -> None:
    assert all(issubclass(shape, Layer) for shape in NAMES)
    assert len(set(NAMES.values())) == len(NAMES)
