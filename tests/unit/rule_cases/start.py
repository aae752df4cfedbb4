"""Cases for the rules of this name's module."""

from __future__ import annotations

from tests.support.manifests import HEAD, WORKER
from tests.support.rule_case import Case

_PARAMS = f"{WORKER}.rayStartParams"
_HEAD_PARAMS = f"{HEAD}.rayStartParams"

CASES: tuple[Case, ...] = (
    Case("ray-start-option-unknown", {f"{_PARAMS}.numcpus": "4"}, {f"{_PARAMS}.num-cpus": "40"}),
    Case("ray-start-option-unknown", {f"{_PARAMS}.num_cpus": "4"}, {f"{_PARAMS}.no-such": "false"}),
    Case("ray-start-option-unknown", {f"{_PARAMS}.storage": "/fsx"}),
    Case(
        "ray-start-value",
        {f"{_PARAMS}.object-store-memory": "10Gi"},
        {f"{_PARAMS}.object-store-memory": "10737418240"},
    ),
    Case("ray-start-value", {f"{_PARAMS}.num-gpus": "four"}, {f"{_PARAMS}.num-gpus": "'4'"}),
    Case("ray-start-value", {f"{_PARAMS}.num-gpus": "true"}, {f"{_PARAMS}.num-gpus": "$(nvidia-smi -L | wc -l)"}),
    Case("ray-start-value", {f"{_PARAMS}.num-gpus": "4.0"}, {f"{_PARAMS}.num-gpus": "${GPUS}"}),
    Case(
        "ray-start-value",
        {f"{_PARAMS}.disable-usage-stats": "yes"},
        {f"{_PARAMS}.disable-usage-stats": "True"},
    ),
    Case("ray-start-value", {f"{_PARAMS}.log-color": "yes"}, {f"{_PARAMS}.log-color": "False"}),
    Case("ray-start-value", {f"{_HEAD_PARAMS}.include-dashboard": "maybe"}, {f"{_HEAD_PARAMS}.block": "maybe"}),
    Case("ray-start-value", {f"{_PARAMS}.temp-dir": "true"}, {f"{_PARAMS}.resources": """'{"x": 1}'"""}),
    Case(
        "dashboard-unreachable",
        {f"{_HEAD_PARAMS}.include-dashboard": "false"},
        {f"{_HEAD_PARAMS}.include-dashboard": "true"},
        "RayJob",
    ),
    Case(
        "dashboard-unreachable",
        {f"{_HEAD_PARAMS}.dashboard-host": "127.0.0.1"},
        {f"{_HEAD_PARAMS}.dashboard-host": "0.0.0.0"},
        "RayService",
    ),
)
