"""One look at a job from its choice to the sealed record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seatrial.errors import InputError, RunError
from seatrial.launch.inspect import choose, dashboard, watch
from seatrial.launch.inspect.claims import read_claims
from seatrial.launch.inspect.resource import Resource, look_up
from seatrial.launch.inspect.write import Account, Look
from seatrial.launch.jobs import differences
from seatrial.launch.jobs_dashboard import NoAnswer
from seatrial.record import read_record

Say = Callable[[str], None]


@dataclass(frozen=True)
class Asked:
    """What the user asked for. `resource` is `rayjob/NAME` or `raycluster/NAME`; one of it and `address` is given."""

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
class Outcome:
    """A sealed look."""

    record: Path
    content: dict[str, Any]
    digest: str


def inspect(asked: Asked, say: Say) -> Outcome:
    """Looks and seals. Raises InputError before anything is started or written, EvidenceError never, OSError."""
    if not asked.address and not asked.resource:
        expected = "rayjob/NAME, raycluster/NAME, or --address http://HOST:8265"
        raise InputError("nothing to look at", expected=expected)
    claims, image = read_claims(asked.claims) if asked.claims else ([], None)
    resource = look_up(asked.resource, asked.namespace, asked.context) if asked.resource else None
    cluster, chosen = None, None
    look = Look(name="", asked=_said(asked), claims=claims, image=image)
    if asked.address:
        cluster, chosen = _choose(asked, look, resource, say)
    if resource:
        look.kubernetes = resource.seen
        look.name = look.name or resource.name
        if not asked.address:
            look.kubernetes["unknown_without_address"] = resource.how_to_reach
            say(f"without --address only the Kubernetes API is asked; {resource.how_to_reach}")
    account = Account(look, asked.storage)
    try:
        if cluster and chosen:
            _watch(asked, look, cluster, chosen, say)
    finally:
        path, _ = account.finish()
    content, digest = read_record(path)
    return Outcome(path, content, digest)


def _said(asked: Asked) -> dict[str, Any]:
    given = {"address": asked.address, "job": asked.job, "resource": asked.resource, "namespace": asked.namespace}
    window = {"seconds": asked.seconds, "actors": asked.actors} if asked.address else {}
    return {name: value for name, value in {**given, "context": asked.context}.items() if value} | window


def _choose(asked: Asked, look: Look, resource: Resource | None, say: Say) -> tuple[dashboard.Cluster, choose.Chosen]:
    if asked.actors:
        watch.check_client()
    cluster, versions = dashboard.connect(asked.address)
    try:
        chosen = choose.choose(cluster, asked.job or (resource.job if resource else ""))
        look.train, look.nodes = cluster.train_runs(chosen.job), cluster.nodes()
    except NoAnswer as error:
        raise InputError(str(error), field="--address") from None
    if asked.actors:
        for line in differences(versions):
            say(line)
    look.name, look.job = chosen.name, {"job_id": chosen.job, **chosen.details}
    look.ray = {"version": versions.ray, "python": versions.python, "nodes": len(look.nodes)}
    return cluster, chosen


def _watch(asked: Asked, look: Look, cluster: dashboard.Cluster, chosen: choose.Chosen, say: Say) -> None:
    """Fills in what the hosts' observers saw, or why they saw nothing; a look that was cut short says so."""
    if not asked.actors:
        look.problems = dict.fromkeys(chosen.training(), "no observer was started (--no-actors)")
        return
    look.cut_short = "the looking ended before it was done"  # until it is
    try:
        seen = watch.watch(cluster, chosen, asked.seconds, say)
        look.hosts = seen["hosts"]
        look.problems = {node: why for node, why in seen["problems"].items() if node in chosen.training()}
        look.ray |= {"python": seen["python"]}
        now = choose.status(cluster, chosen)
        look.cut_short = ""
    except (RunError, InputError) as error:
        look.cut_short = str(error)
        look.problems |= {node: str(error) for node in chosen.training() if node not in look.hosts}
        return
    if now and now not in choose.RUNNING:
        look.cut_short = f"the job ended while it was looked at: it is {now}"
        look.job["status"] = now
    elif gone := [pid for told in look.hosts.values() for pid in told["window"]["gone"]]:
        look.cut_short = f"{len(gone)} of the job's training processes ended while they were looked at"
    elif not look.hosts:
        look.cut_short = "no host could be watched"
