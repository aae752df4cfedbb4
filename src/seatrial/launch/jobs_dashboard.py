"""The REST API for jobs of a Ray cluster's dashboard. Every wait is bounded, every refusal is one line.

Needs neither Ray nor a library, so that `attach`, `stop` and `collect` run on any machine. A token is sent only to a
cluster that asks for one, and never along a redirect.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import ssl
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from seatrial.errors import InputError, RunError, clean

CONNECT_S = 10.0  # a dashboard that works answers its version at once
READ_S = 120.0  # a long log is read from the head's disk and sent in one answer
TOKEN, TOKEN_PATH, TOKEN_FILE = "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", ".ray/auth_token"  # in Ray's own order
CERTIFICATES = ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
ADDRESS = "the address of a Ray dashboard, as in http://HOST:8265"


class NoAnswer(RunError):
    """The dashboard could not be reached, or failed; another try may succeed."""


class NoJob(InputError):
    """The cluster has no such job."""


@dataclass(frozen=True)
class Versions:
    """Versions on the cluster; `python` is empty where the dashboard does not say."""

    ray: str
    python: str


@dataclass(frozen=True)
class SubmittedJob:
    """One job at one moment. `status` as Ray writes it: PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED."""

    id: str
    status: str
    message: str
    metadata: dict[str, str]

    @property
    def ended(self) -> bool:
        return self.status in ("STOPPED", "SUCCEEDED", "FAILED")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """None: the answer stays the redirect, which is then refused."""


def certificates() -> str:
    """A file or folder of certificates to trust instead of the system's, or nothing."""
    return next((os.environ[name] for name in CERTIFICATES if os.environ.get(name)), "")


def _trust() -> ssl.SSLContext:
    if not (given := certificates()):
        return ssl.create_default_context()
    try:
        folder = Path(given).is_dir()
        return ssl.create_default_context(cafile=None if folder else given, capath=given if folder else None)
    except OSError as error:
        name = next(name for name in CERTIFICATES if os.environ.get(name))
        seen = str(error.strerror or error)
        raise InputError(seen, field=f"{name}={given}", expected="a file of certificates") from None


def find_token() -> tuple[str, str]:
    """A token and its source; both empty if there is none. Raises InputError for a file that cannot be read."""
    if token := os.environ.get(TOKEN, "").strip():
        return token, TOKEN
    named = os.environ.get(TOKEN_PATH, "")
    path = Path(named) if named else Path.home() / TOKEN_FILE
    try:
        return path.read_text().strip(), str(path)
    except (OSError, UnicodeDecodeError) as error:
        if named:
            problem = getattr(error, "strerror", "") or "is no text"
            raise InputError(problem, field=f"{TOKEN_PATH}={named}", expected="a file that holds a token") from None
        return "", ""


def address_of(text: str) -> str:
    """The address with a port and without a slash at its end. Raises InputError."""
    parts = urllib.parse.urlsplit(text)
    with contextlib.suppress(ValueError):
        if parts.scheme in ("http", "https") and parts.hostname and not (parts.query or parts.fragment):
            if parts.username or parts.password:
                raise InputError("holds a password", field="address", expected=f"{ADDRESS}, and a token in {TOKEN}")
            return f"{parts.scheme}://{parts.netloc}:8265" if not _port(parts) else text.rstrip("/")
    raise InputError(f"saw {clean(text)}", field="address", expected=ADDRESS)


def _port(parts: urllib.parse.SplitResult) -> bool:
    """Whether the address needs no port added: it has one, or leads to a proxy. Raises ValueError for a wrong port."""
    return parts.port is not None or parts.scheme == "https" or parts.path not in ("", "/")


