"""Forms that Kubernetes gives names and labels (apimachinery, pkg/util/validation)."""

from __future__ import annotations

import re

_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(_LABEL)
_SUBDOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_QUALIFIED = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
LABEL_FORM = "at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends"


def is_dns_label(text: str) -> bool:
    """Whether a namespace may have this name (RFC 1123 label)."""
    return len(text) <= 63 and bool(_DNS_LABEL.fullmatch(text))


def is_subdomain(text: str) -> bool:
    """Whether a pod, service account, claim, secret or config map may have this name (RFC 1123 subdomain)."""
    return len(text) <= 253 and bool(_SUBDOMAIN.fullmatch(text))


def is_label_value(text: str) -> bool:
    """Whether this may stand as a label's value; it may be empty."""
    return not text or _is_qualified(text)


def is_label_key(text: str) -> bool:
    """Whether this may stand as the key of a label or an annotation: a name, with a domain before a `/` or without."""
    prefix, slash, name = text.rpartition("/")
    return _is_qualified(name) and (not slash or is_subdomain(prefix))


def is_port_name(text: str) -> bool:
    """Whether a container's port may have this name (IsValidPortName)."""
    form = re.fullmatch(r"[a-z0-9](?:-?[a-z0-9])*", text)
    return len(text) <= 15 and bool(form) and any(letter.isalpha() for letter in text)


def _is_qualified(text: str) -> bool:
    return len(text) <= 63 and bool(_QUALIFIED.fullmatch(text))
