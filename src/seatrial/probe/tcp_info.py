"""Bytes that each TCP connection of this network namespace has carried, by the kernel's `struct tcp_info`.

An interface's counter is for all processes of a host; this is for one connection. Linux, over
NETLINK_SOCK_DIAG (include/uapi/linux/sock_diag.h and inet_diag.h), which needs no privilege in one's own namespace.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_SOCK_DIAG, _BY_FAMILY, _DONE, _ERROR = 4, 20, 3, 2  # NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLMSG_DONE, NLMSG_ERROR
_REQUEST_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_ROOT | NLM_F_MATCH
_TCP, _INFO = 6, 2  # IPPROTO_TCP, INET_DIAG_INFO
_ESTABLISHED = 1 << 1  # a mask of states; TCP_ESTABLISHED is 1
_HEAD, _MESSAGE = struct.Struct("=IHHII"), struct.Struct("=BBBB2s2s16s16sIII IIIII")
# In struct tcp_info: tcpi_bytes_acked and tcpi_bytes_received, both 64 bits (Linux 4.1 and later).
_COUNTS, _COUNTS_AT = struct.Struct("=QQ"), 120
_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class TcpConnection:
    """One established connection: its ends as `ip:port`, and bytes acknowledged by the other end and received from it,
    both since it was made."""

    local: str
    remote: str
    sent: int
    received: int


def by_inode() -> dict[str, TcpConnection]:
    """Every established TCP connection by its socket's inode. Raises OSError where the kernel does not tell."""
    found: dict[str, TcpConnection] = {}
    for family in (socket.AF_INET, socket.AF_INET6):
        for message in _dump(family):
            inode, carried = _read(message)
            if carried is not None:
                found[inode] = carried
    return found


def _dump(family: int) -> Iterator[bytes]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.settimeout(_TIMEOUT_S)
        request = struct.pack("=BBBBI48x", family, _TCP, 1 << (_INFO - 1), 0, _ESTABLISHED)
        kernel.send(_HEAD.pack(_HEAD.size + len(request), _BY_FAMILY, _REQUEST_DUMP, 1, 0) + request)
        while True:
            answer, at = kernel.recv(1 << 18), 0
            while at + _HEAD.size <= len(answer):
                length, kind, *_ = _HEAD.unpack_from(answer, at)
                body = answer[at + _HEAD.size : at + length]
                if kind == _DONE:
                    return
                if kind == _ERROR or length < _HEAD.size:
                    number = -struct.unpack_from("=i", body)[0] if len(body) >= 4 else 0
                    raise OSError(number, "the kernel refuses to list TCP connections (sock_diag)")
                yield body
                at += (length + 3) & ~3


def _read(message: bytes) -> tuple[str, TcpConnection | None]:
    """`struct inet_diag_msg` and the attribute with `struct tcp_info`; None where a kernel leaves that out."""
    family, _, _, _, sport, dport, source, target, *rest = _MESSAGE.unpack_from(message)
    at = _MESSAGE.size
    while at + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        if length < 4:
            break
        if kind == _INFO and length - 4 >= _COUNTS_AT + _COUNTS.size:
            sent, received = _COUNTS.unpack_from(message, at + 4 + _COUNTS_AT)
            ends = _endpoint(family, source, sport), _endpoint(family, target, dport)
            return str(rest[-1]), TcpConnection(*ends, sent, received)
        at += (length + 3) & ~3
    return "", None


def _endpoint(family: int, address: bytes, port: bytes) -> str:
    """As `probe.sockets` writes them: `10.77.0.11:6379`, `[fe80::1]:80`; an IPv4 address in IPv6 as IPv4."""
    ip = ipaddress.ip_address(address[:4] if family == socket.AF_INET else address)
    plain = getattr(ip, "ipv4_mapped", None) or ip
    number = int.from_bytes(port, "big")
    return f"[{plain}]:{number}" if plain.version == 6 else f"{plain}:{number}"
