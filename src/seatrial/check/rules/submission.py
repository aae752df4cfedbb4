"""How a RayJob's entrypoint gets to the cluster: the submitter's shell, its pod, the submission mode.

KubeRay 1.3 and later run `bash -ce -- '… ray job submit … -- <entrypoint> ; …'` in the submitter (JOB_GO,
BuildJobSubmitCommand), so the entrypoint passes that shell first; Ray then runs what arrives with `sh -c` on the head.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from seatrial.check.manifest import Manifest, accelerators
from seatrial.check.operator import number
from seatrial.check.reading import Node, placeholder
from seatrial.check.rule import JOB_GO, K8S_DOCS, KUBERAY, SOURCE, VALIDATION_GO, Facts, Hit, rule
from seatrial.check.rules.jobs import since
from seatrial.check.values import CannotTell, Value
from seatrial.hardware.images import dlc_repository

_RAYJOB_GO = f"{SOURCE}/controllers/ray/rayjob_controller.go"
_WITH_SUBMITTER = ("K8sJobMode", "SidecarMode")
_SHELL = re.compile(
    r"""(?P<word>\\.|'[^']*'|"(?:\\.|[^"\\])*"|[0-9]*>&[0-9])|(?P<comment>(?:(?<=\s)|\A)\#)"""
    r"""|(?P<operator>&&|\|\||&>>?|>>|<<<?|[;&|<>()`\n])|(?P<open>['"])""",
    re.DOTALL,
)
_SPLITS = {"\n": "a line break", "#": "a comment", "'": "a quote without an end", '"': "a quote without an end"}
_MILD = ("|", "||", ">", ">>", "<", "<<<", "&>", "&>>", "`")  # the job still runs
_QUOTES = re.compile(r"""\\.|"(?:\\.|[^"\\])*"|'[^']*'""", re.DOTALL)
_DOLLAR = re.compile(r"\\.|\$(?:\{?(?P<name>[A-Za-z_]\w*)|\()", re.DOTALL)
_QUOTED = re.compile(r"""'[^']*\s[^']*'|"(?:\\.|[^"\\])*\s(?:\\.|[^"\\])*\"""", re.DOTALL)
_LAUNCHER = re.compile(
    r"""(?:\A|[;&|(]\s*|-\w*c\s+['"]\s*)(?:[A-Za-z_]\w*=\S+\s+)*(?:exec\s+)?"""
    r"""(torchrun|accelerate\s+launch|deepspeed|mpirun|python3?\s+-m\s+torch\.distributed\.(?:run|launch))(?=\s)"""
)
_SHELL_PLACES = ("env", "command", "args", "rayStartParams", "lifecycle", "entrypoint", "runtimeEnvYAML")


def shell_operators(text: str) -> list[str]:
    """What a shell would act on in `text` outside quotes: operators, `#` before a comment, a quote without an end."""
    found: list[str] = []
    for token in _SHELL.finditer(text.strip()):
        if token["comment"]:
            return [*found, "#"]  # the rest of the line is gone
        if seen := token["operator"] or token["open"]:
            found.append(seen)
    return found


def shell_expansions(text: str, quote: str = "") -> list[re.Match[str]]:
    """Each `$NAME`, `${NAME…` and `$(` that a shell would expand: outside single quotes, not escaped.

    With `"` as `quote` the text as a whole stands in double quotes, where single ones mean nothing.
    """
    outside = text if quote else _QUOTES.sub(lambda token: "" if token[0][0] == "'" else token[0], text)
    return [token for token in _DOLLAR.finditer(outside) if token[0][0] == "$"]


def _whole(token: re.Match[str]) -> str:
    """The whole expansion that begins with `token`: `$(hostname)`, `${RUN:-a}`; as far as it is closed."""
    rest, depth = token.string[token.start() :], 0
    pair = {"(": ")", "{": "}"}.get(rest[1:2])
    for position, letter in enumerate(rest if pair else ""):
        depth += (letter == rest[1]) - (letter == pair)
        if position > 1 and not depth:
            return rest[: position + 1]
    return token[0]


