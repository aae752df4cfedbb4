"""Counters, connections and interfaces, from trees that look as /proc and /sys do on known machines."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from seatrial.probe import counters, interfaces, sockets
from seatrial.probe.interfaces import problem_with

pytestmark = pytest.mark.unit

NET_DEV = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:    5000      10    0    0    0     0          0         0     5000      10    0    0    0     0       0          0
  eth0:18446744073709551615 70 1 2    0     0          0         0      900       7    3    4    0     0       0          0
"""
SEND = {
    "tx_bytes": 700,
    "tx_pkts": 3,
    "rx_bytes": 500,
    "rx_pkts": 2,
    "rx_drops": 0,
    "send_bytes": 700,
    "recv_bytes": 500,
}
READ = {**SEND, "rdma_read_bytes": 300, "rdma_read_resp_bytes": 200}
WRITE = {**READ, "rdma_write_bytes": 90, "rdma_write_recv_bytes": 80}
EFA, MELLANOX = ("0x1d0f", "efa"), ("0x15b3", "mlx5_core")


def machine(root: Path, devices: dict[str, tuple[tuple[str, str], dict[str, int]]]) -> dict[str, dict[str, str]]:
    """What is read on a machine with these RDMA devices: name, (vendor, driver), the counters of its one port."""
    (root / "proc/net").mkdir(parents=True)
    (root / "proc/net/dev").write_text(NET_DEV)
    for name, ((vendor, driver), values) in devices.items():
        device = root / "sys/class/infiniband" / name
        folder = device / "ports/1" / ("hw_counters" if driver == "efa" else "counters")
        folder.mkdir(parents=True)
        (root / "sys/bus/drivers" / driver).mkdir(parents=True, exist_ok=True)
        (device / "device").mkdir()
        (device / "device/vendor").write_text(f"{vendor}\n")
        (device / "device/driver").symlink_to(root / "sys/bus/drivers" / driver)
        for counter, value in {**values, **({"lifespan": 12} if driver == "efa" else {})}.items():
            (folder / counter).write_text(f"{value}\n")
    return counters.read(root / "proc", root / "sys")


def as_text(values: dict[str, int]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items()}


def test_interfaces_of_proc_net_dev(tmp_path: Path) -> None:
    found = machine(tmp_path, {})
    assert set(found) == {"net/lo", "net/eth0"}
    assert found["net/eth0"] == {
        "rx_bytes": "18446744073709551615", "rx_packets": "70", "rx_errors": "1", "rx_drops": "2",
        "tx_bytes": "900", "tx_packets": "7", "tx_errors": "3", "tx_drops": "4",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("names", "values"),
    [
        pytest.param(["rdmap0s29"], SEND, id="g6: no rdma counters"),
        pytest.param([f"rdmap{n}s27" for n in (16, 32, 144, 160)], READ, id="p4d: reads"),
        pytest.param([f"rdmap{n}s0" for n in range(32)], WRITE, id="p5: writes"),
    ],
)
def test_efa_devices(tmp_path: Path, names: list[str], values: dict[str, int]) -> None:
    found = machine(tmp_path, dict.fromkeys(names, (EFA, values)))
    assert {name: v for name, v in found.items() if not name.startswith("net/")} == {
        f"efa/{name}": as_text(values) for name in names
    }


def test_nvlink_controllers_beside_efa_are_no_network(tmp_path: Path) -> None:
    efa = {f"rdmap{n}s0": (EFA, WRITE) for n in range(8)}
    nvlink = {f"ibp{n}s0": (MELLANOX, {"port_xmit_data": 1 << 40, "port_rcv_data": 1 << 40}) for n in (3, 4)}
    found = machine(tmp_path, {**efa, **nvlink})
    assert {name for name in found if not name.startswith("net/")} == {f"efa/{name}" for name in efa}


def test_infiniband_counts_words_of_four_bytes(tmp_path: Path) -> None:
    found = machine(tmp_path, {"mlx5_0": (MELLANOX, {"port_xmit_data": 10, "port_rcv_data": 5, "symbol_error": 1})})
    assert found["ib/mlx5_0"] == {"rx_bytes": "20", "tx_bytes": "40"}


