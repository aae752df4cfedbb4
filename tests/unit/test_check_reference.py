"""Deviations from a published configuration: what the operator and Kubernetes fill in is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from seatrial.check.reference import Deviation, compare
from tests.support.manifests import GONE, HEAD, HEAD_CONTAINER, WORKER, WORKER_CONTAINER, changed

pytestmark = pytest.mark.unit

RESOURCES = f"{WORKER_CONTAINER}.resources"


@pytest.fixture
def found(tmp_path: Path) -> Any:
    def deviations(changes: dict[str, Any], kind: str = "RayCluster") -> dict[str, Deviation]:
        (tmp_path / "m.yaml").write_text(changed(changes, kind))
        return {each.reference: each for each in compare((tmp_path / "m.yaml",), "ray-train-dlc-eks")}

    return deviations


def test_the_dashboard_of_the_head_listens_everywhere_by_default(found: Any) -> None:
    assert "0.0.0.0" not in found({})
    local = found({f"{HEAD}.rayStartParams.dashboard-host": "127.0.0.1"})["0.0.0.0"]
    assert (local.seen, local.field) == ("127.0.0.1", "spec.headGroupSpec.rayStartParams.dashboard-host")


def test_ports_and_gpus_that_kuberay_fills_in(found: Any) -> None:
    ports = "gcs-server 6379, dashboard 8265, client 10001"
    assert ports not in found({f"{HEAD_CONTAINER}.ports": GONE})
    assert (
        found({f"{HEAD_CONTAINER}.ports": [{"name": "gcs", "containerPort": 6379}]})[ports].seen
        == "gcs 6379, metrics 8080"
    )
    assert "4" not in found({f"{WORKER}.rayStartParams.num-gpus": GONE})


@pytest.mark.parametrize(
    ("changes", "equal"),
    [
        ({f"{RESOURCES}.requests": GONE}, True),
        ({f"{RESOURCES}.requests.ephemeral-storage": "1Gi"}, True),
        ({f"{RESOURCES}.requests.memory": "163840Mi"}, True),
        ({f"{RESOURCES}.requests.memory": "100Gi"}, False),
        ({f"{RESOURCES}.limits.cpu": GONE}, False),
        ({f"{RESOURCES}.requests.[nvidia.com/gpu]": "2"}, False),
    ],
)  # fmt: skip
def test_requests_equal_limits_in_what_decides_the_class(found: Any, changes: dict[str, Any], equal: bool) -> None:
    assert ("equal to limits" not in found(changes)) is equal


def test_amounts_are_compared_not_their_spelling(found: Any) -> None:
    assert "160Gi" not in found({f"{RESOURCES}.limits.memory": "163840Mi"})
    assert found({f"{RESOURCES}.limits.memory": "${MEMORY}"})["160Gi"].seen == "${MEMORY}"
