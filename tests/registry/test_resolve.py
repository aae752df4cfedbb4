"""From tags to digests against a real registry: platforms, labels, mirrors, refusals, and a registry that lies."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from seatrial.cli.main import main
from seatrial.errors import InputError
from seatrial.image.client import MAX_BYTES, HttpTimeout
from seatrial.image.comparison import compare, same_image
from seatrial.image.errors import Altered, Denied, NoTls, RegistryError, Unreachable
from seatrial.image.reference import parse
from seatrial.image.registry import Resolved, resolve
from tests.support.registry import (
    DOCKER,
    OCI,
    PASSWORD,
    USER,
    Answer,
    Pushed,
    Registry,
    certify,
    docker_config,
    login,
    proxy,
    reply,
    running,
    serving,
    sha256,
)  # fmt: skip

pytestmark = pytest.mark.registry

LABELS = {"framework_version": "2.13.0", "cuda": "13.0"}


def named(host: str, name: str, **options: Any) -> Resolved:
    return resolve(parse(f"{host}/{name}"), **options)


def refused(host: str, name: str, kind: type[Exception], **options: Any) -> str:
    with pytest.raises(kind) as error:
        named(host, name, **options)
    assert type(error.value) is kind
    assert len(str(error.value).splitlines()) == 1
    assert PASSWORD not in str(error.value)
    return str(error.value)


def two_platforms(
    registry: Registry, repository: str, tag: str = "v1", docker: bool = False
) -> tuple[Pushed, Pushed, Pushed]:
    amd = registry.image(repository, labels=LABELS, docker=docker)
    arm = registry.image(repository, architecture="arm64", variant="v8", labels={"for": "arm"}, docker=docker)
    return registry.index(repository, tag, [arm, amd], docker=docker), amd, arm


@pytest.mark.parametrize("docker_form", [False, True], ids=["oci", "docker"])
def test_a_tag_names_an_index_and_its_platforms(registry: Registry, docker_form: bool) -> None:
    repository = f"team/two-{docker_form}".lower()
    index, amd, arm = two_platforms(registry, repository, docker=docker_form)
    found = named(registry.host, f"{repository}:v1")
    assert (found.digest, found.is_index) == (index.digest, True)
    assert found.media_type == (f"{DOCKER}.manifest.list.v2+json" if docker_form else f"{OCI}.index.v1+json")
    assert found.platforms == (("linux/arm64/v8", arm.digest), ("linux/amd64", amd.digest))
    assert (found.labels, found.labels_of) == (LABELS, "linux/amd64")


def test_labels_are_of_the_platform_that_is_asked_for(registry: Registry) -> None:
    _, _, arm = two_platforms(registry, "team/labels")
    found = named(registry.host, "team/labels:v1", platform="linux/arm64")
    assert (found.labels, found.labels_of) == ({"for": "arm"}, "linux/arm64/v8")
    assert found.of("linux/arm64") == (("linux/arm64/v8", arm.digest),)
    text = refused(registry.host, "team/labels:v1", InputError, platform="linux/arm")
    assert "platform: saw linux/arm; expected one that" in text
    assert "has: linux/amd64, linux/arm64/v8" in text


@pytest.mark.parametrize("docker_form", [False, True], ids=["oci", "docker"])
def test_a_single_image_gets_its_platform_from_its_config(registry: Registry, docker_form: bool) -> None:
    pushed = registry.image("team/one", "v1", architecture="arm", variant="v7", labels=LABELS, docker=docker_form)
    found = named(registry.host, "team/one:v1")
    assert (found.digest, found.media_type, found.is_index) == (pushed.digest, pushed.media_type, False)
    assert found.platforms == (("linux/arm/v7", pushed.digest),)
    assert found.labels == LABELS
    assert named(registry.host, f"team/one@{pushed.digest}").digest == pushed.digest


def test_attestations_are_no_platform(registry: Registry) -> None:
    _, amd, _ = two_platforms(registry, "team/attested")
    attestation = replace(registry.image("team/attested"), platform={"os": "unknown", "architecture": "unknown"})
    registry.index("team/attested", "v2", [amd, attestation])
    assert named(registry.host, "team/attested:v2").platforms == (("linux/amd64", amd.digest),)


def test_an_artifact_that_is_no_image_has_an_unknown_platform(registry: Registry) -> None:
    config = registry.blob("team/chart", b"{}")
    document = {"schemaVersion": 2, "mediaType": f"{OCI}.manifest.v1+json", "layers": []}
    document["config"] = {"mediaType": "application/vnd.example.config+json", "digest": config[0], "size": config[1]}
    pushed = registry.manifest("team/chart", "v1", document)
    found = named(registry.host, "team/chart:v1")
    assert (found.platforms, found.labels) == ((("unknown", pushed.digest),), {})


def test_a_mirror_is_the_same_image_and_a_platform_is_contained(registry: Registry) -> None:
    _, amd, _ = two_platforms(registry, "team/origin")
    two_platforms(registry, "mirror/of/origin", tag="other-tag")
    registry.image("mirror/amd", "v1", labels=LABELS)
    origin, mirror = named(registry.host, "team/origin:v1"), named(registry.host, "mirror/of/origin:other-tag")
    part = named(registry.host, "mirror/amd:v1")
    assert part.digest == amd.digest
    assert same_image(origin, mirror).kind == same_image(origin, mirror.digest).kind == "same"
    assert same_image(origin, part) == same_image(part, origin) == same_image(amd.digest, origin)
    assert same_image(origin, part).kind == "contains"
    assert same_image(origin, part).why == f"{amd.digest} is the linux/amd64 manifest of the index {origin.digest}"
    assert same_image(part, origin.digest).kind == "different"  # nothing is known of what is under a bare digest


def test_one_platform_of_two_indexes_can_be_the_same(registry: Registry) -> None:
    two_platforms(registry, "team/both")
    amd = registry.image("team/amd-only", labels=LABELS)
    registry.index("team/amd-only", "v1", [amd])
    a, b = f"{registry.host}/team/both:v1", f"{registry.host}/team/amd-only:v1"
    assert compare(a, b).kind == "different"
    assert "; the manifests for linux/amd64 are the same" in compare(a, b).why
    assert compare(a, b, platform="linux/amd64").kind == "same"
    assert compare(a, amd.digest).kind == "contains"
    assert compare(a, amd.digest, platform="linux/amd64").kind == "same"
    variants = [registry.image("team/arms", architecture="arm", variant=v) for v in ("v6", "v7")]
    registry.index("team/arms", "v1", variants)
    with pytest.raises(
        InputError, match="linux/arm means several platforms; expected one of linux/arm/v6, linux/arm/v7"
    ):
        compare(
            f"{registry.host}/team/arms:v1", f"{registry.host}/team/arms@{variants[0].digest}", platform="linux/arm"
        )


def test_what_is_not_there(registry: Registry) -> None:
    pushed = registry.image("team/there", "v1")
    text = refused(registry.host, "team/there:v2", InputError)
    assert text.startswith(f"{registry.host} has no team/there:v2 (MANIFEST_UNKNOWN)")
    assert "team/there:latest" in refused(registry.host, "team/there", InputError)
    assert "team/nowhere" in refused(registry.host, "team/nowhere:v1", InputError)
    other = "sha256:" + "0" * 64
    assert f"team/there@{other}" in refused(registry.host, f"team/there@{other}", InputError)
    assert pushed.digest not in text
    with serving(lambda handler: reply(handler, 404, {}, b"<html>")) as host:
        assert refused(host, "x:v1", InputError).endswith(
            "(HTTP 404); expected a tag or digest of this registry; is it a registry?"
        )


def test_no_connection_and_no_answer() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = f"127.0.0.1:{free.getsockname()[1]}"
        expected = f"cannot reach the registry {closed}: Connection refused; offline? the tag stays unresolved"
        assert refused(closed, "x:v1", Unreachable) == expected
    with serving(lambda handler: time.sleep(5)) as silent:
        text = refused(silent, "x:v1", Unreachable, timeout=HttpTimeout(connect=5, read=0.3))
        assert text == f"cannot reach the registry {silent}: no answer within 0.3 s; offline? the tag stays unresolved"
    text = refused("registry.invalid", "x:v1", Unreachable)  # a name that never resolves (RFC 6761)
    assert text.startswith("cannot reach the registry registry.invalid: ")


def test_an_answer_that_stops_half_way(registry: Registry) -> None:
    registry.image("team/half", "v1")

    def respond(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "0" if handler.path == "/v2/" else "1000")
        handler.end_headers()
        handler.wfile.write(b"" if handler.path == "/v2/" else b"{")
        handler.close_connection = True

    with serving(respond) as host:
        assert "the connection broke in the middle of an answer" in refused(host, "team/half:v1", Unreachable)


def test_basic_authentication(basic_registry: Registry, docker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host, pushed = basic_registry.host, basic_registry.image("team/private", "v1", labels=LABELS)
    monkeypatch.setenv("ORAS_USER", USER)  # oras would take these without a word
    monkeypatch.setenv("ORAS_PASS", PASSWORD)
    text = refused(host, "team/private:v1", Denied)
    assert f"{host} refuses team/private ({host} answered HTTP 401); tried with no credentials" in text
    assert f"({docker / 'config.json'} does not exist)" in text
    login(docker, host)
    found = named(host, "team/private:v1")
    assert (found.digest, found.labels) == (pushed.digest, LABELS)
    assert "MANIFEST_UNKNOWN" in refused(host, "team/private:v2", InputError)
    login(docker, f"http://{host}/v1/")  # as older versions wrote the key
    assert named(host, "team/private:v1").digest == pushed.digest
    login(docker, host, password="wrong-word")
    text = refused(host, "team/private:v1", Denied)
    assert (
        f"tried with the entry {host} of {docker / 'config.json'}; `docker login {host}` sets credentials; some" in text
    )
    assert "wrong-word" not in text
    assert USER not in text


def test_bearer_tokens(bearer_registry: Registry, docker: Path) -> None:
    host = bearer_registry.host
    open_, private = bearer_registry.image("open/one", "v1"), bearer_registry.image("team/one", "v1", labels=LABELS)
    assert named(host, "open/one:v1").digest == open_.digest
    assert "answered HTTP 401); tried with no credentials" in refused(host, "team/one:v1", Denied)
    login(docker, "elsewhere.example")
    assert f"has no entry for {host})" in refused(host, "team/one:v1", Denied)
    login(docker, host)
    assert named(host, "team/one:v1").labels == LABELS
    assert named(host, f"team/one@{private.digest}").digest == private.digest
    login(docker, host, password="wrong-word")
    text = refused(host, "team/one:v1", Denied)
    assert "answered HTTP 401); tried with the entry" in text
    assert "wrong-word" not in text


def test_nothing_is_logged_beside_the_error(
    bearer_registry: Registry, docker: Path, caplog: pytest.LogCaptureFixture, capfd: Any
) -> None:
    login(docker, bearer_registry.host, password="wrong-word")
    refused(bearer_registry.host, "team/one:v1", Denied)
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


def test_a_credential_helper(basic_registry: Registry, docker: Path, tmp_path: Path, monkeypatch: Any) -> None:
    host, pushed = basic_registry.host, basic_registry.image("team/helped", "v1")
    helper = tmp_path / "docker-credential-vault"
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    docker_config(docker, credHelpers={host: "vault"})
    assert "(docker-credential-vault is not installed)" in refused(host, "team/helped:v1", Denied)
    script = (
        '#!/bin/sh\nread host\n[ "$1 $host" = "get {host}" ] && echo \'{{"Username": "{user}", "Secret": "{word}"}}\'\n'
    )
    helper.write_text(script.format(host=host, user=USER, word=PASSWORD))
    helper.chmod(0o755)
    assert named(host, "team/helped:v1").digest == pushed.digest
    docker_config(docker, credsStore="vault", auths={host: {}})
    assert named(host, "team/helped:v1").digest == pushed.digest
    helper.write_text(script.format(host=host, user="<token>", word=PASSWORD))
    assert "gave an identity token, which is not supported" in refused(host, "team/helped:v1", Denied)
    helper.write_text(f"#!/bin/sh\necho {PASSWORD}\nexit 1\n")
    assert f"(docker-credential-vault gave none for {host})" in refused(host, "team/helped:v1", Denied)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not JSON; expected a Docker config file"),
        ("[]", "is no JSON object; expected a Docker config file"),
        ('{"auths": [1]}', "auths: is no JSON object"),
        ('{"auths": {"HOST": {"auth": "cGlsb3QtYm9hdA=="}}}', "auths.HOST.auth: cannot be read; expected base64 of user:password"),
    ],
)  # fmt: skip
def test_a_docker_config_that_is_none(registry: Registry, docker: Path, content: str, words: str) -> None:
    docker.mkdir()
    (docker / "config.json").write_text(content.replace("HOST", registry.host))
    text = refused(registry.host, "x:v1", InputError)
    assert text.startswith(f"{docker / 'config.json'}: ")
    assert words.replace("HOST", registry.host) in text
    assert "cGlsb3Q" not in text


def lying(registry: Registry, **change: Any) -> Any:
    """A proxy that changes answers to /manifests/v1."""

    def altered(answer: Answer) -> Answer:
        return (
            replace(answer, **{k: f(answer) for k, f in change.items()}) if "/manifests/v1" in answer.path else answer
        )

    return proxy(registry, altered)


def without_digest(answer: Answer) -> dict[str, str]:
    return {k: v for k, v in answer.headers.items() if k != "Docker-Content-Digest"}


def test_a_registry_that_lies_is_caught(registry: Registry) -> None:
    pushed = registry.image("team/honest", "v1", labels=LABELS)
    with lying(registry, body=lambda a: a.body.replace(b"\n", b"\n ")) as host:
        text = refused(host, "team/honest:v1", Altered)
        assert (
            f"{host}/team/honest:v1: the registry states {pushed.digest}, but its bytes have the digest sha256:" in text
        )
    with lying(registry, body=lambda a: a.body + b" ", headers=without_digest) as host:
        assert named(host, "team/honest:v1").digest != pushed.digest  # no header: the digest is that of the bytes
    with lying(registry, headers=without_digest) as host:
        assert named(host, "team/honest:v1").digest == pushed.digest


def test_bytes_that_are_not_what_was_asked_for(registry: Registry) -> None:
    index, _, _ = two_platforms(registry, "team/swapped")
    other = registry.image("team/swapped", "other", labels={"framework_version": "0"})

    swapped = b'{"os": "plan9", "architecture": "amd64"}'

    def swap(answer: Answer) -> Answer:
        if "sha256:" in answer.path:
            return replace(answer, body=swapped, headers=without_digest(answer))
        return answer

    with proxy(registry, swap) as host:
        text = refused(host, f"team/swapped@{index.digest}", Altered)
        assert f"asked for {index.digest}, but the bytes have the digest {sha256(swapped)}" in text
        assert "asked for sha256:" in refused(host, "team/swapped:v1", Altered)  # the manifest that labels come from
        assert "asked for sha256:" in refused(host, "team/swapped:other", Altered)  # a config blob
    assert named(registry.host, "team/swapped:other").digest == other.digest


def test_a_mirror_without_every_platform_still_gives_the_digest(registry: Registry) -> None:
    index, amd, _ = two_platforms(registry, "team/sparse")

    def sparse(answer: Answer) -> Answer:
        return replace(answer, status=404, body=b"", headers={}) if amd.digest in answer.path else answer

    with proxy(registry, sparse) as host:
        found = named(host, "team/sparse:v1")
        assert (found.digest, found.labels, found.labels_of) == (index.digest, {}, "")


INDEX_AND_IMAGE = b'{"schemaVersion": 2, "manifests": [], "layers": []}'


def both_forms(answer: Answer) -> bytes:
    return json.dumps({**json.loads(answer.body), "manifests": []}).encode()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"body": lambda a: b"<html>"}, "saw 6 bytes that are no JSON object; expected a manifest"),
        ({"body": lambda a: b"[" * 100_000}, "that are no JSON object"),
        ({"body": lambda a: b"[]"}, "that are no JSON object"),
        ({"body": lambda a: b" " * (MAX_BYTES + 1)}, f"sends more than {MAX_BYTES} bytes; expected a manifest"),
        ({"body": both_forms}, "saw a document of type application/vnd.oci.image.manifest.v1+json; expected an image or an index"),
        ({"body": lambda a: a.body.replace(b"image.manifest", b"image.index")}, "but its mediaType is application/vnd.oci.image.index"),
        ({"body": lambda a: b'{"layers": []}'}, "a descriptor's digest is None; expected sha256:…"),
        ({"body": lambda a: b'{"mediaType": ["x"]}'}, "but its mediaType is"),
        ({"body": lambda a: INDEX_AND_IMAGE, "headers": lambda a: {"Content-Type": f"{OCI}.index.v1+json"}},
            "saw a document of type application/vnd.oci.image.index.v1+json; expected an image or an index"),
        ({"status": lambda a: 503}, "answered HTTP 503 for team/odd; try again later"),
        ({"status": lambda a: 429}, "answered HTTP 429 for team/odd; try again later"),
        ({"status": lambda a: 400}, "answered HTTP 400 for team/odd; expected a manifest"),
    ],
)  # fmt: skip
def test_answers_that_cannot_be_used(registry: Registry, change: dict[str, Any], words: str) -> None:
    registry.image("team/odd", "v1")
    with lying(registry, **{"headers": without_digest, **change}) as host:
        assert words in refused(host, "team/odd:v1", RegistryError)


@pytest.mark.parametrize(
    "challenge", ["Bearer", 'Bearer realm="http://127.0.0.1:1/token"', 'Bearer realm="::"', "Digest"]
)
def test_challenges_that_lead_nowhere(challenge: str, docker: Path) -> None:
    with serving(lambda handler: reply(handler, 401, {"WWW-Authenticate": challenge}, b"")) as host:
        for _ in range(2):
            with pytest.raises(RegistryError) as error:
                named(host, "x:v1")
            assert host in str(error.value)
            login(docker, host)


def test_a_token_service_that_answers_nonsense(docker: Path) -> None:
    for body in (b"<html>", b"[]", b'{"token": ""}', b'{"token": "a\\nb"}'):

        def respond(handler: BaseHTTPRequestHandler, body: bytes = body) -> None:
            realm = f'Bearer realm="http://{handler.headers["Host"]}/token"'
            to_token = handler.path.startswith("/token")
            reply(handler, 200 if to_token else 401, {} if to_token else {"WWW-Authenticate": realm}, body)

        with serving(respond) as host, pytest.raises(RegistryError):
            named(host, "x:v1")


def test_neither_netrc_nor_a_proxy_stands_in_between(registry: Registry, tmp_path: Path, monkeypatch: Any) -> None:
    pushed, seen = registry.image("team/direct", "v1"), []
    (tmp_path / "netrc").write_text("machine 127.0.0.2 login someone password else\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))

    def respond(handler: BaseHTTPRequestHandler) -> None:
        seen.append(handler.headers.get("Authorization"))
        reply(handler, 404, {}, b"")

    with serving(respond, "127.0.0.2") as host:
        refused(host, "x:v1", InputError, plain_http=True)
    assert seen == [None, None]
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert named(registry.host, "team/direct:v1").digest == pushed.digest


def test_plain_http_only_where_it_is_wanted(
    tmp_path: Path, docker: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(tmp_path, address="127.0.0.2") as plain:
        pushed = plain.image("team/plain", "v1")
        text = refused(plain.host, "team/plain:v1", NoTls)
        assert text.startswith(f"{plain.host}: TLS fails: wrong version number")
        with pytest.raises(SystemExit):
            main(["image", "resolve", f"{plain.host}/team/plain:v1"])
        assert capsys.readouterr().err.strip() == f"seatrial: {text}; --plain-http if the registry has no TLS"
        assert named(plain.host, "team/plain:v1", plain_http=True).digest == pushed.digest


def test_tls_and_no_credentials_in_the_clear(tmp_path: Path, docker: Path, monkeypatch: Any) -> None:
    key, certificate, asked = tmp_path / "key.pem", tmp_path / "cert.pem", []

    def token(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.path)
        reply(handler, 200, {}, b'{"token": "t"}')

    certify(key, certificate, "127.0.0.2")
    tls = f", tls: {{certificate: {certificate}, key: {key}}}"
    with serving(token) as service:
        auth = f"auth: {{token: {{realm: 'http://{service}/token', service: r, issuer: i, rootcertbundle: {certificate}}}}}\n"
        with running(tmp_path, address="127.0.0.2", http=tls, auth=auth) as secure:
            assert "TLS fails: certificate verify failed: self-signed certificate" in refused(
                secure.host, "x:v1", RegistryError
            )
            monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
            login(docker, secure.host)
            assert f"leads to http://{service}/token, which is not https, and was not followed" in refused(
                secure.host, "x:v1", RegistryError
            )
            assert asked == []