class Dashboard:
    """Requests to one dashboard. Raises NoAnswer where another try may help, else InputError."""

    def __init__(self, address: str):
        self.address = address_of(address)
        self.headers: dict[str, str] = {}
        self._token_from = ""
        secure = (urllib.request.HTTPSHandler(context=_trust()),) if self.address.startswith("https:") else ()
        self._opener = urllib.request.build_opener(_NoRedirect, *secure)

    @classmethod
    def open(cls, address: str, field: str = "address") -> tuple[Self, Versions]:
        """A dashboard that answers, and its versions. Raises InputError about `field`."""
        try:
            dashboard = cls(address)
            return dashboard, dashboard.versions()
        except NoAnswer as error:
            raise InputError(str(error), field=field, expected=ADDRESS) from None
        except InputError as error:
            about = field if error.field in ("", "address") else error.field
            raise InputError(error.seen, field=about, expected=error.expected, fix=error.fix) from None

    def versions(self) -> Versions:
        """The cluster's Ray and Python. Also finds out whether a token is needed."""
        ray = str(self._map("GET", "/api/version", CONNECT_S, "ray_version")["ray_version"])
        with contextlib.suppress(InputError, NoAnswer):  # an older Ray does not say, and nothing depends on it
            data = self._map("GET", "/api/v0/cluster_metadata", CONNECT_S, "data")["data"]
            return Versions(ray, str(data.get("pythonVersion") or "") if isinstance(data, dict) else "")
        return Versions(ray, "")

    def job(self, name: str) -> SubmittedJob:
        """A job by its submission id. Raises NoJob."""
        return _job(self._map("GET", _path(name), CONNECT_S, "submission_id", "status"))

    def jobs(self) -> list[SubmittedJob]:
        """Every submitted job that the cluster knows."""
        listed = self._json("GET", "/api/jobs/", READ_S)
        if not isinstance(listed, list):
            raise self._not_a_dashboard("/api/jobs/ answers with no list")
        return [_job(each) for each in listed if isinstance(each, dict) and each.get("submission_id")]

    def log(self, name: str) -> str:
        """The job's whole output so far."""
        return str(self._map("GET", f"{_path(name)}/logs", READ_S, "logs")["logs"])

    def stop(self, name: str) -> bool:
        """Asks the job to stop. Returns whether it was still running."""
        return bool(self._map("POST", f"{_path(name)}/stop", READ_S, "stopped")["stopped"])

    def _map(self, method: str, path: str, patience: float, *keys: str) -> dict[str, Any]:
        """An answer that has these keys."""
        answer = self._json(method, path, patience)
        if not isinstance(answer, dict) or not set(keys) <= answer.keys():
            raise self._not_a_dashboard(f"{path} answers without {', '.join(keys)}")
        return answer

    def _json(self, method: str, path: str, patience: float) -> Any:
        try:
            status, kind, body = self._ask(method, path, patience)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreached(error, patience) from None
        if status == 401 and not self.headers and (found := find_token())[0]:
            self.headers, self._token_from = {"Authorization": f"Bearer {found[0]}"}, found[1]
            return self._json(method, path, patience)
        self._refuse(status, kind, body, path)
        try:
            return json.loads(body)
        except ValueError:
            raise self._not_a_dashboard(f"{path} answers with {kind or 'no type'}, not JSON") from None

    def _ask(self, method: str, path: str, patience: float) -> tuple[int, str, bytes]:
        request = urllib.request.Request(f"{self.address}{path}", method=method, headers=self.headers)
        try:
            with self._opener.open(request, timeout=patience) as answer:
                return _read(answer, answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return _read(error, error.code)

    def _refuse(self, status: int, kind: str, body: bytes, path: str) -> None:
        """Raises for every status but 200."""
        said = _gist(body) if kind != "text/html" else f"a page ({kind})"
        if status in (401, 403):
            raise self._no_entry(status, said)
        if 300 <= status < 400:
            raise self._not_a_dashboard(f"it redirects (HTTP {status})")
        if status == 404 and path.startswith("/api/jobs/") and kind != "text/html":
            raise NoJob(
                f"{self.address} has no such job: {said}", expected="a submission id as `ray job list` shows it"
            )
        if status == 404:
            raise self._not_a_dashboard(f"it has no {path} (HTTP 404)")
        if status >= 500 or status in (408, 429):
            raise NoAnswer(f"{self.address} failed at {path}: HTTP {status}: {said}")
        if status != 200:
            raise InputError(f"{self.address} refuses {path}: HTTP {status}: {said}")
        if kind == "text/html":
            raise self._not_a_dashboard(f"{path} answers with {said}")

    def _no_entry(self, status: int, said: str) -> InputError:
        if self._token_from:
            seen = f"{self.address} does not take the token from {self._token_from} (HTTP {status}: {said})"
            return InputError(seen, expected="the cluster's own", fix=f"set {TOKEN} or {TOKEN_PATH} to that one")
        expected = f"one in {TOKEN}, in the file that {TOKEN_PATH} names, or in ~/{TOKEN_FILE}"
        if status == 401:
            return InputError(f"{self.address} asks for a token, and none was found here", expected=expected)
        return InputError(f"{self.address} refuses this client (HTTP 403: {said})", expected=ADDRESS)

    def _not_a_dashboard(self, seen: str) -> InputError:
        return InputError(f"{self.address} is no Ray dashboard: {seen}", expected=ADDRESS)

    def _unreached(self, error: Exception, patience: float) -> InputError | NoAnswer:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(reason, ssl.SSLCertVerificationError):
            fix = f"put the authority's certificate into the file that {CERTIFICATES[1]} names"
            return InputError(f"{self.address}: the certificate is not trusted: {reason.verify_message}", fix=fix)
        if isinstance(reason, ssl.SSLError):
            return InputError(
                f"{self.address} speaks no TLS that this client takes: {reason.reason}", fix="try http://"
            )
        if isinstance(reason, TimeoutError):
            return NoAnswer(f"{self.address} does not answer within {patience:g} s")
        if isinstance(reason, http.client.HTTPException):
            return NoAnswer(f"{self.address} broke its answer off or speaks no HTTP: {type(reason).__name__}")
        return NoAnswer(f"{self.address} cannot be reached: {getattr(reason, 'strerror', '') or reason}")


def _path(name: str) -> str:
    return f"/api/jobs/{urllib.parse.quote(name, safe='')}"


def _job(answer: dict[str, Any]) -> SubmittedJob:
    metadata = answer.get("metadata") or {}
    return SubmittedJob(
        str(answer["submission_id"]), str(answer.get("status")), str(answer.get("message") or ""), metadata
    )


def _read(answer: Any, status: int) -> tuple[int, str, bytes]:
    return status, answer.headers.get_content_type(), answer.read()


def _gist(body: bytes) -> str:
    """The reason in a failed answer: its last line, as in a traceback."""
    lines = [line.strip() for line in body.decode("utf-8", "replace").splitlines() if line.strip()]
    return clean(re.sub(r"\s+", " ", lines[-1]), 200) if lines else "nothing"