def test_what_cannot_be_read_is_absent(tmp_path: Path) -> None:
    found = machine(tmp_path, {"rdmap0s29": (EFA, SEND), "rdmap1s29": (EFA, {})})
    assert "efa/rdmap1s29" not in found
    (tmp_path / "sys/class/infiniband/rdmap0s29/ports/1/hw_counters/tx_bytes").write_text("N/A (no PMA)\n")
    again = counters.read(tmp_path / "proc", tmp_path / "sys")
    assert "tx_bytes" not in again["efa/rdmap0s29"]
    assert counters.read(tmp_path / "nowhere", tmp_path / "nowhere") == {}


def process(root: Path, pid: int, inodes: list[int]) -> None:
    """A process that holds these sockets, in the one network namespace of `root`."""
    (root / f"{pid}/fd").mkdir(parents=True, exist_ok=True)
    (root / f"{pid}/net").mkdir(exist_ok=True)
    (root / f"{pid}/ns").mkdir(exist_ok=True)
    if not (root / f"{pid}/ns/net").is_symlink():
        (root / f"{pid}/ns/net").symlink_to("net:[4026531840]")
    for number, inode in enumerate(inodes, start=3):
        (root / f"{pid}/fd/{number}").unlink(missing_ok=True)
        (root / f"{pid}/fd/{number}").symlink_to(f"socket:[{inode}]")


HEADINGS = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
ROW = "   0: {} {} {} 00000000:00000000 00:00000000 00000000     0        0 {} 1 0000000000000000 20 4 30 10 -1\n"
TCP = (
    HEADINGS
    + ROW.format("0C004D0A:A001", "0D004D0A:18EB", "01", 71)
    + ROW.format("0C004D0A:1F90", "00000000:0000", "0A", 72)
)
TCP6 = (
    HEADINGS
    + ROW.format("0000000000000000FFFF00000C004D0A:9000", "0000000000000000FFFF00000D004D0A:9001", "01", 73)
    + ROW.format("000000FD000000000000000002000000:0050", "000000FD000000000000000003000000:0051", "01", 74)
)


def test_connections_are_those_of_the_sockets_that_a_process_holds(tmp_path: Path) -> None:
    process(tmp_path, 1, [71, 72, 99])
    process(tmp_path, 2, [73, 74])
    for pid in (1, 2):
        (tmp_path / f"{pid}/net/tcp").write_text(TCP)
        (tmp_path / f"{pid}/net/tcp6").write_text(TCP6)
    assert sockets.connections({"rank-0": 1, "rank-1": 2, "gone": 3}, tmp_path) == {
        "rank-0": [("10.77.0.12:40961", "10.77.0.13:6379")],
        "rank-1": [("10.77.0.12:36864", "10.77.0.13:36865"), ("[fd00::2]:80", "[fd00::3]:81")],
    }


def test_a_watch_speaks_up_when_connections_have_changed(tmp_path: Path) -> None:
    process(tmp_path, 1, [71])
    table = tmp_path / "1/net/tcp"
    table.write_text(HEADINGS)
    watch = sockets.ConnectionWatch(tmp_path)
    assert watch.look({"rank-0": 1}) == {"rank-0": []}
    table.write_text(TCP)  # the same socket, connected by now
    connected = {"rank-0": [("10.77.0.12:40961", "10.77.0.13:6379")]}
    assert watch.look({"rank-0": 1}) == connected
    assert [watch.look({"rank-0": 1}) for _ in range(3)] == [None] * 3
    assert watch.look({}) == {}
    assert watch.look({}) is None


def test_a_watch_sees_a_connection_that_the_other_end_has_closed(tmp_path: Path) -> None:
    process(tmp_path, 1, [71])
    (tmp_path / "1/net/tcp").write_text(TCP)
    watch = sockets.ConnectionWatch(tmp_path)
    assert [bool(watch.look({"rank-0": 1})) for _ in range(2)] == [True, False]
    (tmp_path / "1/net/tcp").write_text(TCP.replace(" 01 ", " 08 "))
    assert {"rank-0": []} in [watch.look({"rank-0": 1}) for _ in range(sockets.ANEW_EVERY)]


