"""Environment: layers with a digest each, so that two runs can be told apart by layer."""

from __future__ import annotations

from typing import Any

from seatrial.canon import digest, plain
from seatrial.events.schema import Environment
from seatrial.evidence import pods
from seatrial.evidence.facts import Fact, unknown
from seatrial.evidence.gather import Run

OF_A_SCRIPT = ("code", "hardware", "libraries", "module", "ray", "script", "settings", "torch")
EXPECTED = ("code", "data", "hardware", "libraries", "model", "ray", "settings", "tokenizer", "torch")


def facts(run: Run) -> dict[str, Fact]:
    """All facts of this kind: one for each layer, then image, runtime environment delta and agreement of hosts."""
    layers = _layers(run)
    for name in OF_A_SCRIPT if run.script else EXPECTED:
        layers.setdefault(name, {"no process": {"unknown": "no process of this run recorded it"}})
    found = [_layer(name, by_process) for name, by_process in sorted(layers.items())]
    found += [
        _image_asked(run),
        _image_ran(run),
    ]
    found += [_delta(layers), _hosts(run, layers)]
    return {fact.id: fact for fact in found}


def _layers(run: Run) -> dict[str, dict[str, Any]]:
    """layer -> process -> content; `process` is a host for what is the same for a whole host."""
    found: dict[str, dict[str, Any]] = {}
    for stream in (run.driver, *run.probes, *run.ranks):
        if stream.header is None:
            continue
        for event in stream.all(Environment):
            if event.layer == "pods":  # addresses and names of one run; the image in it is a fact of its own
                continue
            where = stream.header.host if event.layer in ("packages", "base_packages", "hardware") else stream.path
            found.setdefault(event.layer, {})[where] = event.content
    return found


def _layer(name: str, by_process: dict[str, Any]) -> Fact:
    digests = {where: digest(plain(content)) for where, content in sorted(by_process.items())}
    same = len(set(digests.values())) == 1
    content = next(iter(by_process.values()))
    if same and set(content) == {"unknown"}:
        return unknown(f"environment.{name}", str(content["unknown"]), _witness(by_process))
    value = {
        "digest": next(iter(digests.values())) if same else digest(digests),
        "content": content if same else by_process,
        "same_everywhere": same,
        "seen_by": sorted(by_process),
    }
    return Fact(f"environment.{name}", value=value, witness=_witness(by_process))


def _witness(by_process: dict[str, Any]) -> str:
    seen_by = sorted(by_process)
    return seen_by[0] if len(seen_by) == 1 else f"{seen_by[0]} and {len(seen_by) - 1} more"


def _image_asked(run: Run) -> Fact:
    image = run.plan.get("image")
    if image:
        return Fact("environment.image.asked", value=image, witness="trial")
    return Fact("environment.image.asked", "not-applicable", reason="the trial names no image")


def _image_ran(run: Run) -> Fact:
    """By the pods of the hosts that ran a rank, as they were when workers came and when they left."""
    told = [e.content for e in run.driver.all(Environment) if e.layer == "pods"]
    if why := run.incomplete(run.ranks, "rank"):
        return unknown(pods.NAME, why, pods.WITNESS)
    listed = {str(pod["name"]): pod for content in told for pod in content.get("pods", ())}
    if not listed:
        why = next((str(content["unknown"]) for content in told if "unknown" in content), "")
        return unknown(pods.NAME, why or "the run was not in Kubernetes, where a pod's imageID tells it", pods.WITNESS)
    network = {
        probe.header.host: event.content
        for probe in run.probes
        for event in probe.all(Environment)
        if probe.header and event.layer == "network"
    }
    hosts = sorted({s.header.host for s in run.ranks if s.header})
    return pods.image_ran([pods.place(host, network.get(host, {})) for host in hosts], list(listed.values()))


def _delta(layers: dict[str, dict[str, Any]]) -> Fact:
    """What the workers' interpreter has beyond the image's, host by host."""
    name = "environment.runtime_env"
    base, used = layers.get("base_packages", {}), layers.get("packages", {})
    if not used or set(base) != set(used):
        return unknown(name, "no host has both its own packages and its workers' recorded", "host probes, ranks")
    deltas = {host: _changed(base[host]["installed"], used[host]["installed"]) for host in used}
    same = len({digest(d) for d in deltas.values()}) == 1
    return Fact(
        name,
        value={"same_everywhere": same, "delta": next(iter(deltas.values())) if same else deltas},
        witness="probe in the image's interpreter, ranks in their own",
        reason="" if same else "contradiction: hosts have different additions",
    )


def _changed(base: dict[str, str], used: dict[str, str]) -> dict[str, list[str | None]]:
    return {n: [base.get(n), used.get(n)] for n in sorted({*base, *used}) if base.get(n) != used.get(n)}


def _hosts(run: Run, layers: dict[str, dict[str, Any]]) -> Fact:
    """Packages of every host that ran a rank; a host that said nothing makes it unknown."""
    name = "environment.hosts"
    if why := run.incomplete(run.ranks, "rank"):
        return unknown(name, why, "ranks")
    used = layers.get("packages", {})
    if silent := sorted({s.header.host for s in run.ranks if s.header} - set(used)):
        return unknown(name, f"host {silent[0]} did not record its packages", "ranks")
    digests = {host: digest(plain(content["installed"])) for host, content in sorted(used.items())}
    value = {"hosts": len(digests), "package_digests": digests, "agree": len(set(digests.values())) == 1}
    return Fact(name, value=value, witness="one rank of each host")
