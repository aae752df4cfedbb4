"""A tiny API server on this machine: serves a world over HTTP, pages lists, breaks off, hangs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.unit.server_answers.world import World

BREAK_OFF = "break off"  # half of the body, then the end of the connection
HANG = "hang"  # no answer until the server ends
CHUNKED = "chunked"  # whole and well, in pieces without a length
DRIP = "drip"  # the body, a byte at a time, for ever


@dataclass(frozen=True)
class Seen:
    """A request as the server saw it."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: Any


@dataclass
class Server:
    """A running server. `broken` says which paths misbehave, `pages` how many items of a list go into one answer."""

    world: World
    url: str = ""
    broken: dict[str, str] = field(default_factory=dict)
    pages: int = 500
    expires: bool = False  # the token of the second page
    seen: list[Seen] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def asked(self, path: str) -> list[Seen]:
        return [request for request in self.seen if request.path == path]


@contextmanager
def serve(world: World) -> Iterator[Server]:
    """A server until the end of the block."""
    server = Server(world)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else each answer waits 40 ms for an acknowledgement

        def do_GET(self) -> None:
            request = self._seen("GET", None)
            code, content = server.world.get(request.path)
            if server.expires and "continue" in request.query:
                code, content = 410, server.world.answers["expired"][1]
            elif "limit" in request.query and isinstance(content, dict) and isinstance(content.get("items"), list):
                content = self._page(content, int(request.query.get("continue", ["0"])[0]))
            self._answer(request.path, code, content)

        def do_POST(self) -> None:
            self._change("POST", 201)

        def do_PATCH(self) -> None:
            self._change("PATCH", 200)

        def _change(self, method: str, code: int) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = self._seen(method, body)
            self._answer(request.path, *server.world.posted.get((method, request.path), (code, body)))

        def _seen(self, method: str, body: Any) -> Seen:
            url = urlsplit(self.path)
            request = Seen(method, url.path, parse_qs(url.query), {k.lower(): v for k, v in self.headers.items()}, body)
            server.seen.append(request)
            return request

        def _page(self, content: Any, start: int) -> Any:
            items, end = content["items"], start + server.pages
            meta = {**content["metadata"], **({"continue": str(end)} if end < len(items) else {})}
            return {**content, "metadata": meta, "items": items[start:end]}

        def _answer(self, path: str, code: int, content: Any) -> None:
            raw = content.encode() if isinstance(content, str) else json.dumps(content).encode()
            how = server.broken.get(path)
            if how == HANG:
                server.ended.wait()
                return
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            if how == CHUNKED:
                self.send_header("Transfer-Encoding", "chunked")
                raw = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (raw[:1000], raw[1000:], b""))
            else:
                self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            if how == DRIP:
                self._drip(raw)
            else:
                self.wfile.write(raw[: len(raw) // 2] if how == BREAK_OFF else raw)
            self.close_connection = how is not None

        def _drip(self, raw: bytes) -> None:
            for byte in raw:
                if server.ended.wait(0.02):
                    return
                self.wfile.write(bytes([byte]))

        def log_message(self, *_: Any) -> None:
            """Nothing: the tests read what was seen."""

        def handle(self) -> None:
            try:
                super().handle()
            except ConnectionError:  # the client went away, as it should
                self.close_connection = True

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server.url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=lambda: http.serve_forever(0.01), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.ended.set()
        http.shutdown()
        http.server_close()
        thread.join()