def test_this_host_s_own_connection_and_interfaces() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        ends = [f"127.0.0.1:{address[1]}" for address in (client.getsockname(), server.getsockname())]
        assert tuple(ends) in sockets.connections({"me": os.getpid()})["me"]
    found = interfaces.addresses()
    assert interfaces.carrying("127.0.0.1", found) == "lo"
    assert interfaces.carrying("192.0.2.99", found) == ""


@pytest.mark.parametrize(
    ("table", "text", "name"),
    [
        ("route", "Iface Destination\n", ""),
        (
            "route",
            "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
            "eth1 00000000 0100000A 0003 0 0 200 00000000 0 0 0\neth0 00000000 0100000A 0003 0 0 100 00000000 0 0 0\n"
            "eth2 0000000A 00000000 0001 0 0 0 00FFFFFF 0 0 0\n",
            "eth0",
        ),
        (
            "ipv6_route",
            f"{'0' * 32} 00 {'0' * 32} 00 fe800000000000000000000000000001 00000400 1 0 00000003     eth0\n"
            f"{'0' * 32} 00 {'0' * 32} 00 {'0' * 32} ffffffff 1 0 00200200       lo\n",
            "eth0",
        ),
    ],
)
def test_the_interface_of_the_default_route(tmp_path: Path, table: str, text: str, name: str) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / table).write_text(text)
    assert interfaces.default_route(tmp_path) == name


def test_the_network_layer(tmp_path: Path) -> None:
    machine(tmp_path, {"rdmap0s29": (EFA, SEND), "ibp3s0": (MELLANOX, {})})
    (tmp_path / "sys/class/net/eth0").mkdir(parents=True)
    (tmp_path / "sys/class/net/eth0/mtu").write_text("9001\n")
    (tmp_path / "sys/class/net/eth0/speed").write_text("-1\n")  # what a driver says that does not know
    assert interfaces.describe({"eth0": ("10.0.0.1",)}, tmp_path / "proc", tmp_path / "sys") == {
        "interfaces": {"eth0": {"addresses": ["10.0.0.1"], "mtu": 9001}},
        "default_route": "",
        "rdma": {
            "ibp3s0": {"driver": "mlx5_core", "vendor": "0x15b3"},
            "rdmap0s29": {"driver": "efa", "vendor": "0x1d0f"},
        },
    }


HAS = {"lo": ("127.0.0.1", "::1"), "eth0": ("10.0.0.1",), "docker0": ()}


@pytest.mark.parametrize(
    ("variable", "value", "hosts", "why"),
    [
        ("GLOO_SOCKET_IFNAME", "eth0", 2, ""),
        ("GLOO_SOCKET_IFNAME", "wrong0", 1, "is no interface of this host"),
        ("GLOO_SOCKET_IFNAME", "eth0,wrong0", 2, "is no interface of this host"),
        ("GLOO_SOCKET_IFNAME", "^lo", 2, "is no interface of this host"),  # NCCL's way of writing, not gloo's
        ("GLOO_SOCKET_IFNAME", "docker0", 2, "has no IP address on this host"),
        ("GLOO_SOCKET_IFNAME", "lo", 2, "is the loopback interface, and the ranks are on 2 hosts"),
        ("GLOO_SOCKET_IFNAME", "lo", 1, ""),
        ("NCCL_SOCKET_IFNAME", "eth", 2, ""),
        ("NCCL_SOCKET_IFNAME", "=eth", 2, "is no interface of this host"),
        ("NCCL_SOCKET_IFNAME", "=lo,eth0", 2, ""),
        ("NCCL_SOCKET_IFNAME", "^docker0,lo", 2, ""),
        ("NCCL_SOCKET_IFNAME", "^eth,docker", 2, "is the loopback interface, and the ranks are on 2 hosts"),
        ("NCCL_SOCKET_IFNAME", "^=eth0", 2, "is the loopback interface, and the ranks are on 2 hosts"),
    ],
)
def test_settings_that_cannot_work(variable: str, value: str, hosts: int, why: str) -> None:
    problem = problem_with(variable, value, HAS, hosts)
    if not why:
        assert problem == ""
    else:
        has = "lo (127.0.0.1 ::1), eth0 (10.0.0.1), docker0 (no address)"
        assert problem == f'{variable} says "{value}", which {why}; {socket.gethostname()} has {has}'
