"""A RayJob's submission: its mode, and the pod that submits."""

from __future__ import annotations

import re
from collections.abc import Iterator

from seatrial.check.manifest import Manifest
from seatrial.check.rule import JOB_GO, K8S_DOCS, KUBERAY, SOURCE, VALIDATION_GO, Facts, Hit, rule
from seatrial.check.shell import own_command
from seatrial.hardware.images import dlc_repository

_RAYJOB_GO = f"{SOURCE}/controllers/ray/rayjob_controller.go"


@rule(
    "submission-mode-unknown",
    "error",
    "job",
    title="a submissionMode that KubeRay does not know",
    fix="write K8sJobMode, HTTPMode, InteractiveMode or SidecarMode",
    source=f"{SOURCE}/apis/ray/v1/rayjob_types.go",
)
def submission_mode_unknown(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """The field is plain text to the API server. The controller knows four words; with another the job stays as it is
    and nothing is submitted.
    """
    if (mode := manifest.submission_mode) not in ("K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"):
        yield Hit(
            manifest.spec["submissionMode"], f"saw {mode}", "K8sJobMode, HTTPMode, InteractiveMode or SidecarMode"
        )


@rule(
    "submission-http-mode",
    "info",
    "job",
    title="HTTPMode",
    fix="use K8sJobMode or SidecarMode if one of these is missed",
    source=_RAYJOB_GO,
)
def http_mode(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """The operator itself must reach port 8265 of the head; there is no pod with the driver's log, and no local
    working_dir.
    """
    if manifest.submission_mode == "HTTPMode":
        yield Hit(manifest.spec["submissionMode"], "HTTPMode")


@rule(
    "submission-sidecar-limits",
    "error",
    "job",
    title="what cannot be had with SidecarMode",
    fix="leave it out",
    source=VALIDATION_GO,
)
def sidecar_limits(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """KubeRay refuses submitterPodTemplate, submitterConfig, and a head with another restartPolicy than Never."""
    if manifest.submission_mode != "SidecarMode":
        return
    for key in ("submitterPodTemplate", "submitterConfig"):
        if manifest.spec[key]:
            yield Hit(manifest.spec[key], f"{key} beside SidecarMode", "no such field")
    policy = manifest.cluster.head.spec["restartPolicy"] if manifest.cluster else None
    if policy and policy.require_known() != "Never":
        yield Hit(policy, f"saw {policy.require_known()}", "Never")


@rule(
    "submission-interactive",
    "info",
    "job",
    title="a job that someone must submit",
    fix="use another submissionMode where nobody waits for it",
    source=VALIDATION_GO,
)
def interactive(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    """In InteractiveMode KubeRay starts the cluster and waits until jobId is set, as `kubectl ray job submit` does. It
    refuses backoffLimit there (since 1.4).
    """
    if manifest.submission_mode != "InteractiveMode":
        return
    limit = manifest.spec["backoffLimit"]
    if limit and (limit.known_integer() or 0) > 0 and facts.since_kuberay(1, 4):
        yield Hit(limit, f"backoffLimit {limit.require_known()} in InteractiveMode", "0", "error")
    if not manifest.spec["jobId"]:
        yield Hit(manifest.spec["submissionMode"], "InteractiveMode without jobId", "someone who submits the job")


@rule(
    "submitter-restart-policy",
    "error",
    "job",
    title="a submitter that Kubernetes refuses",
    fix="set restartPolicy: Never",
    source=f"{K8S_DOCS}/concepts/workloads/controllers/job/#pod-template",
)
def submitter_restart(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """The submitter is a Kubernetes Job, which takes Never and OnFailure only; a template without restartPolicy means
    Always.
    """
    if not manifest.submitter or manifest.submission_mode != "K8sJobMode":
        return
    policy = manifest.submitter.spec["restartPolicy"]
    if policy.require_known() not in ("Never", "OnFailure"):
        yield Hit(
            policy, f"saw {policy.require_known()}" if policy.require_known() else "not set, which is Always", "Never"
        )


@rule(
    "submitter-command",
    "warning",
    "job",
    title="a submitter with a command of its own",
    fix="leave command out, or submit with --submission-id $RAY_JOB_SUBMISSION_ID",
    source=_RAYJOB_GO,
)
def submitter_command(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """KubeRay then adds nothing: the entrypoint is not used, and a submitter that is tried again submits again."""
    if not manifest.submitter or manifest.submission_mode != "K8sJobMode" or not own_command(manifest):
        return
    container = manifest.submitter.container
    command = " ".join(part.raw for key in ("command", "args") for part in container[key])
    if "RAY_JOB_SUBMISSION_ID" not in command:  # KubeRay's own light submitter reads it by itself
        severity = None if re.search(r"\bjob\s+submit\b", command) else "info"
        yield Hit(container["command"], "a command without RAY_JOB_SUBMISSION_ID", "no command", severity)  # type: ignore[arg-type]


@rule(
    "submitter-placement",
    "info",
    "job",
    title="a submitter that may start anywhere",
    fix="give submitterPodTemplate a nodeSelector, or use SidecarMode",
    source=JOB_GO,
)
def submitter_placement(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """KubeRay's own submitter has the head's image and neither node selector nor tolerations: some node pulls the image
    for it, or it stays Pending where every node is tainted.
    """
    if manifest.submission_mode != "K8sJobMode" or not manifest.cluster or not manifest.cluster.trains:
        return
    submitter, head = manifest.submitter, manifest.cluster.head
    if submitter and (submitter.pinned or submitter.spec["tolerations"]):
        return
    image = submitter.image if submitter else head.image
    value = submitter.spec if submitter else manifest.spec["submitterPodTemplate"]
    large = dlc_repository(image.raw) and head.pinned  # a training image, and nodes that differ
    yield Hit(value, "neither nodeSelector nor tolerations", "a nodeSelector", "warning" if large else None)


@rule(
    "submitter-image-version",
    "warning",
    "job",
    title="a submitter with another Ray",
    fix="use the cluster's Ray in the submitter",
    source=f"{KUBERAY}/issues/906",
    needs=("image",),
)
def submitter_image(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    """`ray job submit` of one version talks to the job server of another, which need not work."""
    submitter, cluster = manifest.submitter, manifest.cluster
    if not submitter or not cluster or submitter.image.raw == cluster.head.image.raw:
        return
    one, other = facts.image(submitter.image).ray, facts.image(cluster.head.image).ray
    if one and other and one != other:
        yield Hit(submitter.image, f"Ray {one}, the head has {other}", f"Ray {other}")
