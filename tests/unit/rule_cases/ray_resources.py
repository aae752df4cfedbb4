"""Cases for the rules of this name's module."""

from __future__ import annotations

from tests.support.manifests import GONE, WORKER_CONTAINER
from tests.support.rule_case import Case
from tests.unit.rule_cases.resources import LIMITS, PARAMS, REQUESTS

NO_GPU = {f"{LIMITS}.[nvidia.com/gpu]": GONE, f"{REQUESTS}.[nvidia.com/gpu]": GONE}
SHARED = {**NO_GPU, f"{LIMITS}.[nvidia.com/gpu.shared]": "4", f"{REQUESTS}.[nvidia.com/gpu.shared]": "4"}


def _sets(name: str, value: str) -> dict[str, object]:
    return {f"{WORKER_CONTAINER}.env.2": {"name": name, "value": value}}


CASES = (
    Case(
        "num-gpus-mismatch",
        {**NO_GPU, f"{LIMITS}.[nvidia.com/mig-1g.5gb]": 1, f"{LIMITS}.[nvidia.com/mig-2g.10gb]": 1},
        {**NO_GPU, f"{LIMITS}.[nvidia.com/mig-1g.5gb]": 1, f"{LIMITS}.[nvidia.com/mig-2g.10gb]": 3},
    ),
    Case(
        "num-gpus-mismatch",
        {f"{PARAMS}.num-gpus": "3"},
        {f"{PARAMS}.num-gpus": "${GPUS}", f"{LIMITS}.[nvidia.com/gpu]": "${GPUS}"},
    ),
    Case("num-gpus-mismatch", {f"{PARAMS}.num-gpus": "8"}, {f"{PARAMS}.num-gpus": GONE}),
    Case("num-gpus-without-limit", NO_GPU, {**NO_GPU, f"{PARAMS}.num-gpus": "0"}),
    Case("gpu-key-not-detected", {**SHARED, f"{PARAMS}.num-gpus": GONE}, SHARED),
    Case(
        "ray-resources-unparsable", {f"{PARAMS}.resources": '"{\\"x\\": 1}"'}, {f"{PARAMS}.resources": "'{\"x\": 1}'"}
    ),
    Case("num-cpus-mismatch", {f"{PARAMS}.num-cpus": "96"}, {f"{PARAMS}.num-cpus": "40"}),
    Case("memory-param-vs-limit", {f"{PARAMS}.memory": str(200 << 30)}, {f"{PARAMS}.memory": str(100 << 30)}),
    Case("gpus-hidden", _sets("NVIDIA_VISIBLE_DEVICES", "void"), _sets("NVIDIA_VISIBLE_DEVICES", "all")),
    Case("gpus-hidden", _sets("CUDA_VISIBLE_DEVICES", ""), _sets("CUDA_VISIBLE_DEVICES", "${DEVICES}")),
    Case("gpus-hidden", _sets("CUDA_VISIBLE_DEVICES", "-1"), {**_sets("CUDA_VISIBLE_DEVICES", "-1"), **NO_GPU}),
)
