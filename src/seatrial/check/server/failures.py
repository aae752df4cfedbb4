"""What a broken exchange means, in words: the client's errors, and urllib3's under them."""

from __future__ import annotations

import re
import ssl

from seatrial.check.server.port import Unanswered
from seatrial.errors import clean


def reason(error: Exception, timeout_s: float) -> Unanswered | None:
    """Why there is no answer; None for an error that is none of the network's. A failed connection is lost for all."""
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
    if isinstance(error, u.HTTPError | OSError):  # a wrong address, a certificate file that is not there
        return Unanswered(clean(" ".join(str(error).split()), 160), lost=True)
    return None


def _tls(error: Exception) -> str:
    """`certificate verify failed: self-signed certificate`."""
    inner = error.args[0] if error.args and isinstance(error.args[0], ssl.SSLError) else error
    if isinstance(inner, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {inner.verify_message}"
    return clean(str(getattr(inner, "reason", "") or inner).replace("_", " ").lower(), 120)


def _connection(error: Exception) -> str:
    """`connection refused`, `failed to resolve 'api.example.com' (name or service not known)`."""
    return clean(re.sub(r"\[Errno -?[0-9]+\] ", "", str(error)).rpartition(": ")[2].lower(), 160)
