"""A real HTTP server that answers as a test says, for what a Ray dashboard, or something that is none, may answer."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

VERSION = {"version": "4", "ray_version": "2.58.1", "ray_commit": "c", "session_name": "s"}
METADATA = {"result": True, "msg": "", "data": {"rayVersion": "2.58.1", "pythonVersion": "3.13.1"}}


@dataclass
class Answers:
    """What is answered, by path: `(status, content type, body)`; the last of a list stays. And what was asked."""

    by_path: dict[str, list[tuple[int, str, bytes]]] = field(default_factory=dict)
    asked: list[tuple[str, str, str]] = field(default_factory=list)  # method, path, authorization
    token: str = ""  # asked for, if not empty, as Ray 2.58 does
    address: str = ""

    def say(self, path: str, body: Any, status: int = 200, kind: str = "application/json") -> None:
        """One more answer to `path`; text as it is, anything else as JSON."""
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.by_path.setdefault(path, []).append((status, kind, data))

    def job(self, status: str, log: str, name: str = "seatrial-1", message: str = "") -> None:
        """A job and its log, from now on."""
        self.by_path.pop(f"/api/jobs/{name}", None)
        self.by_path.pop(f"/api/jobs/{name}/logs", None)
        self.say(f"/api/jobs/{name}", {"submission_id": name, "status": status, "message": message, "metadata": {}})
        self.say(f"/api/jobs/{name}/logs", {"logs": log})


@contextlib.contextmanager
def serving() -> Iterator[Answers]:
    """A dashboard with Ray's answers about its version; the rest is 404 as Ray's is."""
    answers = Answers()
    answers.say("/api/version", VERSION)
    answers.say("/api/v0/cluster_metadata", METADATA)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            given = self.headers.get("Authorization", "")
            answers.asked.append((self.command, self.path, given))
            if answers.token and given != f"Bearer {answers.token}":
                status, said = (403, "Forbidden: Invalid") if given else (401, "Unauthorized: Missing")
                self._reply(status, "text/plain", f"{said} authentication token".encode())
                return
            waiting = answers.by_path.get(self.path) or [(404, "text/plain", b"Job does not exist")]
            status, kind, body = waiting.pop(0) if len(waiting) > 1 else waiting[0]
            if status:
                self._reply(status, kind, body)

        do_POST = do_GET

        def _reply(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            if 300 <= status < 400:
                self.send_header("Location", body.decode())
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01), daemon=True)
    thread.start()
    answers.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield answers
    finally:
        server.shutdown()
        server.server_close()
