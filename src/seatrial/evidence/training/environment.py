"""Environment: layers with a digest each, so that two runs can be told apart by layer. The same of a script's run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seatrial.canon import digest, plain
from seatrial.events.layers import Network, Packages, Pods, layer, layers, parsed
from seatrial.events.schema import Environment
from seatrial.evidence.facts import environment
from seatrial.evidence.facts.environment import Additions, HostPackages, Layer
from seatrial.evidence.facts.fact import Fact
from seatrial.evidence.run import Run
from seatrial.evidence.witness import pods

OF_A_HOST = ("packages", "base_packages", "hardware")  # the same for every process of a host
NOBODY = {"no process": {"unknown": "no process of this run recorded it"}}
Changes = dict[str, list[str | None]]


def facts(run: Run) -> Iterator[Fact[Any]]:
    """All facts of this kind: one for each layer, then image, runtime environment delta and agreement of hosts."""
    found = _layers(run)
    for name in run.kind.layers:
        found.setdefault(name, dict(NOBODY))
    for name, by_process in sorted(found.items()):
        yield _layer(name, by_process)
    yield _image_asked(run)
    yield _image_ran(run)
    yield _additions(run)
    yield _hosts(run)


def _layers(run: Run) -> dict[str, dict[str, dict[str, Any]]]:
    """layer -> process (or host) -> content."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for stream in (run.driver, *run.probes, *run.ranks):
        if stream.header is None:
            continue
        for event in stream.all(Environment):
            if event.layer == "pods":  # addresses and names of one run; the image in it is a fact of its own
                continue
            where = stream.header.host if event.layer in OF_A_HOST else stream.path
            found.setdefault(event.layer, {})[where] = event.content
    return found


def _layer(name: str, by_process: dict[str, dict[str, Any]]) -> Fact[Layer]:
    digests = {where: digest(plain(content)) for where, content in sorted(by_process.items())}
    same = len(set(digests.values())) == 1
    content = next(iter(by_process.values()))
    type = environment.LAYER.of(layer=name)
    if same and set(content) == {"unknown"}:
        return type.unknown(str(content["unknown"]), _witness(by_process))
    value = Layer(
        digest=next(iter(digests.values())) if same else digest(digests),
        content=content if same else by_process,
        same_everywhere=same,
        seen_by=sorted(by_process),
    )
    return type.seen(value, _witness(by_process))


def _witness(by_process: dict[str, Any]) -> str:
    seen_by = sorted(by_process)
    return seen_by[0] if len(seen_by) == 1 else f"{seen_by[0]} and {len(seen_by) - 1} more"


def _image_asked(run: Run) -> Fact[str]:
    if run.plan.image:
        return environment.IMAGE_ASKED.seen(run.plan.image, "trial")
    return environment.IMAGE_ASKED.not_applicable("the trial names no image")


def _image_ran(run: Run) -> Fact[str]:
    """By the pods of the hosts that ran a rank, as they were when workers came and when they left."""
    if why := run.incomplete(run.ranks, "rank"):
        return environment.IMAGE_RAN.unknown(why, pods.WITNESS)
    told = layers([run.driver], Pods)
    listed = {pod.name: pod for content in told for pod in content.pods}
    if not listed:
        why = next((content.unknown for content in told if content.unknown), "")
        why = why or "the run was not in Kubernetes, where a pod's imageID tells it"
        return environment.IMAGE_RAN.unknown(why, pods.WITNESS)
    network = {probe.header.host: layer(probe, Network) for probe in run.probes if probe.header}
    hosts = sorted({s.header.host for s in run.ranks if s.header})
    return pods.image_ran([pods.place(host, network.get(host) or Network()) for host in hosts], list(listed.values()))


def _packages(run: Run, name: str) -> dict[str, Packages]:
    """Packages of one interpreter on each host that recorded them."""
    return {
        stream.header.host: found
        for stream in (run.driver, *run.probes, *run.ranks)
        if stream.header
        for event in stream.all(Environment)
        if event.layer == name and not (found := parsed(event, Packages)).unknown
    }


def _additions(run: Run) -> Fact[Additions]:
    """What the workers' interpreter has beyond the image's, host by host."""
    base, used = _packages(run, "base_packages"), _packages(run, "packages")
    if not used or set(base) != set(used):
        why = "no host has both its own packages and its workers' recorded"
        return environment.RUNTIME_ENV.unknown(why, "host probes, ranks")
    deltas = {host: _changed(base[host].installed, used[host].installed) for host in used}
    same = len({digest(d) for d in deltas.values()}) == 1
    return environment.RUNTIME_ENV.seen(
        Additions(same_everywhere=same, delta=dict(next(iter(deltas.values())) if same else deltas)),
        "probe in the image's interpreter, ranks in their own",
        "" if same else "contradiction: hosts have different additions",
    )


def _changed(base: dict[str, str], used: dict[str, str]) -> Changes:
    return {n: [base.get(n), used.get(n)] for n in sorted({*base, *used}) if base.get(n) != used.get(n)}


def _hosts(run: Run) -> Fact[HostPackages]:
    """Packages of every host that ran a rank; a host that said nothing makes it unknown."""
    if why := run.incomplete(run.ranks, "rank"):
        return environment.HOSTS.unknown(why, "ranks")
    used = _packages(run, "packages")
    if silent := sorted({s.header.host for s in run.ranks if s.header} - set(used)):
        return environment.HOSTS.unknown(f"host {silent[0]} did not record its packages", "ranks")
    digests = {host: digest(plain(packages.installed)) for host, packages in sorted(used.items())}
    value = HostPackages(hosts=len(digests), package_digests=dict(digests), agree=len(set(digests.values())) == 1)
    return environment.HOSTS.seen(value, "one rank of each host")
