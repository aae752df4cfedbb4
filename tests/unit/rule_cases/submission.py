"""Cases for the rules of this name's module."""

from __future__ import annotations

from tests.support.manifests import GONE, HEAD_POD
from tests.support.rule_case import Case
from tests.unit.rule_cases.jobs import job

ENTRYPOINT, MODE, SUBMITTER = "spec.entrypoint", "spec.submissionMode", "spec.submitterPodTemplate"
CONTAINER = f"{SUBMITTER}.spec.containers.0"
HTTP: dict[str, object] = {MODE: "HTTPMode"}


CASES = (
    Case(
        "submission-mode-unknown",
        {"spec.submissionMode": "K8SJobMode"},
        {"spec.submissionMode": "HTTPMode"},
        kind="RayJob",
    ),
    job("submission-http-mode", HTTP),
    job("submission-sidecar-limits", {MODE: "SidecarMode"}, {MODE: "SidecarMode", SUBMITTER: GONE}),
    job(
        "submission-sidecar-limits",
        {MODE: "SidecarMode", SUBMITTER: GONE, f"{HEAD_POD}.restartPolicy": "Always"},
        {MODE: "SidecarMode", SUBMITTER: GONE, f"{HEAD_POD}.restartPolicy": "Never"},
    ),
    job("submission-interactive", {MODE: "InteractiveMode"}, {MODE: "InteractiveMode", "spec.jobId": "one"}),
    job("submission-interactive", {MODE: "InteractiveMode", "spec.jobId": "one", "spec.backoffLimit": 1}),
    job(
        "submitter-restart-policy",
        {f"{SUBMITTER}.spec.restartPolicy": GONE},
        {f"{SUBMITTER}.spec.restartPolicy": "OnFailure"},
    ),
    job("submitter-restart-policy", {f"{SUBMITTER}.spec.restartPolicy": "Always"}),
    job(
        "submitter-command",
        {f"{CONTAINER}.command": ["ray", "job", "submit", "--", "python", "a.py"]},
        {f"{CONTAINER}.command": ["sh", "-c", "ray job submit --submission-id $RAY_JOB_SUBMISSION_ID -- python a.py"]},
    ),
    job("submitter-placement", {SUBMITTER: GONE}, {SUBMITTER: GONE, MODE: "SidecarMode"}),
    job(
        "submitter-placement",
        {f"{SUBMITTER}.spec.nodeSelector": GONE},
        {f"{SUBMITTER}.spec.nodeSelector": GONE, f"{SUBMITTER}.spec.tolerations": [{"operator": "Exists"}]},
    ),
    job(
        "submitter-image-version",
        {f"{CONTAINER}.image": "rayproject/ray:2.9.0"},
        {f"{CONTAINER}.image": "rayproject/ray:2.58.0"},
    ),
)
