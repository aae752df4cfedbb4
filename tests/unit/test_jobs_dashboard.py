"""What a dashboard may answer, and what becomes of it: one line, and the right exit code."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from seatrial.errors import InputError, RunError
from seatrial.launch import jobs_dashboard
from seatrial.launch.jobs_dashboard import Dashboard, NoAnswer, NoJob, Versions, address_of
from tests.unit.jobs_server import VERSION, Answers, serving

pytestmark = pytest.mark.unit

TOKEN = "a" * 64


@pytest.fixture(autouse=True)
def nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("no_proxy", "*")
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "http_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[Answers]:
    with serving() as answers:
        yield answers


def refused(address: str) -> str:
    with pytest.raises(InputError) as caught:
        Dashboard.open(address)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_versions_are_known_before_anything_is_submitted(server: Answers) -> None:
    assert Dashboard.open(server.address)[1] == Versions("2.58.1", "3.13.1")
    server.by_path["/api/v0/cluster_metadata"] = [(404, "text/plain", b"404: Not Found")]
    assert Dashboard.open(f"{server.address}/")[1] == Versions("2.58.1", "")


def test_a_token_goes_only_to_a_cluster_that_asks(server: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
    Dashboard.open(server.address)
    assert {given for _, _, given in server.asked} == {""}
    server.token = TOKEN
    Dashboard.open(server.address)
    assert [given for _, _, given in server.asked[-3:]] == ["", f"Bearer {TOKEN}", f"Bearer {TOKEN}"]


def test_where_the_token_is_looked_for(server: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.token = TOKEN
    assert "asks for a token, and none was found" in refused(server.address)
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray/auth_token").write_text(f"{TOKEN}\n")
    Dashboard.open(server.address)
    (tmp_path / "other").write_text("b" * 64)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "other"))
    assert f"does not take the token from {tmp_path}/other (HTTP 403" in refused(server.address)
    monkeypatch.setenv("RAY_AUTH_TOKEN", f" {TOKEN} ")
    Dashboard.open(server.address)
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "nowhere"))
    assert "No such file" in refused(server.address)


@pytest.mark.parametrize(
    ("status", "kind", "body", "said"),
    [
        (200, "text/html", "<!doctype html>", "answers with a page"),
        (404, "text/html", "<h1>404</h1>", "it has no /api/version (HTTP 404)"),
        (200, "application/json", '{"hello": 1}', "answers without ray_version"),
        (200, "application/json", "[]", "answers without ray_version"),
        (200, "text/plain", "hello", "answers with text/plain, not JSON"),
        (302, "text/html", "https://login.example/", "it redirects (HTTP 302)"),
        (403, "text/html", "<h1>Forbidden</h1>", "refuses this client"),
        (418, "text/plain", "teapot", "HTTP 418: teapot"),
        (500, "text/plain", "Traceback\n  File x\nValueError: broken\n", "HTTP 500: ValueError: broken"),
        (503, "text/html", "<h1>no upstream</h1>", "HTTP 503"),
        (0, "", "", "broke its answer off"),
    ],
)
def test_what_is_no_dashboard(server: Answers, status: int, kind: str, body: str, said: str) -> None:
    server.by_path["/api/version"] = [(status, kind, body.encode())]
    assert said in refused(server.address)


def test_a_redirect_takes_no_token_along(server: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
    server.token = TOKEN
    with serving() as other:
        server.by_path["/api/version"] = [(307, "text/plain", f"{other.address}/api/version".encode())]
        assert "it redirects" in refused(server.address)
        assert other.asked == []


def test_nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        port = unheard.getsockname()[1]
        assert "cannot be reached: Connection refused" in refused(f"http://127.0.0.1:{port}")
        unheard.listen()
        monkeypatch.setattr(jobs_dashboard, "CONNECT_S", 0.2)
        assert "does not answer within 0.2 s" in refused(f"http://127.0.0.1:{port}")
    assert "cannot be reached" in refused("http://no-such-host.invalid:8265")


def test_a_certificate_that_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    command = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", *names)
    subprocess.run([*command, "-keyout", "key", "-out", "cert"], cwd=tmp_path, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    with serving() as plain, socket.create_server(("127.0.0.1", 0)) as listening:
        assert "speaks no TLS" in refused(plain.address.replace("http:", "https:"))

        def answer() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                    with context.wrap_socket(connection, server_side=True) as secure:
                        body = b'{"ray_version": "2.58.1"}'
                        secure.recv(4096)
                        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
                        secure.sendall(head + body)
                except ssl.SSLError:
                    continue
                except OSError:
                    return

        threading.Thread(target=answer, daemon=True).start()
        address = f"https://127.0.0.1:{listening.getsockname()[1]}"
        assert "the certificate is not trusted: self-signed certificate" in refused(address)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert"))
        assert Dashboard.open(address)[1].ray == "2.58.1"
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "nowhere"))
        assert "SSL_CERT_FILE=" in refused(address)


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("http://head", "http://head:8265"),
        ("http://head:80/", "http://head:80"),
        ("https://ray.example/team/", "https://ray.example/team"),
        ("http://[::1]:8265", "http://[::1]:8265"),
    ],
)
def test_addresses(given: str, used: str) -> None:
    assert address_of(given) == used


@pytest.mark.parametrize(
    "given", ["", "head:8265", "ray://head:10001", "auto", "http://", "http://head:x", "http://u:p@head"]
)
def test_what_is_no_address(given: str) -> None:
    with pytest.raises(InputError, match=r"as in http://HOST:8265"):
        address_of(given)


def test_jobs_their_logs_and_their_end(server: Answers) -> None:
    dashboard = Dashboard(server.address)
    server.job("RUNNING", "one\n")
    server.say("/api/jobs/seatrial-1/stop", {"stopped": True})
    assert dashboard.job("seatrial-1").ended is False
    assert dashboard.log("seatrial-1") == "one\n"
    assert dashboard.stop("seatrial-1") is True
    assert server.asked[-1][0] == "POST"
    with pytest.raises(NoJob, match="has no such job"):
        dashboard.job("seatrial-2")
    server.say("/api/jobs/", [{"submission_id": None, "status": "RUNNING"}, {"submission_id": "x", "status": "FAILED"}])
    assert [job.id for job in dashboard.jobs()] == ["x"]
    for path, ask in (("", dashboard.job), ("/logs", dashboard.log), ("/stop", dashboard.stop)):
        server.by_path[f"/api/jobs/seatrial-1{path}"] = [(200, "application/json", b"[1]")]
        with pytest.raises(InputError, match="answers without"):
            ask("seatrial-1")


def test_a_failure_that_may_pass_is_no_wrong_input(server: Answers) -> None:
    server.say("/api/jobs/x", "Traceback\nTimeoutError: no agent", status=500, kind="text/plain")
    with pytest.raises(NoAnswer, match="TimeoutError: no agent") as caught:
        Dashboard(server.address).job("x")
    assert isinstance(caught.value, RunError)
    assert VERSION["ray_version"] == Dashboard.open(server.address)[1].ray