def templated(value: Value) -> bool:
    """Whether something is to fill in placeholders before kubectl: some stand where no shell would expand them."""

    def inside(node: Node) -> bool:
        if isinstance(node.value, dict):
            return any(inside(child) for key, child in node.value.items() if key not in _SHELL_PLACES)
        if isinstance(node.value, list):
            return any(inside(child) for child in node.value)
        return bool(node.placeholder)

    return value.node is not None and inside(value.node)


def _masked(text: str) -> str:
    while mark := placeholder(text):
        text = text.replace(mark, "_" * len(mark))
    return text


def reads_shell(manifest: Manifest, facts: Facts) -> bool:
    """Whether entrypoint and runtime environment pass a submitter's shell."""
    return since(facts, 1, 3) and manifest.submission_mode in _WITH_SUBMITTER and not _own_command(manifest)


def _own_command(manifest: Manifest) -> bool:
    return manifest.submitter is not None and bool(manifest.submitter.container["command"])


@rule(
    "entrypoint-empty", "error", "job",
    title="no entrypoint",
    why="There is nothing to submit: `ray job submit` ends with an error.",
    fix="set entrypoint", source=JOB_GO,
)  # fmt: skip
def entrypoint_empty(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    entrypoint = manifest.spec["entrypoint"]
    if (entrypoint and not entrypoint.scalar) or entrypoint.raw.strip() or _own_command(manifest):
        return
    if manifest.submission_mode != "InteractiveMode":
        yield Hit(entrypoint, f"empty in {manifest.submission_mode}", "a command")


@rule(
    "entrypoint-shell-split", "error", "job",
    title="an entrypoint that the submitter's shell takes apart",
    why="KubeRay puts the entrypoint unquoted behind `ray job submit --` in a shell: only the first command reaches the cluster, the rest runs in the submitter's pod.",
    fix="write bash -c '…', or put it into a script", source=f"{KUBERAY}/issues/3802", needs=("kuberay",),
)  # fmt: skip
def shell_split(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    entrypoint = manifest.spec["entrypoint"]
    if not entrypoint.raw or not reads_shell(manifest, facts):
        return
    text = _masked(entrypoint.raw)
    if not text.strip("_ "):
        raise CannotTell(f"{entrypoint.field} is {entrypoint.raw}", entrypoint)
    if found := shell_operators(text):
        mild = all(operator in _MILD for operator in found)
        shown = ", ".join(dict.fromkeys(_SPLITS.get(operator, operator) for operator in found))
        yield Hit(entrypoint, f"not in quotes: {shown}", "one command", "warning" if mild else None)


@rule(
    "entrypoint-dollar", "info", "job",
    title="a variable that the submitter's shell expands",
    why="$NAME and $(…) are expanded in the submitter's pod, which has none of the head's variables.",
    fix="write bash -c '…' in single quotes: then the head's shell expands it", source=JOB_GO, needs=("kuberay",),
)  # fmt: skip
def entrypoint_dollar(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    entrypoint = manifest.spec["entrypoint"]
    found = shell_expansions(entrypoint.raw)
    if not found or not reads_shell(manifest, facts):
        return
    if templated(manifest.root) or not _masked(entrypoint.raw).strip("_ "):
        raise CannotTell(f"{entrypoint.field} has {found[0][0]}, which may be filled in before", entrypoint)
    head = manifest.cluster.head.env if manifest.cluster else {}
    submitter = manifest.submitter.env if manifest.submitter else {}
    lost = [token["name"] for token in found if token["name"] in head and token["name"] not in submitter]
    if lost:
        seen = f"${lost[0]} is set on the head, not in the submitter"
        yield Hit(entrypoint, seen, "single quotes around it", "warning")
    else:
        yield Hit(entrypoint, f"{_whole(found[0])} is expanded in the submitter", "single quotes around it")


@rule(
    "entrypoint-whole-quoted", "error", "job",
    title="quotes around the whole entrypoint",
    why="The shell takes it for the name of one program: `sh: python train.py: not found`.",
    fix="remove the outer quotes", source="https://github.com/ray-project/ray/pull/25519",
)  # fmt: skip
def whole_quoted(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    entrypoint = manifest.spec["entrypoint"]
    if manifest.submission_mode != "InteractiveMode" and _QUOTED.fullmatch(entrypoint.raw.strip()):
        yield Hit(entrypoint, "quoted as a whole", "the command without quotes around it")


@rule(
    "entrypoint-torchrun", "warning", "job",
    title="another launcher as the entrypoint",
    why="The entrypoint runs on the head alone: torchrun and its like start processes there, where there is no GPU, and use no worker.",
    fix="start the workers with Ray Train's TorchTrainer", source="https://docs.ray.io/en/latest/train/getting-started-pytorch.html",
)  # fmt: skip
def entrypoint_torchrun(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    entrypoint, cluster = manifest.spec["entrypoint"], manifest.cluster
    launcher = _LAUNCHER.search(f"{entrypoint.raw.strip()} ")
    if not launcher or not cluster or not cluster.trains or accelerators(cluster.head):
        return
    if not manifest.spec["entrypointNumGpus"] and not manifest.spec["entrypointResources"]:
        yield Hit(entrypoint, f"{launcher[1]} on a head without accelerators", "a script that uses TorchTrainer")


@rule(
    "entrypoint-resources-json", "error", "job",
    title="entrypointResources that are no JSON map",
    why="`ray job submit` reads them as JSON and ends with an error.",
    fix="""write it as '{"name": 1}'""", source=JOB_GO,
)  # fmt: skip
def resources_json(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    given = manifest.spec["entrypointResources"]
    try:
        amounts = json.loads(given.text or "{}")
    except ValueError:
        amounts = None
    if not isinstance(amounts, dict) or not all(type(amount) in (int, float) for amount in amounts.values()):
        yield Hit(given, f"saw {given.raw}", """'{"name": 1}'""")


@rule(
    "entrypoint-cpus-infeasible", "warning", "job",
    title="CPUs for the driver that the head does not have",
    why="Ray then starts the driver on a worker, where it takes CPUs of the gang, or nowhere.",
    fix="leave entrypointNumCpus out: the driver runs on the head", source=JOB_GO,
)  # fmt: skip
def entrypoint_cpus(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    wanted, cluster = manifest.spec["entrypointNumCpus"], manifest.cluster
    amount = wanted.quantity if wanted and cluster else None
    if not amount or not cluster or manifest.spec["entrypointNumGpus"]:
        return
    head = number(cluster.head, "num-cpus")
    if head is None or amount <= head[0]:
        return
    there = [number(group, "num-cpus") for group in cluster.workers]
    nowhere = all(found is not None and amount > found[0] for found in there)
    seen = f"{wanted.text}, the head has {int(head[0])}{' and no worker as many' if nowhere else ''}"
    yield Hit(wanted, seen, f"at most {int(head[0])}", "error" if nowhere else None)


@rule(
    "submission-mode-unknown", "error", "job",
    title="a submissionMode that KubeRay does not know",
    why="The field is plain text to the API server. The controller knows four words; with another the job stays as it is and nothing is submitted.",
    fix="write K8sJobMode, HTTPMode, InteractiveMode or SidecarMode", source=f"{SOURCE}/apis/ray/v1/rayjob_types.go",
)  # fmt: skip
def submission_mode_unknown(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    if (mode := manifest.submission_mode) not in ("K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"):
        yield Hit(
            manifest.spec["submissionMode"], f"saw {mode}", "K8sJobMode, HTTPMode, InteractiveMode or SidecarMode"
        )


@rule(
    "submission-http-mode", "info", "job",
    title="HTTPMode",
    why="The operator itself must reach port 8265 of the head; there is no pod with the driver's log, and no local working_dir.",
    fix="use K8sJobMode or SidecarMode if one of these is missed", source=_RAYJOB_GO,
)  # fmt: skip
def http_mode(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    if manifest.submission_mode == "HTTPMode":
        yield Hit(manifest.spec["submissionMode"], "HTTPMode")


@rule(
    "submission-sidecar-limits", "error", "job",
    title="what cannot be had with SidecarMode",
    why="KubeRay refuses submitterPodTemplate, submitterConfig, and a head with another restartPolicy than Never.",
    fix="leave it out", source=VALIDATION_GO,
)  # fmt: skip
def sidecar_limits(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    if manifest.submission_mode != "SidecarMode":
        return
    for key in ("submitterPodTemplate", "submitterConfig"):
        if manifest.spec[key]:
            yield Hit(manifest.spec[key], f"{key} beside SidecarMode", "no such field")
    policy = manifest.cluster.head.spec["restartPolicy"] if manifest.cluster else None
    if policy and policy.text != "Never":
        yield Hit(policy, f"saw {policy.text}", "Never")


@rule(
    "submission-interactive", "info", "job",
    title="a job that someone must submit",
    why="In InteractiveMode KubeRay starts the cluster and waits until jobId is set, as `kubectl ray job submit` does. It refuses backoffLimit there (since 1.4).",
    fix="use another submissionMode where nobody waits for it", source=VALIDATION_GO,
)  # fmt: skip
def interactive(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    if manifest.submission_mode != "InteractiveMode":
        return
    limit = manifest.spec["backoffLimit"]
    if limit and (limit.integer or 0) > 0 and since(facts, 1, 4):
        yield Hit(limit, f"backoffLimit {limit.text} in InteractiveMode", "0", "error")
    if not manifest.spec["jobId"]:
        yield Hit(manifest.spec["submissionMode"], "InteractiveMode without jobId", "someone who submits the job")


@rule(
    "submitter-restart-policy", "error", "job",
    title="a submitter that Kubernetes refuses",
    why="The submitter is a Kubernetes Job, which takes Never and OnFailure only; a template without restartPolicy means Always.",
    fix="set restartPolicy: Never", source=f"{K8S_DOCS}/concepts/workloads/controllers/job/#pod-template",
)  # fmt: skip
def submitter_restart(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    if not manifest.submitter or manifest.submission_mode != "K8sJobMode":
        return
    policy = manifest.submitter.spec["restartPolicy"]
    if policy.text not in ("Never", "OnFailure"):
        yield Hit(policy, f"saw {policy.text}" if policy.text else "not set, which is Always", "Never")


@rule(
    "submitter-command", "warning", "job",
    title="a submitter with a command of its own",
    why="KubeRay then adds nothing: the entrypoint is not used, and a submitter that is tried again submits again.",
    fix="leave command out, or submit with --submission-id $RAY_JOB_SUBMISSION_ID", source=_RAYJOB_GO,
)  # fmt: skip
def submitter_command(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    if not manifest.submitter or manifest.submission_mode != "K8sJobMode" or not _own_command(manifest):
        return
    container = manifest.submitter.container
    command = " ".join(part.raw for key in ("command", "args") for part in container[key])
    if "RAY_JOB_SUBMISSION_ID" not in command:  # KubeRay's own light submitter reads it by itself
        severity = None if re.search(r"\bjob\s+submit\b", command) else "info"
        yield Hit(container["command"], "a command without RAY_JOB_SUBMISSION_ID", "no command", severity)  # type: ignore[arg-type]


@rule(
    "submitter-placement", "info", "job",
    title="a submitter that may start anywhere",
    why="KubeRay's own submitter has the head's image and neither node selector nor tolerations: some node pulls the image for it, or it stays Pending where every node is tainted.",
    fix="give submitterPodTemplate a nodeSelector, or use SidecarMode", source=JOB_GO,
)  # fmt: skip
def submitter_placement(manifest: Manifest, _: Facts) -> Iterator[Hit]:
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
    "submitter-image-version", "warning", "job",
    title="a submitter with another Ray",
    why="`ray job submit` of one version talks to the job server of another, which need not work.",
    fix="use the cluster's Ray in the submitter", source=f"{KUBERAY}/issues/906", needs=("image",),
)  # fmt: skip
def submitter_image(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    submitter, cluster = manifest.submitter, manifest.cluster
    if not submitter or not cluster or submitter.image.raw == cluster.head.image.raw:
        return
    one, other = facts.image(submitter.image).ray, facts.image(cluster.head.image).ray
    if one and other and one != other:
        yield Hit(submitter.image, f"Ray {one}, the head has {other}", f"Ray {other}")
