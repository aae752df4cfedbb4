"""One inspection, from the choice of the job to the sealed record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seatrial.errors import InputError, RunError
from seatrial.launch.inspect import watch
from seatrial.launch.inspect.choose import RUNNING, TrainingJob, choose, status
from seatrial.launch.inspect.claims import read_claims
from seatrial.launch.inspect.dashboard import StateDashboard
from seatrial.launch.inspect.resource import Resource, look_up
from seatrial.launch.inspect.write import Inspection, InspectionDirectory
from seatrial.launch.jobs import check_client, differences
from seatrial.launch.jobs_dashboard import NoAnswer
from seatrial.record import read_record

Say = Callable[[str], None]


@dataclass(frozen=True)
class InspectRequest:
    """What the user asked for: `address`, `resource` (`rayjob/NAME` or `raycluster/NAME`), or both."""

    address: str = ""
    resource: str = ""
    namespace: str = ""
    context: str = ""
    job: str = ""
    seconds: float = 20.0
    claims: Path | None = None
    actors: bool = True
    storage: Path = Path("runs")


@dataclass(frozen=True)
class SealedInspection:
    """A sealed inspection."""

    record: Path
    content: dict[str, Any]
    digest: str


def inspect(asked: InspectRequest, say: Say) -> SealedInspection:
    """Inspects and seals. Raises OSError, and InputError before anything is started or written."""
    claims, image = read_claims(asked.claims) if asked.claims else ([], None)
    resource = look_up(asked.resource, asked.namespace, asked.context) if asked.resource else None
    cluster, chosen = None, None
    inspection = Inspection(name="", asked=_said(asked), claims=claims, image=image)
    if asked.address:
        cluster, chosen = _choose(asked, inspection, resource, say)
    if resource:
        inspection.kubernetes = resource.seen
        inspection.name = inspection.name or resource.name
        if not asked.address:
            inspection.kubernetes["unknown_without_address"] = resource.how_to_reach
            say(f"without the dashboard's address only the Kubernetes API is asked; {resource.how_to_reach}")
    directory = InspectionDirectory(inspection, asked.storage)
    try:
        if cluster and chosen:
            _watch(asked, inspection, cluster, chosen, say)
    finally:
        path, _ = directory.finish()
    content, digest = read_record(path)
    return SealedInspection(path, content, digest)


def _said(asked: InspectRequest) -> dict[str, Any]:
    given = {"address": asked.address, "job": asked.job, "resource": asked.resource, "namespace": asked.namespace}
    window = {"seconds": asked.seconds, "actors": asked.actors} if asked.address else {}
    return {name: value for name, value in {**given, "context": asked.context}.items() if value} | window


def _choose(
    asked: InspectRequest, inspection: Inspection, resource: Resource | None, say: Say
) -> tuple[StateDashboard, TrainingJob]:
    if asked.actors:
        check_client()
    cluster, versions = StateDashboard.open(asked.address)
    try:
        chosen = choose(cluster, asked.job or (resource.job if resource else ""))
        inspection.train, inspection.nodes = cluster.train_runs(chosen.job), cluster.nodes()
    except NoAnswer as error:
        raise InputError(str(error), field="address") from None
    if asked.actors:
        for line in differences(versions):
            say(line)
    inspection.name, inspection.job = chosen.name, {"job_id": chosen.job, **chosen.details}
    inspection.ray = {"version": versions.ray, "python": versions.python, "nodes": len(inspection.nodes)}
    return cluster, chosen


def _watch(
    asked: InspectRequest, inspection: Inspection, cluster: StateDashboard, chosen: TrainingJob, say: Say
) -> None:
    """Adds what the hosts' observers saw, or why they saw nothing, and why an inspection was cut short."""
    if not asked.actors:
        inspection.problems = dict.fromkeys(chosen.training(), "no observer was started, as asked")
        return
    inspection.cut_short = "the inspection ended before it was done"  # until it is
    try:
        seen = watch.watch(cluster, chosen, asked.seconds, say)
        inspection.hosts = seen["hosts"]
        inspection.problems = {node: why for node, why in seen["problems"].items() if node in chosen.training()}
        inspection.ray |= {"python": seen["python"]}
        now = status(cluster, chosen)
        inspection.cut_short = ""
    except (RunError, InputError) as error:
        inspection.cut_short = str(error)
        inspection.problems |= {node: str(error) for node in chosen.training() if node not in inspection.hosts}
        return
    if now and now not in RUNNING:
        inspection.cut_short = f"the job ended while it was inspected: it is {now}"
        inspection.job["status"] = now
    elif gone := [pid for told in inspection.hosts.values() for pid in told["window"]["gone"]]:
        inspection.cut_short = f"{len(gone)} of the job's training processes ended while they were inspected"
    elif not inspection.hosts:
        inspection.cut_short = "no host could be watched"
