"""Errors of registries.

RunError
└── RegistryError   4  a registry gave no usable answer
    ├── Unreachable 4  no connection, no such host, no answer in time
    ├── NoTls       4  the answer is not TLS: perhaps plain HTTP
    └── Denied      4  401 or 403, or a token service that gives no token
EvidenceError
└── Altered         2  bytes that do not have the digest that was stated for them
"""

from __future__ import annotations

from seatrial.errors import EvidenceError, RunError


class RegistryError(RunError):
    """A registry gave no usable answer."""


class Unreachable(RegistryError):
    """No answer from a registry, or from the token service that it names."""

    def __init__(self, host: str, why: str):
        super().__init__(f"cannot reach the registry {host}: {why}; offline? the tag stays unresolved")


class NoTls(RegistryError):
    """A registry answers without TLS."""


class Denied(RegistryError):
    """A registry refuses access; the text says which credentials were tried, never their values."""


class Altered(EvidenceError):
    """Bytes that do not have the digest that the registry, or the reference, states for them."""
