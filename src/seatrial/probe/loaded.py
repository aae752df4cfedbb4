"""What a running process has loaded, and from which packages: by its memory map, never by asking it.

A version is that of the package that the file belongs to, else the one in the file's name. A file that was replaced on
disk since it was loaded has none.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from seatrial.probe.interfaces import PROC

# What is looked for: `(name, pattern of the file's name, packages that it may belong to)`.
WANTED: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("ray", r"_raylet\.so", ("ray",)),
    ("torch", r"libtorch_cpu\.so|libtorch\.so", ("torch",)),
    ("nccl", r"libnccl\.so[.\d]*", ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11")),
    ("ofi-plugin", r"libnccl-net(-ofi|-aws-ofi)?\.so[.\d]*", ()),
    ("libfabric", r"libfabric\.so[.\d]*", ()),
    ("cuda-runtime", r"libcudart(-[0-9a-f]+)?\.so[.\d]*", ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12")),
    ("cuda-driver", r"libcuda\.so[.\d]*", ()),
)
SITES = ("site-packages", "dist-packages")
_TRAILING = re.compile(r"\.so\.(\d+(?:\.\d+)+)$")  # one number alone is an interface's, not a release's
_DELETED = " (deleted)"


def libraries(pid: int, proc: Path = PROC) -> dict[str, dict[str, str]] | None:
    """`{name: {file, version | unknown, from}}` of WANTED as far as loaded; None if the process cannot be read."""
    mapped = _mapped(pid, proc)
    if mapped is None:
        return None
    found: dict[str, dict[str, str]] = {}
    for path, inode in sorted(mapped.items()):
        file = Path(path.removesuffix(_DELETED))
        for name, pattern, packages in WANTED:
            if name not in found and re.fullmatch(pattern, file.name):
                told = _version(file, packages)
                if path.endswith(_DELETED) or _replaced(proc / str(pid), file, inode):
                    told = {"unknown": "the file was replaced or removed since it was loaded"}
                found[name] = {"file": str(file), **told}
    return found


def sites(pid: int, proc: Path = PROC) -> list[str]:
    """The package folders that a process has loaded something from."""
    folders = {
        str(Path(*parts[: parts.index(site) + 1]))
        for path in _mapped(pid, proc) or {}
        for parts in [Path(path).parts]
        for site in SITES
        if site in parts
    }
    return sorted(folders)


def executable(pid: int, proc: Path = PROC) -> str:
    """The interpreter's file; empty if it cannot be read."""
    try:
        return os.readlink(proc / str(pid) / "exe")
    except OSError:
        return ""


def python(pid: int, proc: Path = PROC) -> str:
    """The interpreter's version, `3.13`, by its library or its name; empty if neither says it."""
    names = [executable(pid, proc), *(_mapped(pid, proc) or {})]
    said = (re.search(r"(?:/|lib)python(\d+\.\d+)(?:\.so[.\d]*)?$", name.removesuffix(_DELETED)) for name in names)
    return next((match[1] for match in said if match), "")


def _mapped(pid: int, proc: Path) -> dict[str, int] | None:
    """Mapped files with their inodes."""
    try:
        text = (proc / str(pid) / "maps").read_text(errors="replace")
    except OSError:
        return None
    rows = (line.split(None, 5) for line in text.splitlines())
    return {row[5]: int(row[4]) for row in rows if len(row) == 6 and row[5].startswith("/")}


def _replaced(process: Path, file: Path, inode: int) -> bool:
    """Whether another file lies there, as the process sees its disk, than the one it has mapped.

    The inode alone does not tell: a layered file system may show another one for the same file.
    """
    try:
        there = os.stat(f"{process / 'root'}{file}")
    except OSError:
        return True
    return there.st_ino != inode and there.st_ctime > _started(process)


def _started(process: Path) -> float:
    """POSIX time at which a process started; 0 if it is gone."""
    try:
        ticks = int((process / "stat").read_text(errors="replace").rpartition(")")[2].split()[19])
        up = float((process.parent / "uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0
    return time.time() - up + ticks / os.sysconf("SC_CLK_TCK")


def _version(file: Path, packages: Iterable[str]) -> dict[str, str]:
    if owner := _owner(file, packages):
        return {"version": owner.version, "from": f"package {owner.metadata['Name']}"}
    if match := _TRAILING.search(os.path.realpath(file)):
        return {"version": match[1], "from": "the file's name"}
    return {"unknown": "neither a package nor the file's name tells the version"}


def _owner(file: Path, packages: Iterable[str]) -> Distribution | None:
    """The package of one of these names in the folder of packages that the file lies in."""
    site = next((parent for parent in file.parents if parent.name in SITES), None)
    wanted = set(packages)
    if site is None or not wanted:
        return None
    for package in distributions(path=[str(site)]):
        if (package.metadata["Name"] or "").lower().replace("_", "-") in wanted:
            return package
    return None


def devices(pid: int, proc: Path = PROC) -> list[str]:
    """The accelerator and network devices that a process holds open: /dev/nvidia*, /dev/infiniband/*, /dev/efa*."""
    found: set[str] = set()
    try:
        with os.scandir(proc / str(pid) / "fd") as descriptors:
            for descriptor in descriptors:
                try:
                    target = os.readlink(descriptor.path)
                except FileNotFoundError:
                    continue  # closed meanwhile
                if target.startswith(("/dev/nvidia", "/dev/infiniband/", "/dev/efa")):
                    found.add(target)
    except OSError:
        return []
    return sorted(found)


def threads(pid: int, beginning: str, proc: Path = PROC) -> list[str]:
    """Names of a process's threads with this beginning."""
    found: set[str] = set()
    try:
        tasks = list((proc / str(pid) / "task").iterdir())
    except OSError:
        return []
    for task in tasks:
        try:
            name = (task / "comm").read_text(errors="replace").strip()
        except OSError:
            continue  # ended meanwhile
        if name.startswith(beginning):
            found.add(name)
    return sorted(found)


def settings(pid: int, prefixes: tuple[str, ...], proc: Path = PROC) -> dict[str, Any]:
    """The variables of these prefixes that the process was *started* with; what it set later cannot be seen."""
    try:
        raw = (proc / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    pairs = (entry.decode("utf-8", "replace").partition("=") for entry in raw.split(b"\x00"))
    return {name: value for name, _, value in sorted(pairs) if name.startswith(prefixes)}
