"""Reads from one registry through oras. Only this file imports oras, and only when a registry is asked.

oras carries the requests and answers the registry's challenges (Basic, or a Bearer token from the token service it
names). Two parts of oras are not used: its retries, which take two minutes for a refused connection, and its reader of
the Docker config, which ignores `DOCKER_CONFIG`. Plain HTTP has no adapter unless the caller asks for it: else a token
service or a redirect could make credentials travel in the clear.
"""

from __future__ import annotations

import functools
import json
import logging
import re
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import seatrial
from seatrial.errors import InputError, clean
from seatrial.image import credentials
from seatrial.image.errors import Denied, NoTls, RegistryError, Unreachable
from seatrial.image.reference import DOCKER_HUB, Reference

if TYPE_CHECKING:
    import requests

MAX_BYTES = 8 << 20  # registries should take manifests of at least 4 MiB (OCI distribution specification, 1.1)
HUB_API = "registry-1.docker.io"
_PIECE = 1 << 16
_PLAIN_HOSTS = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class HttpTimeout:
    """The longest time, in seconds: to connect, and to wait for the next byte."""

    connect: float = 10
    read: float = 30


@dataclass(frozen=True)
class Reply:
    """A body as the registry sent it, its media type, and the digest that the registry states, or empty."""

    body: bytes
    media_type: str
    digest: str


