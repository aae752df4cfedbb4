"""Several hosts on one machine: a network namespace each, joined by a bridge, with a host name and a /tmp/ray of its own.

What they share is what pods of one node share: kernel, boot id, clock. Process ids and files they share beyond that.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.waiting import last_lines, output_of, wait_for

PREFIX = f"st{os.getpid()}"
MOUNT_POINT = Path("/tmp/ray")  # where `ray` looks for the Ray of its host
NAMES = ("head", "one", "two")
# Private mounts and host name for one command: `ip netns exec` has given it mounts and a /sys of its own.
ENTER = 'hostname "$1"; mount --bind "$2" /tmp/ray; shift 2; exec "$@"'


def ip(*words: str) -> str:
    """One command of iproute2; what it said."""
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


@dataclass(frozen=True)
class Host:
    """One host: `eth0` in a namespace carries its address; `port` is the bridge's end of the cable."""

    name: str
    address: str
    home: Path
    network: str  # prefix of the namespaces of all its hosts and of their bridge

    @property
    def namespace(self) -> str:
        return f"{self.network}-{self.name}"

    @property
    def bridge(self) -> str:
        return f"{self.network}-bridge"

    @property
    def port(self) -> str:
        return f"to-{self.name}"

    @property
    def inode(self) -> int:
        """As every process on this host sees it."""
        return os.stat(f"/run/netns/{self.namespace}").st_ino

    @property
    def ray(self) -> Path:
        """What the processes of this host see as /tmp/ray."""
        return self.home / self.name

    def start(self, *command: str, log: Path | None = None, **environment: str) -> subprocess.Popen[str]:
        """A process on this host, in a group of its own; it writes to its stdout, or to `log` if there is one."""
        with log.open("w") if log else contextlib.nullcontext(subprocess.PIPE) as output:
            return subprocess.Popen(
                ["ip", "netns", "exec", self.namespace, "unshare", "--uts", "sh", "-ec", ENTER, "sh",
                 f"host-{self.name}", str(self.ray), *command],
                env={**self.environment(), **environment}, cwd=self.home, text=True, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def run(self, *command: str, **environment: str) -> str:
        """What a process on this host said until its end. Raises AssertionError if that was no good one."""
        process = self.start(*command, **environment)
        said, _ = output_of(process, shlex.join(command), self.told)
        assert process.returncode == 0, f"{shlex.join(command)} ended with {process.returncode}:\n{said}{self.told()}"
        return said

    def told(self) -> str:
        """How many processes there are, and the last lines that Ray's own have written."""
        logs = [path for kind in ("err", "log", "out") for path in self.ray.glob(f"session_2*/logs/*.{kind}")]
        return f"host {self.name} has {len(self.pids())} processes\n{last_lines(logs)}"

    def environment(self) -> dict[str, str]:
        """The token lies in the home directory; nothing of the tester's own Ray or network settings gets in."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "GLOO_", "NCCL_", "SEATRIAL_"))}
        return {
            **kept,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "HF_HUB_OFFLINE": "1",
            "PYTHONUNBUFFERED": "1",
            "RAY_AUTH_MODE": "token",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2",
            "RAY_raylet_start_wait_time_s": "400",  # a slow machine starts slowly, and is no broken one
            "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "400",  # its nine processes share the cores, too
            "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT": "400",
            "RAY_worker_register_timeout_seconds": "400",
            "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",  # nothing drains these hosts, and it costs their cores
        }

    def pids(self) -> list[int]:
        return [int(pid) for pid in ip("netns", "pids", self.namespace).split()]

    def titles(self) -> dict[int, str]:
        """The command line of each process by its pid, as far as it is still there."""
        found = {}
        for pid in self.pids():
            with contextlib.suppress(OSError):
                found[pid] = Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
        return found

    def cut(self) -> None:
        """Takes the carrier from the cable, at the bridge's end."""
        ip("-n", self.bridge, "link", "set", self.port, "down")

    def mend(self) -> None:
        ip("-n", self.bridge, "link", "set", self.port, "up")

    @contextlib.contextmanager
    def slowed(self, rate: str) -> Iterator[None]:
        """What this host sends goes at no more than `rate`, as tc writes it."""
        words = f"tc -n {self.namespace} qdisc %s dev eth0 root %s"
        limit = f"tbf rate {rate} burst 64kb latency 2s"
        subprocess.run(shlex.split(words % ("add", limit)), check=True)
        try:
            yield
        finally:
            subprocess.run(shlex.split(words % ("del", "")), check=True)


@contextlib.contextmanager
def network(letter: str) -> Iterator[list[Host]]:
    """A head and two workers, wired, apart from networks of other letters. Everything is removed afterwards, also what
    was only half made.
    """
    remove_stale()
    prefix = f"{PREFIX}{letter}"
    home = Path(tempfile.mkdtemp(prefix="seatrial-hosts-", dir="/var/tmp"))
    made_mount_point = not MOUNT_POINT.exists()
    MOUNT_POINT.mkdir(exist_ok=True)
    try:
        ip("netns", "add", f"{prefix}-bridge")
        ip("-n", f"{prefix}-bridge", "link", "add", "bridge", "type", "bridge")
        ip("-n", f"{prefix}-bridge", "link", "set", "bridge", "up")
        hosts = [Host(name, f"10.77.0.{11 + number}", home, prefix) for number, name in enumerate(NAMES)]
        for host in hosts:
            _wire(host)
        yield hosts
    finally:
        remove(prefix)
        shutil.rmtree(home, ignore_errors=True)
        if made_mount_point:
            with contextlib.suppress(OSError):  # somebody else's Ray has come to use it
                MOUNT_POINT.rmdir()


def outsider(hosts: list[Host]) -> Host:
    """A machine on the same network that is no part of the cluster, with a home of its own. It goes with the others."""
    found = Host("laptop", f"10.77.0.{11 + len(hosts)}", hosts[0].home / "outside", hosts[0].network)
    _wire(found)
    return found


def _wire(host: Host) -> None:
    host.ray.mkdir(parents=True)
    inside = ("-n", host.namespace)
    ip("netns", "add", host.namespace)
    ip(*inside, "link", "add", "eth0", "type", "veth", "peer", "name", host.port, "netns", host.bridge)
    ip("-n", host.bridge, "link", "set", host.port, "master", "bridge", "up")
    ip(*inside, "address", "add", f"{host.address}/24", "dev", "eth0")
    for interface in ("lo", "eth0"):
        ip(*inside, "link", "set", interface, "up")
    ip(*inside, "route", "add", "default", "dev", "eth0")


def remove(prefix: str) -> None:
    """Ends what runs in the namespaces of a test process, and takes them away; their cables go with them."""
    names = [line.split()[0] for line in ip("netns", "list").splitlines() if line.startswith(f"{prefix}-")]

    def ended() -> bool:
        left = [int(pid) for name in names for pid in ip("netns", "pids", name).split()]
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left

    wait_for(ended, f"the end of all processes in {names}")
    for name in names:
        ip("netns", "delete", name)


def remove_stale() -> None:
    """What a test process left that was killed itself."""
    prefixes = {line.partition("-")[0] for line in ip("netns", "list").splitlines()}
    for prefix in prefixes:
        ours = re.fullmatch(r"st(\d+)[a-z]", prefix)
        if ours and not Path(f"/proc/{ours[1]}").exists():
            remove(prefix)
