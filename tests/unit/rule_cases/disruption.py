"""Cases for the rules of this name's module."""

from __future__ import annotations

import json

from tests.support.manifests import GONE, HEAD, WORKER, changed
from tests.support.rule_case import Case

_GUARD = "metadata.annotations.[karpenter.sh/do-not-disrupt]"


def _with_pool(disruption: dict[str, object]) -> str:
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "gpu"},
        "spec": {
            "disruption": disruption,
            "template": {"spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}},
        },
    }
    guarded = changed({f"{WORKER}.template.{_GUARD}": "false"})
    return f"{guarded}\n---\n{json.dumps(pool)}\n"


CASES = (
    Case(
        "disruption-annotation-on-cr",
        {_GUARD: "true", f"{WORKER}.template.{_GUARD}": GONE},
        {_GUARD: "true"},
    ),
    Case(
        "disruption-annotation-on-cr",
        {"metadata.annotations.[cluster-autoscaler.kubernetes.io/safe-to-evict]": "false"},
        {"metadata.annotations.[example.com/safe-to-evict]": "false"},
    ),
    Case(
        "no-do-not-disrupt",
        {f"{WORKER}.template.{_GUARD}": GONE},
        {f"{WORKER}.template.{_GUARD}": GONE, f"{HEAD}.template.{_GUARD}": GONE},
    ),
    Case("nodepool-consolidates", _with_pool({}), _with_pool({"consolidationPolicy": "WhenEmpty"})),
)
