"""Start-up time of the commands that should feel instant: the whole process, median of several runs, in turn.

python benchmarks/startup.py [--runs 7]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "seatrial --version": [sys.executable, "-m", "seatrial.cli.main", "--version"],
    "seatrial --help": [sys.executable, "-m", "seatrial.cli.main", "--help"],
    "seatrial run --help": [sys.executable, "-m", "seatrial.cli.main", "run", "--help"],
    "seatrial schema trial": [sys.executable, "-m", "seatrial.cli.main", "schema", "trial"],
    "python -c 'import ray'": [sys.executable, "-c", "import ray"],
    "python -c 'import torch'": [sys.executable, "-c", "import torch"],
}


def main() -> None:
    """Runs every command in turn, `--runs` times after one warm-up, and prints seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    given = parser.parse_args()
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for number in range(given.runs + 1):
        for name, command in COMMANDS.items():
            began = time.monotonic()
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            if number:
                seconds[name].append(time.monotonic() - began)
    for name, taken in seconds.items():
        print(f"{name:<26} median {statistics.median(taken):.3f} s   min {min(taken):.3f}   max {max(taken):.3f}")


if __name__ == "__main__":
    main()
