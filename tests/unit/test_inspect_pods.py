"""A driver's own pods, read over TLS with the service account that lies in a pod."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from seatrial.driver import pods
from seatrial.events.layers import Pods, PodSeen
from seatrial.evidence.witness.pods import HostAddresses, image_ran, of
from tests.support import kuberay_answers as k
from tests.support.layers import lost
from tests.unit.server_answers.world import status

pytestmark = pytest.mark.unit


@dataclass
class Api:
    """An API server's pods: `code` and a Status instead of them, or pages of one item whose second may expire."""

    account: Path
    items: list[dict[str, Any]]
    refuse: tuple[int, Any] | None = None
    expires: bool = False
    asked: list[dict[str, list[str]]] = field(default_factory=list)

    def answer(self, path: str, token: str) -> tuple[int, Any]:
        url = urlsplit(path)
        query = parse_qs(url.query)
        self.asked.append(query)
        if self.refuse:
            return self.refuse
        if url.path != k.PODS or token != "Bearer a-token":
            return status("404")
        if "limit" not in query:
            return k.listed(*self.items)
        at = int(query.get("continue", ["0"])[0])
        if at and self.expires:
            return status("410")
        more = {"continue": str(at + 1)} if at + 1 < len(self.items) else {}
        return 200, {"kind": "PodList", "metadata": more, "items": self.items[at : at + 1]}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    names = ("-days", "2", "-subj", "/CN=kubernetes", "-addext", "subjectAltName=IP:127.0.0.1")
    command = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", *names)
    subprocess.run([*command, "-keyout", "key", "-out", "ca.crt"], cwd=folder, check=True, capture_output=True)
    (folder / "namespace").write_text("ml")
    (folder / "token").write_text("a-token\n")
    return folder


@pytest.fixture
def api(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    served = Api(certificate, [k.pod(f"tune-{n}", "worker", podIP=f"10.0.1.{n}") for n in (1, 2, 3)])

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, content = served.answer(self.path, self.headers.get("Authorization", ""))
            body = json.dumps(content).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "ca.crt", certificate / "key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=lambda: server.serve_forever(0.01), daemon=True)
    thread.start()
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.server_port))
    monkeypatch.setenv("RAY_CLUSTER_NAME", "tune-x7k2p")
    yield served
    server.shutdown()
    server.server_close()


def content(api: Api) -> dict[str, Any]:
    layer = pods.layer(api.account)
    assert layer is not None
    return layer.content


def test_the_pods_of_the_own_cluster_page_by_page(api: Api) -> None:
    whole = content(api)
    found = whole["pods"]
    assert [(pod["name"], pod["ip"], pod["image_id"]) for pod in found] == [
        (f"tune-{n}", f"10.0.1.{n}", k.IMAGE_ID) for n in (1, 2, 3)
    ]
    assert lost(Pods, whole) == []
    assert api.asked[0]["labelSelector"] == ["ray.io/cluster=tune-x7k2p"]
    assert len(api.asked) == 3


def test_a_page_that_expired_is_asked_for_anew(api: Api) -> None:
    api.expires = True
    assert len(content(api)["pods"]) == 3
    assert "limit" not in api.asked[-1]


@pytest.mark.parametrize(
    ("refuse", "said"),
    [
        (status("403"), "the pods could not be listed: 403 (needs list pods in namespace ml)"),
        (status("401"), "the pods could not be listed: 401"),
        ((200, {"items": [{}], "metadata": {}}), "the Kubernetes API answered in another form than expected"),
        ((200, []), "the Kubernetes API answered in another form than expected"),
    ],
)
def test_why_they_are_not_known(api: Api, refuse: tuple[int, Any], said: str) -> None:
    api.refuse = refuse
    assert content(api) == {"unknown": said}


def test_no_connection_no_account_and_no_kubernetes(api: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "9")
    assert "does not answer: [Errno 111] Connection refused" in content(api)["unknown"]
    api.account = tmp_path
    assert "service account cannot be read" in content(api)["unknown"]
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    assert pods.layer(tmp_path) is None


def told(name: str, image: str, ip: str = "") -> PodSeen:
    return PodSeen(name=name, ip=ip, image="repo:tag", image_id=image)


A, B = (f"repo@sha256:{letter * 64}" for letter in "ab")


def test_the_pod_of_a_host_and_the_image_it_ran() -> None:
    hosts = [HostAddresses("w1", frozenset()), HostAddresses("ip-10-0-1-2", frozenset({"10.0.1.2"}))]
    both = [told("w1", A), told("w2", A, "10.0.1.2"), told("other", B)]
    assert image_ran(hosts, both).value == A
    assert "different images" in image_ran(hosts, [told("w1", A), told("w2", B, "10.0.1.2")]).reason
    assert "no imageID" in image_ran(hosts, [told("w1", A), told("w2", "", "10.0.1.2")]).reason
    assert "ip-10-0-1-2 is none of the pods" in image_ran(hosts, [told("w1", A)]).reason
    # Two pods of the host's network share its address: whose it is cannot be told.
    assert of(hosts[1:], [told("a", A, "10.0.1.2"), told("b", B, "10.0.1.2")]) == {"ip-10-0-1-2": None}
    assert not image_ran([], both).known
