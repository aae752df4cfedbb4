"""Credentials of a registry as `docker login` keeps them: in the Docker config file, or in a helper program.

The format of the file is Docker's (docs.docker.com/reference/cli/docker/login, "credential stores"): `auths` holds
base64 of `user:password` for each registry, `credHelpers` and `credsStore` name programs `docker-credential-NAME`.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seatrial.errors import InputError, Place
from seatrial.image.reference import DOCKER_HUB

HUB_KEY = "https://index.docker.io/v1/"  # the key of Docker Hub's entry
HELPER_SECONDS = 30
_TOKEN_USER = "<token>"  # a helper's name for an identity token


@dataclass(frozen=True)
class Credentials:
    """A user and a password, or neither; `source` says where they come from, or why there are none."""

    source: str
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    def __bool__(self) -> bool:
        return bool(self.user)


def config_path() -> Path:
    """The Docker config file: in the folder `DOCKER_CONFIG`, else in `~/.docker`."""
    folder = os.environ.get("DOCKER_CONFIG")
    return (Path(folder) if folder else Path.home() / ".docker") / "config.json"


def find(registry: str) -> Credentials:
    """The credentials for a registry's host. Raises InputError if the config file is not a Docker config."""
    path = config_path()
    if not path.is_file():
        return Credentials(f"no credentials ({path} does not exist)")
    config = _read(path)
    key, entry = _entry(_section(config, "auths", path), registry)
    if entry.get("identitytoken"):
        return Credentials(f"no credentials (the entry {key} of {path} is an identity token, which is not supported)")
    if entry.get("auth"):
        return _decoded(str(entry["auth"]), key, path)
    helpers = _section(config, "credHelpers", path)
    helper = helpers.get(_keys(registry)[0]) or helpers.get(registry) or config.get("credsStore")
    if helper:
        return _from_helper(str(helper), registry)
    return Credentials(f"no credentials ({path} has no entry for {registry})")


def _read(path: Path) -> dict[str, Any]:
    place = Place(str(path))
    try:
        config = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", place=place) from None
    except (ValueError, RecursionError):  # the error's own text may quote the file
        raise InputError("is not JSON", place=place, expected="a Docker config file") from None
    if not isinstance(config, dict):
        raise InputError("is no JSON object", place=place, expected="a Docker config file")
    return config


def _section(config: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
    section = config.get(name) or {}
    if not isinstance(section, dict):
        raise InputError(
            "is no JSON object", place=Place(str(path)), field=name, expected="registries and their entries"
        )
    return section


def _keys(registry: str) -> tuple[str, ...]:
    return (HUB_KEY, "index.docker.io", DOCKER_HUB) if registry == DOCKER_HUB else (registry,)


def _entry(auths: dict[str, Any], registry: str) -> tuple[str, dict[str, Any]]:
    """The entry of a registry, and its key. Older files have a URL with scheme and path as the key."""
    for key in (*_keys(registry), *auths):
        entry = auths.get(key)
        if isinstance(entry, dict) and (key in _keys(registry) or _host(key) == registry):
            return key, entry
    return registry, {}


def _host(key: str) -> str:
    return re.sub(r"^https?://", "", key).partition("/")[0]


def _decoded(auth: str, key: str, path: Path) -> Credentials:
    try:
        user, colon, password = base64.b64decode(auth, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        user = colon = password = ""
    if not (user and colon):
        raise InputError(
            "cannot be read", place=Place(str(path)), field=f"auths.{key}.auth", expected="base64 of user:password"
        )
    return Credentials(f"the entry {key} of {path}", user, password.rstrip("\0"))


def _from_helper(name: str, registry: str) -> Credentials:
    """The credentials that `docker-credential-NAME get` prints. If it fails, there are none, and `source` says why."""
    program = f"docker-credential-{name}"
    try:
        done = subprocess.run(
            [program, "get"],
            input=_keys(registry)[0],
            capture_output=True,
            text=True,
            timeout=HELPER_SECONDS,
            check=True,
        )
        answer = json.loads(done.stdout)
        user, password = str(answer["Username"]), str(answer["Secret"])
    except FileNotFoundError:
        return Credentials(f"no credentials ({program} is not installed)")
    except subprocess.TimeoutExpired:
        return Credentials(f"no credentials ({program} did not answer within {HELPER_SECONDS} s)")
    except (OSError, subprocess.CalledProcessError, ValueError, KeyError, TypeError):  # its output may hold a secret
        return Credentials(f"no credentials ({program} gave none for {registry})")
    if user == _TOKEN_USER:
        return Credentials(f"no credentials ({program} gave an identity token, which is not supported)")
    return Credentials(f"the credentials of {program} for {registry}", user, password)
