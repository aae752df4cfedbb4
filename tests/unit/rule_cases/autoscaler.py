"""Cases for the rules of this name's module."""

from __future__ import annotations

from seatrial.check.rule import Asked
from tests.support.manifests import GONE, HEAD_POD, WORKER, WORKER_CONTAINER, WORKER_POD
from tests.support.rule_case import Case
from tests.unit.rule_cases.gang import SCALING, VERSION, counts
from tests.unit.rule_cases.refused import ENV, OPTIONS, RAY

LIMITS = f"{WORKER_CONTAINER}.resources"
V2 = {"name": "RAY_enable_autoscaler_v2", "value": "1"}
NO_CPU = {f"{LIMITS}.limits.cpu": GONE, f"{LIMITS}.requests.cpu": GONE}


CASES = (
    Case("autoscaler-fixed-gang", {**counts(1, 2, 4), **SCALING}, {**counts(2, 2, 2), **SCALING}),
    Case("autoscaler-fixed-gang", {**counts(GONE, 2, GONE), **SCALING}, facts={"asked": Asked(8, 1, "/fsx")}),
    Case("autoscaler-version-unset", SCALING, {**SCALING, VERSION: "v2"}),
    Case("autoscaler-version-unset", {**SCALING, RAY: "2.47.0"}, {**SCALING, RAY: "2.46.0"}),
    Case(
        "autoscaler-restart-policy",
        {**SCALING, VERSION: "v2", f"{HEAD_POD}.restartPolicy": "Always"},
        {**SCALING, f"{HEAD_POD}.restartPolicy": "Always"},
    ),
    Case(
        "autoscaler-restart-policy",
        {**SCALING, f"{WORKER_POD}.restartPolicy": "OnFailure"},
        {**SCALING, VERSION: "v2", f"{WORKER_POD}.restartPolicy": "Never"},
    ),
    Case("autoscaler-no-limits", {**SCALING, **NO_CPU}, {**SCALING, f"{LIMITS}.limits.cpu": GONE}),
    Case("autoscaler-no-limits", {**SCALING, f"{LIMITS}.limits.cpu": GONE, RAY: "2.38.0"}, NO_CPU),
    Case(
        "autoscaler-no-limits",
        {**SCALING, **NO_CPU},
        {**SCALING, **NO_CPU, f"{WORKER}.rayStartParams": {"num-cpus": "40", "num-gpus": "4"}},
    ),
    Case("autoscaler-no-limits", {**SCALING, **NO_CPU}, {**SCALING, **NO_CPU, f"{WORKER}.resources": {"cpu": "4"}}),
    Case(
        "autoscaler-sa-irsa",
        {**SCALING, f"{HEAD_POD}.serviceAccountName": GONE},
        {**SCALING, f"{HEAD_POD}.serviceAccountName": GONE, f"{WORKER_POD}.serviceAccountName": GONE},
    ),
    Case("suspend-with-autoscaler", {**SCALING, f"{WORKER}.suspend": True}, {f"{WORKER}.suspend": True}),
    Case("suspend-with-autoscaler", {**SCALING, f"{WORKER}.suspend": True}, {**SCALING}),
    Case("autoscaler-version-env", {ENV: V2}, {ENV: {**V2, "value": "0"}}),
    Case("autoscaler-version-env", {ENV: V2}, {ENV: V2}, facts={"kuberay": "1.5"}, right_facts={"kuberay": "1.4"}),
    Case("autoscaler-version-env", {ENV: V2, **SCALING, f"{OPTIONS}.version": "v2"}, {ENV: V2, **SCALING}),
    Case(
        "autoscaler-version-env",
        {f"{OPTIONS}.env": [{"name": "KUBERAY_GEN_AUTOSCALER_START_CMD", "value": "x"}]},
        {f"{OPTIONS}.env": [{"name": "KUBERAY_GEN_AUTOSCALER_START_CMD", "value": "x"}]},
        right_facts={"kuberay": "1.6"},
    ),
    Case(
        "idle-timeout-without-v2",
        {**SCALING, f"{WORKER}.idleTimeoutSeconds": 60},
        {**SCALING, f"{WORKER}.idleTimeoutSeconds": 60, f"{OPTIONS}.version": "v2"},
    ),
    Case(
        "idle-timeout-without-v2",
        {**SCALING, f"{WORKER}.idleTimeoutSeconds": 60, f"{OPTIONS}.version": "v1"},
        {**SCALING, f"{WORKER}.idleTimeoutSeconds": 60, ENV: V2},
    ),
    Case(
        "idle-timeout-without-v2",
        {f"{OPTIONS}.version": "v2", f"{WORKER}.idleTimeoutSeconds": -1},
        {f"{OPTIONS}.version": "v2", f"{WORKER}.idleTimeoutSeconds": 0},
    ),
    Case(
        "idle-timeout-without-v2",
        {f"{OPTIONS}.idleTimeoutSeconds": -1},
        {f"{OPTIONS}.idleTimeoutSeconds": 60},
        facts={"kuberay": "1.6"},
    ),
    Case("priority-without-v2", {f"{WORKER}.priority": 1}, {f"{WORKER}.priority": 0}),
    Case(
        "priority-without-v2",
        {f"{WORKER}.priority": 1, f"{OPTIONS}.version": "v2", RAY: "2.55.0"},
        {f"{WORKER}.priority": 1, f"{OPTIONS}.version": "v2", RAY: "2.56.0"},
    ),
)
