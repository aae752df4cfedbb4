"""Why there is no answer, as a value: no permission, no connection, a time-out, an unknown shape."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from seatrial.errors import clean
from seatrial.kube import Json

T = TypeVar("T")


@dataclass(frozen=True)
class Unanswered:
    """Why the cluster gave no answer."""

    reason: str  # `403`, `timed out after 10 s`, `connection refused`
    needs: str = ""  # the permission that would bring one: `list nodes`
    lost: bool = False  # every further question will fail, too

    def __str__(self) -> str:
        return f"{self.reason} (needs {self.needs})" if self.needs else self.reason


def parsed(parse: Callable[[Json], T], content: Json | None) -> T | Unanswered:
    """What `parse` makes of an answer; Unanswered for a shape that the API does not have."""
    try:
        if content is not None:
            return parse(content)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError):
        pass
    return Unanswered("an answer in another shape than the API's")


def refused(code: int, needs: str) -> Unanswered:
    """A permission cures 403. Nothing here cures 401, an unknown user: every further question fails, too."""
    return Unanswered(str(code), needs if code == 403 else "", lost=code == 401)


def reason(error: Exception, timeout_s: float) -> Unanswered | None:
    """Why a request failed; None for an error that does not come from the network.

    The errors are the client's, and urllib3's beneath them.
    """
    import ssl

    from urllib3 import exceptions as u

    if isinstance(error, u.ProxyError):
        return Unanswered("the proxy does not answer", lost=True)
    if isinstance(error, u.SSLError | ssl.SSLError):
        return Unanswered(f"TLS: {_tls(error)}", lost=True)
    if isinstance(error, u.NewConnectionError):
        return Unanswered(_connection(error), lost=True)
    if isinstance(error, u.ConnectTimeoutError):
        return Unanswered(f"no connection after {timeout_s:g} s", lost=True)
    if isinstance(error, u.ReadTimeoutError | TimeoutError):
        return Unanswered(f"timed out after {timeout_s:g} s")
    if isinstance(error, u.ProtocolError):
        return Unanswered("the connection broke off")
    if isinstance(error, u.HTTPError | OSError):  # a wrong address, a missing certificate file
        return Unanswered(clean(" ".join(str(error).split()), 160), lost=True)
    return None


def _tls(error: Exception) -> str:
    """`certificate verify failed: self-signed certificate`."""
    import ssl

    inner = error.args[0] if error.args and isinstance(error.args[0], ssl.SSLError) else error
    if isinstance(inner, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {inner.verify_message}"
    return clean(str(getattr(inner, "reason", "") or inner).replace("_", " ").lower(), 120)


def _connection(error: Exception) -> str:
    """`connection refused`, `failed to resolve 'api.example.com' (name or service not known)`."""
    return clean(re.sub(r"\[Errno -?[0-9]+\] ", "", str(error)).rpartition(": ")[2].lower(), 160)
