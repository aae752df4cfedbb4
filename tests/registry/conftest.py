"""One open registry for the session; each test has repositories and a Docker config folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.registry import HTPASSWD, PASSWORD, USER, Registry, TokenService, basic, running, serving


@pytest.fixture(autouse=True)
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder as DOCKER_CONFIG, so that no login of this machine is used."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    return tmp_path / "docker"


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """Open to all."""
    with running(tmp_path_factory.mktemp("registry")) as found:
        yield found


@pytest.fixture(scope="session")
def basic_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """Open to USER alone, by HTTP Basic."""
    folder = tmp_path_factory.mktemp("basic")
    (folder / "htpasswd").write_text(HTPASSWD)
    auth = f"auth: {{htpasswd: {{realm: harbour, path: {folder / 'htpasswd'}}}}}\n"
    with running(folder, auth=auth) as found:
        found.authorize = lambda repository: basic(USER, PASSWORD)
        yield found


@pytest.fixture(scope="session")
def bearer_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """Open to who brings a token of its token service."""
    folder = tmp_path_factory.mktemp("bearer")
    tokens = TokenService(folder)
    with serving(tokens.respond) as realm:
        auth = (
            f"auth: {{token: {{realm: 'http://{realm}/token', service: registry, issuer: harbour,"
            f" rootcertbundle: {tokens.certificate}}}}}\n"
        )
        with running(folder, auth=auth) as found:
            found.authorize = lambda repository: f"Bearer {tokens.token(repository, ['pull', 'push'])}"
            yield found
