"""A real registry (Debian's docker-registry) on a port of its own, and images to push to it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.waiting import LIMIT_S, wait_for

PROGRAM = "docker-registry"
OCI = "application/vnd.oci.image"
DOCKER = "application/vnd.docker.distribution"
USER, PASSWORD = "pilot", "pilot-boat"
HTPASSWD = f"{USER}:$2b$05$aVG5/IqORr.7Kyx52WQsTOooPRh8xyv14fxWVWIwzM/sxD5vmhg6u\n"  # bcrypt of PASSWORD


@dataclass(frozen=True)
class Pushed:
    """A manifest that a registry holds."""

    digest: str
    media_type: str
    size: int
    platform: dict[str, str] = field(default_factory=dict)


@dataclass
class Registry:
    """A running registry; `authorize` gives the Authorization header for pushing to a repository."""

    host: str
    authorize: Callable[[str], str] = lambda repository: ""

    def image(
        self, repository: str, tag: str = "", *, os: str = "linux", architecture: str = "amd64", variant: str = "",
        labels: dict[str, str] | None = None, docker: bool = False,
    ) -> Pushed:  # fmt: skip
        """Pushes a single image: a layer, a config with labels, a manifest."""
        platform = {"os": os, "architecture": architecture, **({"variant": variant} if variant else {})}
        layer = self.blob(repository, f"layer for {platform}".encode())
        config = self.blob(repository, json.dumps({**platform, "config": {"Labels": labels}, "rootfs": {"type": "layers", "diff_ids": []}}).encode())  # fmt: skip
        kinds = (f"{DOCKER}.manifest.v2+json", "application/vnd.docker.container.image.v1+json", "application/vnd.docker.image.rootfs.diff.tar.gzip")  # fmt: skip
        kinds = kinds if docker else (f"{OCI}.manifest.v1+json", f"{OCI}.config.v1+json", f"{OCI}.layer.v1.tar+gzip")
        document = {
            "schemaVersion": 2, "mediaType": kinds[0],
            "config": {"mediaType": kinds[1], "digest": config[0], "size": config[1]},
            "layers": [{"mediaType": kinds[2], "digest": layer[0], "size": layer[1]}],
        }  # fmt: skip
        return self.manifest(repository, tag, document, platform)

    def index(self, repository: str, tag: str, images: list[Pushed], docker: bool = False) -> Pushed:
        """Pushes an index (or a Docker manifest list) of images that the repository holds."""
        media_type = f"{DOCKER}.manifest.list.v2+json" if docker else f"{OCI}.index.v1+json"
        entries = [
            {"mediaType": i.media_type, "digest": i.digest, "size": i.size, "platform": i.platform} for i in images
        ]
        return self.manifest(repository, tag, {"schemaVersion": 2, "mediaType": media_type, "manifests": entries})

    def manifest(
        self, repository: str, tag: str, document: dict[str, Any], platform: dict[str, str] | None = None
    ) -> Pushed:
        body = json.dumps(document, indent=1).encode()
        digest, media_type = sha256(body), document["mediaType"]
        self.send("PUT", f"/v2/{repository}/manifests/{tag or digest}", repository, body, media_type)
        return Pushed(digest, media_type, len(body), platform or {})

    def blob(self, repository: str, body: bytes) -> tuple[str, int]:
        place = self.send("POST", f"/v2/{repository}/blobs/uploads/", repository)
        parts = urlsplit(place)
        target = f"{parts.path}?{parts.query}&digest={sha256(body)}"
        self.send("PUT", target, repository, body, "application/octet-stream")
        return sha256(body), len(body)

    def send(self, method: str, target: str, repository: str, body: bytes = b"", media_type: str = "") -> str:
        """One request; the Location that answers it."""
        headers = {"Content-Type": media_type, "Authorization": self.authorize(repository)}
        request = urllib.request.Request(
            f"http://{self.host}{target}", body, {k: v for k, v in headers.items() if v}, method=method
        )
        with DIRECT.open(request, timeout=LIMIT_S) as answer:
            return str(answer.headers.get("Location", ""))


DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def sha256(body: bytes) -> str:
    return "sha256:" + hashlib.sha256(body).hexdigest()


def need(program: str) -> str:
    """The path of a program; skips where it is not installed."""
    found = shutil.which(program)
    if not found:
        pytest.skip(f"{program} is not installed")
    return found


@contextmanager
def running(folder: Path, *, address: str = "127.0.0.1", http: str = "", auth: str = "") -> Iterator[Registry]:
    """A registry with its data in `folder`; `http` and `auth` are further YAML of those sections."""
    config, log = folder / "config.yml", folder / "registry.log"
    config.write_text(
        f"version: 0.1\nlog: {{level: info, accesslog: {{disabled: true}}}}\n"
        f"storage: {{filesystem: {{rootdirectory: {folder / 'data'}}}}}\n"
        f'http: {{addr: "{address}:0", secret: for-tests{http}}}\n{auth}'
    )
    program = need(PROGRAM)
    with log.open("wb") as output:
        process = subprocess.Popen([program, "serve", str(config)], stdout=output, stderr=output)
    try:
        yield Registry(f"{address}:{_port(log, process)}")
    finally:
        process.terminate()
        process.wait(LIMIT_S)


def _port(log: Path, process: subprocess.Popen[bytes]) -> str:
    """Where the registry listens, once it has logged that."""
    line = re.compile(r"listening on [\d.]+:(\d+)")
    return str(wait_for(lambda: line.search(log.read_text()), "a registry that listens", log.read_text, process)[1])


@dataclass(frozen=True)
class Answer:
    """What an upstream registry answered, for a proxy to alter."""

    path: str
    status: int
    headers: dict[str, str]
    body: bytes


@contextmanager
def serving(respond: Callable[[BaseHTTPRequestHandler], None], address: str = "127.0.0.1") -> Iterator[str]:
    """A small HTTP server whose GET is `respond`; yields its host:port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            respond(self)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((address, 0), Handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield f"{address}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def reply(handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@contextmanager
def proxy(upstream: Registry, change: Callable[[Answer], Answer]) -> Iterator[str]:
    """A registry that hands on what `upstream` answers, as `change` alters it."""

    def respond(handler: BaseHTTPRequestHandler) -> None:
        request = urllib.request.Request(f"http://{upstream.host}{handler.path}", headers=dict(handler.headers))
        try:
            with DIRECT.open(request, timeout=LIMIT_S) as answer:
                status, headers, body = answer.status, answer.headers, answer.read()
        except HTTPError as error:
            status, headers, body = error.code, error.headers, error.read()
        kept = {k: headers[k] for k in ("Content-Type", "Docker-Content-Digest") if k in headers}
        altered = change(Answer(handler.path, status, kept, body))
        reply(handler, altered.status, altered.headers, altered.body)

    with serving(respond) as host:
        yield host


class TokenService:
    """Gives bearer tokens, signed by its own key: to anyone for `open/…`, to USER for everything else."""

    def __init__(self, folder: Path):
        self.openssl, self.key, self.certificate = need("openssl"), folder / "key.pem", folder / "cert.pem"
        certify(self.key, self.certificate)

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        query = parse_qs(urlsplit(handler.path).query)
        _, repository, actions = query.get("scope", ["repository::pull"])[0].split(":")
        given = handler.headers.get("Authorization", "")
        known = given == basic(USER, PASSWORD)
        if given and not known:
            reply(handler, 401, {}, b'{"errors": [{"code": "UNAUTHORIZED"}]}')
            return
        allowed = actions.split(",") if known or repository.startswith("open/") else []
        body = json.dumps({"token": self.token(repository, allowed)}).encode()
        reply(handler, 200, {"Content-Type": "application/json"}, body)

    def token(self, repository: str, actions: list[str]) -> str:
        """A JSON Web Token as the distribution project's token specification asks for, signed with RS256."""
        der = base64.b64encode(_pem(self.certificate)).decode()
        now = int(time.time())
        access = [{"type": "repository", "name": repository, "actions": actions}] if actions else []
        claims = {
            "iss": "harbour", "sub": USER, "aud": "registry", "exp": now + 300, "nbf": now - 60, "iat": now, "jti": "1",
            "access": access,
        }  # fmt: skip
        text = ".".join(_url64(json.dumps(p).encode()) for p in ({"typ": "JWT", "alg": "RS256", "x5c": [der]}, claims))
        signed = subprocess.run(
            [self.openssl, "dgst", "-sha256", "-sign", str(self.key)],
            input=text.encode(),
            capture_output=True,
            check=True,
        )
        return f"{text}.{_url64(signed.stdout)}"


def certify(key: Path, certificate: Path, address: str = "127.0.0.1") -> None:
    """A key and a certificate that is its own authority."""
    subprocess.run(
        [
            need("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=registry test",
            "-addext", f"subjectAltName=IP:{address}", "-keyout", str(key), "-out", str(certificate),
        ],
        check=True, capture_output=True,
    )  # fmt: skip


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def docker_config(folder: Path, **sections: Any) -> None:
    """Writes a Docker config file into `folder`."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(sections))


def login(folder: Path, host: str, password: str = PASSWORD) -> None:
    """What `docker login` leaves behind."""
    docker_config(folder, auths={host: {"auth": base64.b64encode(f"{USER}:{password}".encode()).decode()}})


def _url64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _pem(path: Path) -> bytes:
    lines = path.read_text().splitlines()
    return base64.b64decode("".join(line for line in lines if not line.startswith("-----")))
