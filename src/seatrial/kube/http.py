"""HTTP to an API server, over the connection pool and the credentials of a `kubernetes` client.

Answers are read as JSON: the client's generated models refuse answers of newer API versions, and a CRD of KubeRay
takes them seconds. A method gives an answer or `Unanswered`. Nothing is written: what is not a GET is a dry run. A
verb that writes is a method beside `dry_run`, and an exception in `_open`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlencode

from seatrial.kube import Json
from seatrial.kube.failures import Unanswered, parsed, reason, refused

T = TypeVar("T")
_MOST_BYTES = 256 << 20  # of one answer
_MOST_TIMES = 6  # time-outs that a whole answer may take; one time-out is the longest silence
_PAGE = 500  # items of a list at a time


class ApiServer:
    """Requests to one API server, with a time-out in seconds. The second time-out counts as a lost connection."""

    def __init__(self, client: Any, timeout_s: float):
        self._client, self._timeout_s = client, timeout_s
        self._slow = 0  # requests that timed out

    def get(self, path: str, needs: str, parse: Callable[[Json], T]) -> T | Unanswered | None:
        """One object; None where the API server says that it does not exist. `needs` is the permission for it."""
        given = self._json("GET", path, {})
        if isinstance(given, Unanswered):
            return given
        code, content = given
        if code == 404 and content is not None and content.get("reason") == "NotFound":
            return None
        return parsed(parse, content) if code == 200 else refused(code, needs)

    def items(
        self, path: str, needs: str, parse: Callable[[Json], T], query: Mapping[str, str] | None = None
    ) -> tuple[T, ...] | Unanswered:
        """All items of a list. If a page expires meanwhile (410), the list is read again in one piece."""
        fixed = dict(query or {})
        found = self._pages(path, needs, {**fixed, "limit": str(_PAGE)})
        if isinstance(found, Unanswered) and found.reason == "410":
            found = self._pages(path, needs, fixed)
        if isinstance(found, Unanswered):
            return found
        return parsed(lambda answer: tuple(parse(item) for item in answer["items"]), {"items": found})

    def _pages(self, path: str, needs: str, query: dict[str, str]) -> list[Json] | Unanswered:
        found: list[Json] = []
        while True:
            given = self._json("GET", path, query)
            if isinstance(given, Unanswered):
                return given
            if given[0] != 200:
                return refused(given[0], needs)
            page = parsed(lambda answer: (list(answer["items"] or ()), answer["metadata"].get("continue")), given[1])
            if isinstance(page, Unanswered):
                return page
            found += page[0]
            if not page[1]:
                return found
            query = {**query, "continue": page[1]}

    def text(self, path: str, needs: str, query: Mapping[str, str]) -> str | Unanswered | None:
        """A plain text such as a log; None where the API server says that it does not exist."""
        given = self._answered(lambda: self._raw("GET", path, query, None))
        if isinstance(given, Unanswered):
            return given
        code, raw = given
        if code == 404:
            return None
        return raw.decode("utf-8", "replace") if code == 200 else refused(code, needs)

    def dry_run(
        self, method: str, path: str, query: Mapping[str, str], body: Json
    ) -> tuple[int, Json | None] | Unanswered:
        """Status code and JSON of a POST or PATCH that changes nothing; None where the answer is no JSON object."""
        return self._json(method, path, {**query, "dryRun": "All", "fieldValidation": "Strict"}, body)

    def _json(
        self, method: str, path: str, query: Mapping[str, str], body: Json | None = None
    ) -> tuple[int, Json | None] | Unanswered:
        def exchange() -> tuple[int, Json | None]:
            code, raw = self._raw(method, path, query, body)
            return code, _object(raw)

        return self._answered(exchange)

    def _answered(self, exchange: Callable[[], T]) -> T | Unanswered:
        try:
            return exchange()
        except Exception as error:
            lost = reason(error, self._timeout_s)
            if lost is None:
                raise
            self._slow += lost.reason.startswith("timed out")
            return Unanswered(lost.reason, lost=lost.lost or self._slow > 1)

    def _raw(self, method: str, path: str, query: Mapping[str, str], body: Json | None) -> tuple[int, bytes]:
        response = self._open(method, path, query, body)
        try:
            raw = _read(response, time.monotonic() + _MOST_TIMES * self._timeout_s)
        finally:
            response.close()
        return int(response.status), raw

    def _open(self, method: str, path: str, query: Mapping[str, str], body: Json | None) -> Any:
        """A response whose body is still to be read, and that the caller closes. Every request goes through here."""
        from urllib3 import Timeout

        if method != "GET" and query.get("dryRun") != "All":
            raise AssertionError("a request that would write")
        return self._client.rest_client.pool_manager.request(
            method,
            f"{self._client.configuration.host.rstrip('/')}{path}?{urlencode(query)}",
            headers=self._headers(method),
            body=None if body is None else json.dumps(body).encode(),
            timeout=Timeout(connect=self._timeout_s, read=self._timeout_s),
            retries=False,
            preload_content=False,
            enforce_content_length=True,
        )

    def _headers(self, method: str) -> dict[str, str]:
        headers = {**self._client.default_headers, "Accept": "application/json"}
        if method != "GET":
            headers["Content-Type"] = "application/apply-patch+yaml" if method == "PATCH" else "application/json"
        for auth in self._client.configuration.auth_settings().values():
            if auth["in"] == "header" and auth["value"]:
                headers[auth["key"]] = auth["value"]
        return headers


def _read(response: Any, deadline: float) -> bytes:
    """The whole body. Raises TimeoutError for one that comes too slowly or is too large."""
    raw, read = (
        bytearray(),
        getattr(response, "read1", response.read),
    )  # urllib3 1 has no read1, and waits for whole chunks
    while chunk := read(1 << 16):
        raw += chunk
        if time.monotonic() > deadline or len(raw) > _MOST_BYTES:
            raise TimeoutError
    return bytes(raw)


def _object(raw: bytes) -> Json | None:
    try:
        content = json.loads(raw)
    except ValueError:  # a proxy's page
        return None
    return content if isinstance(content, dict) else None
