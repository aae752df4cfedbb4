"""How long `seatrial check` takes, beside the `kubernetes-validate` command on the same files.

    python benchmarks/check.py [--rounds 5] [--files 1000] [FOLDER]

FOLDER holds real manifests; without one, this makes its own. Start-up with one manifest, and many manifests in a call
on one core, in alternating rounds: medians, least and most, and the largest resident memory. They do not do the same:
`kubernetes-validate` knows no Ray resource, and skips them with a warning.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
BIN = Path(sys.executable).parent


def timed(command: list[str]) -> tuple[float, float]:
    """Seconds, and the largest resident memory in MiB, of one run on one core."""
    core = min(os.sched_getaffinity(0))
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=lambda: os.sched_setaffinity(0, {core}))  # fmt: skip  # noqa: E501
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if os.waitstatus_to_exitcode(status) not in (0, 1, 2):
        raise SystemExit(f"{command[0]} ended with {status}")
    return seconds, usage.ru_maxrss / 1024


def manifests(folder: Path | None, target: Path, count: int) -> list[Path]:
    """`count` files: copies of the real ones, or of a generated cluster."""
    if folder:
        texts = [path.read_text() for path in sorted(folder.glob("*.yaml"))]
    else:
        from tests.support.manifests import changed

        texts = [changed({}, kind) for kind in ("RayCluster", "RayJob", "RayService")]
    files = []
    for number in range(count):
        path = target / f"{number:05}.yaml"
        path.write_text(texts[number % len(texts)])
        files.append(path)
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=1000)
    given = parser.parse_args()
    target = Path(tempfile.mkdtemp(prefix="check-"))
    try:
        files = [str(path) for path in manifests(given.folder, target, given.files)]
        tools = {
            "seatrial check": [str(BIN / "seatrial"), "check"],
            "kubernetes-validate": [str(BIN / "kubernetes-validate")],
        }
        for title, names in (("1 manifest", files[:1]), (f"{len(files)} manifests", files)):
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in tools}
            for _ in range(given.rounds):
                for name, command in tools.items():
                    found[name].append(timed([*command, *names]))
            for name, runs in found.items():
                seconds, memory = [s for s, _ in runs], max(m for _, m in runs)
                print(
                    f"{title:>16}  {name:<20} median {statistics.median(seconds):7.3f} s"
                    f"  [{min(seconds):.3f}, {max(seconds):.3f}]  at most {memory:.0f} MiB"
                )
    finally:
        shutil.rmtree(target)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
