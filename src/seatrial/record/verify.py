"""Whether a sealed run is still what was sealed: files missing, changed and unlisted.

Without a digest kept elsewhere (`expect`) this detects accidents only: who can change a file can change its record.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seatrial.canon import file_digest, parse
from seatrial.errors import EvidenceError
from seatrial.events import Layout
from seatrial.events.layout import is_unlisted_by_design
from seatrial.record.seal import latest, read_record

COLLECTED = "record.collected"  # in a copy of a run: where it came from, and what stayed there


@dataclass
class Verification:
    """What was compared and what differs."""

    record: str
    files: int = 0
    shards: int = 0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    behind: frozenset[str] = frozenset()  # what a collected copy is known to lack; it may be missing, never different


def verify(path: Path, *, deep: bool = False, expect: str = "") -> Verification:
    """Compares a run directory with its record at `path`. Raises EvidenceError if the record cannot be read."""
    record, digest = read_record(path)
    layout = Layout(path.parent)
    result = Verification(digest, behind=_left_behind(layout))
    if expect and expect.removeprefix("sha256:") != digest.removeprefix("sha256:"):
        result.problems.append(f"{path.name}: digest {digest}, expected {expect}")
    _seal(path, digest, result)
    _seals(layout, path, digest, str(record["run"]), result)
    _cited(layout, record, result)
    _files(layout, record, result)
    _reports(layout, result)
    _shards(layout, record, deep, result)
    if lacking := sorted(name for name in result.behind if not (layout.root / name).is_file()):
        result.notes.append(f"a collected copy: {len(lacking)} files stayed on the cluster, {lacking[0]} first")
    return result


def _left_behind(layout: Layout) -> frozenset[str]:
    """What `seatrial collect` says that it did not bring along."""
    try:
        said = parse((layout.root / COLLECTED).read_bytes())
    except (OSError, ValueError):
        return frozenset()
    names = said.get("left_out", []) if isinstance(said, dict) else []
    return frozenset(str(name) for name in names) if isinstance(names, list) else frozenset()


def _seal(path: Path, digest: str, result: Verification) -> None:
    seal = path.with_suffix(".sha256")
    try:
        kept = seal.read_text().split()[0]
    except (OSError, IndexError, UnicodeDecodeError):
        result.problems.append(f"{seal.name}: missing or unreadable")
        return
    if kept != digest.removeprefix("sha256:"):
        result.problems.append(f"{path.name}: digest {digest}, {seal.name} says sha256:{kept}")


def _seals(layout: Layout, path: Path, digest: str, run: str, result: Verification) -> None:
    """The storage's list of seals must know this record, if it knows the run at all."""
    lines = layout.seals.read_bytes().splitlines() if layout.seals.is_file() else []
    known = [line for raw in lines if isinstance(line := _json(raw), dict) and line.get("run") == run]
    if not known:
        result.notes.append(f"no {layout.seals.name} beside the run knows it: it was moved or copied here")
    elif digest not in {line.get("record") for line in known}:
        result.problems.append(f"{path.name}: {digest} is not in {layout.seals.name}")


def _json(raw: bytes) -> Any:
    try:
        return parse(raw)
    except ValueError:
        return None


def _cited(layout: Layout, record: dict[str, Any], result: Verification) -> None:
    """A record that follows an older one says which; that one must still be there, unchanged."""
    if not (cites := record["cites"]):
        return
    if cites not in {file_digest(p) for p in layout.root.glob("record*.json")}:
        result.problems.append(f"the record that this one follows, {cites}, is missing or changed")


def _files(layout: Layout, record: dict[str, Any], result: Verification) -> None:
    listed = {str(entry["path"]): entry for entry in record["artifacts"]}
    for name, entry in listed.items():
        file = layout.root / name
        if not file.is_file():
            result.problems += [] if name in result.behind else [f"{name}: missing"]
        elif file.stat().st_size != entry["size"] or file_digest(file) != entry["sha256"]:
            result.problems.append(f"{name}: changed")
    result.files = len(listed) - sum(name in result.behind and not (layout.root / name).is_file() for name in listed)
    for file in sorted(p for p in layout.root.rglob("*") if p.is_file() or p.is_symlink()):
        name = layout.relative(file)
        if name not in listed and not is_unlisted_by_design(layout.root, name):
            result.problems.append(f"{name}: not listed in the record")


def _reports(layout: Layout, result: Verification) -> None:
    """Reports can be written again; if their digests are kept, they are compared."""
    kept = layout.root / "report.sha256"
    if not kept.is_file():
        loose = [p.name for p in sorted(layout.root.glob("report.*"))]
        result.problems += [f"{name}: there is no report.sha256 to compare it with" for name in loose]
        return
    for line in kept.read_text(errors="replace").splitlines():
        digest, _, name = line.partition("  ")
        file = layout.root / Path(name).name
        if not file.is_file():
            result.problems.append(f"{name}: missing")
        elif file_digest(file) != f"sha256:{digest}":
            result.problems.append(f"{name}: changed")


def _shards(layout: Layout, record: dict[str, Any], deep: bool, result: Verification) -> None:
    """Shards are held by the manifests; sizes are always compared, digests with `deep`."""
    for entry in record["artifacts"]:
        if not (entry["path"].endswith("/manifest.json") and (layout.root / entry["path"]).is_file()):
            continue
        folder = (layout.root / entry["path"]).parent
        try:
            shards = parse((layout.root / entry["path"]).read_bytes())["shards"]
        except (ValueError, KeyError, TypeError):
            result.problems.append(f"{entry['path']}: not a manifest")
            continue
        known = {shard["path"] for shard in shards} | {"manifest.json"}
        result.problems += [
            f"{layout.relative(p)}: not listed in the manifest" for p in sorted(folder.iterdir()) if p.name not in known
        ]
        for shard in shards:
            file = folder / shard["path"]
            name = layout.relative(file)
            if not file.is_file() and name in result.behind:
                continue
            if not file.is_file():
                result.problems.append(f"{name}: missing")
            elif file.stat().st_size != shard["size"] or (deep and file_digest(file) != shard["sha256"]):
                result.problems.append(f"{name}: changed")
            result.shards += 1


def find(name: str, runs: Path = Path("runs")) -> Path:
    """The record that a user means: a record file, a run directory, `last`, or a run id's beginning under `./runs`.

    Raises EvidenceError, saying what is there instead.
    """
    path = Path(name)
    if path.is_file():
        return path.resolve()
    return latest(find_run(name, runs))


def find_run(name: str, runs: Path = Path("runs")) -> Path:
    """The run directory that a user means; see `find`."""
    path = Path(name)
    if name != "last" and path.is_dir():
        return path.resolve()
    if path.is_file():
        return path.resolve().parent
    known = sorted(p for p in runs.iterdir() if (p / "trial.json").is_file()) if runs.is_dir() else []
    if not known:
        raise EvidenceError(
            f"{name}: no such run, and {runs} holds none; expected a run directory, a record, or `last`"
        )
    if name == "last":
        return max(known, key=lambda p: (p / "trial.json").stat().st_mtime_ns)
    matching = [p for p in known if p.name.startswith(name)] or [p for p in known if name in p.name]
    if len(matching) != 1:
        said = f"{len(matching)} runs match" if matching else "no run matches"
        raise EvidenceError(
            f"{name}: {said} under {runs}; known: {', '.join(p.name for p in (matching or known)[-5:])}"
        )
    return matching[0]
