"""Cases for the rules of this name's module."""

from __future__ import annotations

from tests.support.manifests import HEAD_CONTAINER, WORKER_CONTAINER
from tests.unit.rule_cases.runtime_env import env

OTHER_IMAGE = {
    f"{HEAD_CONTAINER}.image": "rayproject/ray:2.55.1-py312",
    f"{WORKER_CONTAINER}.image": "rayproject/ray:2.55.1-py312",
    "spec.rayVersion": "2.55.1",
}


CASES = (
    env("runtime-env-reinstalls-ray", "pip: ['ray[data]==2.47.1']", "pip: [raydp==1.0]"),
    env("runtime-env-reinstalls-ray", "uv: {packages: [ray]}", "pip: ['-r requirements.txt']"),
    env("runtime-env-reinstalls-torch", "pip: [torch==2.9.0]", "pip: [torch, flash_attn==2.8.3]"),
    env("runtime-env-reinstalls-torch", "pip: {packages: [torchvision]}", "pip: [torchmetrics]", **OTHER_IMAGE),
    env(
        "runtime-env-reinstalls-torch",
        "pip: [torch==2.9.0]",
        "pip: [peft]",
        **{f"{HEAD_CONTAINER}.image": "registry.example.com/team/ray:1"},
    ),
    env("runtime-env-unpinned", "pip: [peft, trl==1.0]", "pip: [trl==1.0, 'a @ https://b/c.whl', git+https://d/e]"),
    env("pip-conflicts-dlc", "pip: [transformers==4.57.0]", "pip: [transformers==5.13.0, trl==1.0]"),
)
