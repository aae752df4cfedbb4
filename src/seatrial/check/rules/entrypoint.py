"""The entrypoint of a RayJob: whether it reaches the cluster whole, and what it asks for there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from seatrial.check.manifest import Manifest, accelerators
from seatrial.check.operator import number
from seatrial.check.rule import JOB_GO, KUBERAY, Facts, Hit, rule
from seatrial.check.shell import (
    masked,
    own_command,
    reads_shell,
    shell_expansions,
    shell_operators,
    templated,
    whole_expansion,
)
from seatrial.check.values import CannotTell

_SPLITS = {"\n": "a line break", "#": "a comment", "'": "a quote without an end", '"': "a quote without an end"}
_MILD = ("|", "||", ">", ">>", "<", "<<<", "&>", "&>>", "`")  # the job still runs
_QUOTED = re.compile(r"""'[^']*\s[^']*'|"(?:\\.|[^"\\])*\s(?:\\.|[^"\\])*\"""", re.DOTALL)
_LAUNCHER = re.compile(
    r"""(?:\A|[;&|(]\s*|-\w*c\s+['"]\s*)(?:[A-Za-z_]\w*=\S+\s+)*(?:exec\s+)?"""
    r"""(torchrun|accelerate\s+launch|deepspeed|mpirun|python3?\s+-m\s+torch\.distributed\.(?:run|launch))(?=\s)"""
)


@rule("entrypoint-empty", "error", "job", title="no entrypoint", fix="set entrypoint", source=JOB_GO)
def entrypoint_empty(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """There is nothing to submit: `ray job submit` ends with an error."""
    entrypoint = manifest.spec["entrypoint"]
    if (entrypoint and not entrypoint.scalar) or entrypoint.raw.strip() or own_command(manifest):
        return
    if manifest.submission_mode != "InteractiveMode":
        yield Hit(entrypoint, f"empty in {manifest.submission_mode}", "a command")


@rule(
    "entrypoint-shell-split",
    "error",
    "job",
    title="an entrypoint that the submitter's shell takes apart",
    fix="write bash -c '…', or put it into a script",
    source=f"{KUBERAY}/issues/3802",
    needs=("kuberay",),
)
def shell_split(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    """KubeRay puts the entrypoint unquoted behind `ray job submit --` in a shell: only the first command reaches the
    cluster, the rest runs in the submitter's pod.
    """
    entrypoint = manifest.spec["entrypoint"]
    if not entrypoint.raw or not reads_shell(manifest, facts):
        return
    text = masked(entrypoint.raw)
    if not text.strip("_ "):
        raise CannotTell(f"{entrypoint.field} is {entrypoint.raw}", entrypoint)
    if found := shell_operators(text):
        mild = all(operator in _MILD for operator in found)
        shown = ", ".join(dict.fromkeys(_SPLITS.get(operator, operator) for operator in found))
        yield Hit(entrypoint, f"not in quotes: {shown}", "one command", "warning" if mild else None)


@rule(
    "entrypoint-dollar",
    "info",
    "job",
    title="a variable that the submitter's shell expands",
    fix="write bash -c '…' in single quotes: then the head's shell expands it",
    source=JOB_GO,
    needs=("kuberay",),
)
def entrypoint_dollar(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    """$NAME and $(…) are expanded in the submitter's pod, which has none of the head's variables."""
    entrypoint = manifest.spec["entrypoint"]
    found = shell_expansions(entrypoint.raw)
    if not found or not reads_shell(manifest, facts):
        return
    if templated(manifest.root) or not masked(entrypoint.raw).strip("_ "):
        raise CannotTell(f"{entrypoint.field} has {found[0][0]}, which may be filled in before", entrypoint)
    head = manifest.cluster.head.env if manifest.cluster else {}
    submitter = manifest.submitter.env if manifest.submitter else {}
    lost = [token["name"] for token in found if token["name"] in head and token["name"] not in submitter]
    if lost:
        seen = f"${lost[0]} is set on the head, not in the submitter"
        yield Hit(entrypoint, seen, "single quotes around it", "warning")
    else:
        yield Hit(entrypoint, f"{whole_expansion(found[0])} is expanded in the submitter", "single quotes around it")


@rule(
    "entrypoint-whole-quoted",
    "error",
    "job",
    title="quotes around the whole entrypoint",
    fix="remove the outer quotes",
    source="https://github.com/ray-project/ray/pull/25519",
)
def whole_quoted(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """The shell takes it for the name of one program: `sh: python train.py: not found`."""
    entrypoint = manifest.spec["entrypoint"]
    if manifest.submission_mode != "InteractiveMode" and _QUOTED.fullmatch(entrypoint.raw.strip()):
        yield Hit(entrypoint, "quoted as a whole", "the command without quotes around it")


@rule(
    "entrypoint-torchrun",
    "warning",
    "job",
    title="another launcher as the entrypoint",
    fix="start the workers with Ray Train's TorchTrainer",
    source="https://docs.ray.io/en/latest/train/getting-started-pytorch.html",
)
def entrypoint_torchrun(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """The entrypoint runs on the head alone: torchrun and its like start processes there, where there is no GPU, and
    use no worker.
    """
    entrypoint, cluster = manifest.spec["entrypoint"], manifest.cluster
    launcher = _LAUNCHER.search(f"{entrypoint.raw.strip()} ")
    if not launcher or not cluster or not cluster.trains or accelerators(cluster.head):
        return
    if not manifest.spec["entrypointNumGpus"] and not manifest.spec["entrypointResources"]:
        yield Hit(entrypoint, f"{launcher[1]} on a head without accelerators", "a script that uses TorchTrainer")


@rule(
    "entrypoint-resources-json",
    "error",
    "job",
    title="entrypointResources that are no JSON map",
    fix="""write it as '{"name": 1}'""",
    source=JOB_GO,
)
def resources_json(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """`ray job submit` reads them as JSON and ends with an error."""
    given = manifest.spec["entrypointResources"]
    try:
        amounts = json.loads(given.require_known() or "{}")
    except ValueError:
        amounts = None
    if not isinstance(amounts, dict) or not all(type(amount) in (int, float) for amount in amounts.values()):
        yield Hit(given, f"saw {given.raw}", """'{"name": 1}'""")


@rule(
    "entrypoint-cpus-infeasible",
    "warning",
    "job",
    title="CPUs for the driver that the head does not have",
    fix="leave entrypointNumCpus out: the driver runs on the head",
    source=JOB_GO,
)
def entrypoint_cpus(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """Ray then starts the driver on a worker, where it takes CPUs of the gang, or nowhere."""
    wanted, cluster = manifest.spec["entrypointNumCpus"], manifest.cluster
    amount = wanted.known_quantity() if wanted and cluster else None
    if not amount or not cluster or manifest.spec["entrypointNumGpus"]:
        return
    head = number(cluster.head, "num-cpus")
    if head is None or amount <= head[0]:
        return
    there = [number(group, "num-cpus") for group in cluster.workers]
    nowhere = all(found is not None and amount > found[0] for found in there)
    seen = f"{wanted.require_known()}, the head has {int(head[0])}{' and no worker as many' if nowhere else ''}"
    yield Hit(wanted, seen, f"at most {int(head[0])}", "error" if nowhere else None)