class Client:
    """One repository of one registry; its connections last as long as its `with` block."""

    def __init__(self, reference: Reference, *, plain_http: bool = False, timeout: HttpTimeout | None = None):
        self.reference, self.host = reference, reference.registry
        self.timeout = timeout or HttpTimeout()
        self.local = urlsplit(f"//{self.host}").hostname in _PLAIN_HOSTS
        self.plain = plain_http or self.local
        api = HUB_API if self.host == DOCKER_HUB else self.host
        self.base = f"{'http' if self.plain else 'https'}://{api}/v2/"
        self.asked, self.status = self.host, 0
        self.provider = _provider()
        self.credentials = credentials.find(self.host)
        self.oras: Any = None
        self._open = ExitStack()

    def __enter__(self) -> Client:
        """Raises RegistryError (Unreachable, Denied) where the registry does not answer, or refuses."""
        try:
            self.oras = self._connect()
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def get(self, kind: str, name: str, accept: str) -> Reply:
        """A manifest (by tag or digest) or a blob (by digest): `kind` is `manifests` or `blobs`.

        Raises InputError if the registry has no such object, RegistryError (Unreachable, Denied) for other failures.
        """
        url = f"{self.base}{self.reference.repository}/{kind}/{name}"
        with self._failures():
            answer = self._request(url, {"Accept": accept})
            body = self._body(answer)
        if answer.status_code == 404:
            raise self._missing(name, body)
        if answer.status_code != 200:
            raise self._refusal()
        media_type = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        return Reply(body, media_type, answer.headers.get("Docker-Content-Digest", ""))

    def _request(self, url: str, headers: dict[str, str]) -> requests.Response:
        without_retries = type(self.oras).do_request.__wrapped__  # oras's retries are a decorator
        answer: requests.Response = without_retries(self.oras, url, "GET", headers=headers, stream=True)
        return answer

    def _body(self, answer: requests.Response) -> bytes:
        body = bytearray()
        with answer:
            for piece in answer.iter_content(_PIECE):
                body += piece
                if len(body) > MAX_BYTES:
                    raise RegistryError(f"{self.host} sends more than {MAX_BYTES} bytes; expected a manifest")
        return bytes(body)

    def _connect(self) -> Any:
        """An oras registry with the kind of authentication that the real one asks for."""
        registry = self._registry("token")
        with self._failures():
            answer = registry.session.request("GET", self.base)
        challenge = str(answer.headers.get("WWW-Authenticate", "")) if answer.status_code == 401 else ""
        if challenge.lower().startswith("basic"):
            if not self.credentials:
                raise self._refusal()
            registry = self._registry("basic")
        if self.credentials:
            registry.auth.set_basic_auth(self.credentials.user, self.credentials.password)
        return registry

    def _registry(self, backend: str) -> Any:
        registry = self.provider.Registry(insecure=self.plain, auth_backend=backend)
        session = registry.session
        self._open.callback(session.close)
        session.request = functools.partial(session.request, timeout=(self.timeout.connect, self.timeout.read))
        session.headers["User-Agent"] = f"seatrial/{seatrial.__version__}"
        session.auth = lambda request: request  # else requests replaces oras's header by a .netrc entry
        session.trust_env = not self.local  # no proxy on the way to this machine
        session.hooks["response"].append(self._note)
        if not self.plain:
            del session.adapters["http://"]
        return registry

    def _note(self, response: requests.Response, *_: object, **__: object) -> None:
        """Keeps host and status of the last answer: oras drops them when it gives up, and leaves the answer open."""
        self._open.callback(response.close)
        self.asked, self.status = urlsplit(str(response.url)).netloc, response.status_code

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Turns the exceptions of requests and oras into ours."""
        from requests import exceptions

        try:
            yield
        except exceptions.InvalidSchema as error:
            url = str(error).partition("'")[2].partition("?")[0].rstrip("'")
            raise RegistryError(
                f"{self.host} leads to {clean(url, 200)}, which is not https, and was not followed"
            ) from None
        except exceptions.SSLError as error:
            reason = _tls(error)
            failure = NoTls if "WRONG_VERSION_NUMBER" in reason else RegistryError
            reason = clean(re.sub(r"^\[SSL.*?\] | \(_ssl\.c:\d+\)", "", reason), 200)
            raise failure(f"{self.host}: TLS fails: {reason}") from None
        except (exceptions.ConnectionError, exceptions.Timeout, exceptions.ChunkedEncodingError) as error:
            raise Unreachable(self.host, self._why(error)) from None
        except (exceptions.InvalidJSONError, exceptions.InvalidHeader):  # their text may quote a token
            raise RegistryError(f"{self.host}: {self.asked} sends no valid token") from None
        except exceptions.RequestException as error:
            raise RegistryError(f"{self.host}: {clean(str(error), 200)}") from None
        except (ValueError, AttributeError):  # oras got no token, or the challenge names no service
            raise self._refusal() from None

    def _why(self, error: requests.RequestException) -> str:
        """The reason of a failure. It begins with the host if another one failed."""
        asked = urlsplit(str(error.request.url)).netloc if error.request is not None else ""
        other = f"{asked}, which it names: " if asked and asked != urlsplit(self.base).netloc else ""
        return other + _reason(error, self.timeout)

    def _refusal(self) -> RegistryError:
        """The error for the last answer, which gave neither a manifest nor a token."""
        host, what, said = self.host, self.reference.repository, f"{self.asked} answered HTTP {self.status}"
        if self.status == 200:
            return RegistryError(f"{host}: {said} without a token")
        if self.status == 429 or self.status >= 500:
            return RegistryError(f"{said} for {what}; try again later")
        if self.status not in (401, 403):
            return RegistryError(f"{said} for {what}; expected a manifest")
        return Denied(
            f"{host} refuses {what} ({said}); tried with {self.credentials.source}; "
            f"`docker login {host}` sets credentials; some registries also answer so if the repository does not exist"
        )

    def _missing(self, name: str, body: bytes) -> InputError:
        code = _error_code(body)
        mark = "@" if ":" in name else ":"
        seen = f"{self.host} has no {self.reference.repository}{mark}{name} ({code or 'HTTP 404'})"
        return InputError(seen, expected="a tag or digest of this registry", fix="" if code else "is it a registry?")


def _provider() -> Any:
    """The module `oras.provider`, without its log on stderr: our errors say the same in one line."""
    try:
        import oras.provider as provider
    except ImportError:
        raise InputError("oras is not installed", fix="pip install 'seatrial[registry]'") from None
    logging.getLogger("oras.logger").setLevel(logging.CRITICAL)
    return provider


def _error_code(body: bytes) -> str:
    """The error code in a body, such as `MANIFEST_UNKNOWN`; empty if it is not the error document of a registry."""
    try:
        code = json.loads(body)["errors"][0]["code"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
    return code if isinstance(code, str) and re.fullmatch(r"[A-Z_]{1,60}", code) else ""


def _reason(error: BaseException, timeout: HttpTimeout) -> str:
    """The cause inside the exceptions of requests and urllib3, such as `Connection refused`."""
    chain = list(_beneath(error))
    kinds = {type(e).__name__ for e in chain}
    if "IncompleteRead" in kinds:
        return "the connection broke in the middle of an answer"
    if "ConnectTimeoutError" in kinds:
        return f"no connection within {timeout.connect:g} s"
    if "ReadTimeoutError" in kinds:
        return f"no answer within {timeout.read:g} s"
    system = next((e for e in reversed(chain) if isinstance(e, OSError) and e.strerror), None)
    return clean(str(system.strerror) if system else str(error), 200)


def _tls(error: BaseException) -> str:
    """What OpenSSL says, such as `[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)`."""
    return next((e.strerror for e in _beneath(error) if isinstance(e, ssl.SSLError) and e.strerror), str(error))


def _beneath(error: BaseException) -> Iterator[BaseException]:
    """The error and every error that it wraps: as its reason, its argument, or its cause."""
    seen: list[BaseException] = []
    queue: list[object] = [error]
    while queue:
        current = queue.pop(0)
        if isinstance(current, BaseException) and not any(current is e for e in seen):
            seen.append(current)
            yield current
            queue += [*current.args, getattr(current, "reason", None), current.__cause__, current.__context__]
