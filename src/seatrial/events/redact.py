"""Keeps secrets out of all that seatrial writes: values of secret-looking variables, and well-known token shapes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

MASK = "[redacted]"
MIN_LENGTH = 6  # shorter values would mask ordinary words

_SECRET_NAME = re.compile(
    r"(^|[_-])(TOKENS?|SECRETS?|PASSWORDS?|PASSWD|PASSPHRASE|PWD|CREDENTIALS?|API_?KEYS?|ACCESS_?KEYS?|PRIVATE_?KEYS?|KEY|PAT|AUTH|COOKIES?)($|[_-])"
    r"|PASSWORD|APIKEY|SECRET",
    re.I,
)
_NOT_SECRET = re.compile(
    r"[.]"  # parameter and file names, such as model.embed_tokens.weight
    r"|^(bos|eos|pad|unk|sep|cls|mask|image|video|audio)_token(_id)?$|tokens?_per_|^PWD$|^OLDPWD$"
    r"|^(RAY_AUTH_MODE|SSH_AUTH_SOCK|XAUTHORITY|GPG_KEY)$|_(FILE|PATH|DIR|MODE)$|(KEY|TOKEN)_ID$",
    re.I,
)

_VERSION = re.compile(r"^\d+(\.\w+){1,5}(#[0-9a-f]{12})?$")  # of packages such as google-auth

_SHAPES = re.compile(
    r"(?:AKIA|ASIA)[0-9A-Z]{16}"  # AWS access key id
    r"|\bhf_[A-Za-z0-9]{20,}"  # Hugging Face
    r"|\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_[A-Za-z0-9_]{30,}"
    r"|\bsk-[A-Za-z0-9_-]{20,}"
    r"|(?<![\w-])eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}"  # JSON web token
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
)
_URL_PASSWORD = re.compile(r"(?<=://)[^\s/:@]*:[^\s/@]+(?=@)")
# From the beginning of a name, and names of a bounded length: a long run of dashes and words costs its length then.
_ASSIGNMENT = re.compile(
    r"(?i)(?<![\w-])([\w-]{0,100}?(?:token(?!i[sz])|secret|passw(?:or)?d|api[_-]?key|access[_-]?key)[\w-]{0,100})"
    r"([\"']?\s*[=:]\s*[\"']?)([^\s\"',;&]{6,})"
)
_AUTHORIZATION = re.compile(r"(?i)(\bbearer\s+|\bauthorization[\"']?\s*[=:]\s*[\"']?\w+\s+)[\w.~+/=-]{8,}")


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name is taken to hold a secret."""
    return bool(_SECRET_NAME.search(name)) and not _NOT_SECRET.search(name)


class Redactor:
    """Masks the secrets of one environment. Digests are of the masked form."""

    def __init__(self, *environments: Mapping[str, str]):
        values = {
            line
            for env in (environments or (os.environ,))
            for k, v in env.items()
            if _is_secret(k, v)
            for line in (v, *v.splitlines())  # logs are read by lines
            if len(line.strip()) >= MIN_LENGTH
        }
        longest_first = sorted(values, key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def text(self, text: str) -> str:
        """`text` with secrets masked."""
        if self._values:
            text = self._values.sub(MASK, text)
        text = _SHAPES.sub(MASK, text)
        text = _URL_PASSWORD.sub(MASK, text)
        text = _AUTHORIZATION.sub(rf"\g<1>{MASK}", text)
        return _ASSIGNMENT.sub(_masked_assignment, text)

    def value(self, value: Any) -> Any:
        """JSON with secrets masked, in keys and in text; text under secret names is masked whole."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {
                self.value(k): MASK if isinstance(v, str) and _is_secret(str(k), v) else self.value(v)
                for k, v in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(v) for v in value]
        return value


def _is_secret(name: str, value: str) -> bool:
    """Whether `value` under `name` is a secret; a number of tokens is a count."""
    return is_secret_name(name) and not ("TOKENS" in name.upper() and _is_number(value)) and not _VERSION.match(value)


def _masked_assignment(match: re.Match[str]) -> str:
    name, sign, value = match.groups()
    measured = "TOKEN" in name.upper() and _is_number(value)  # also `loss per token: 2.30259`
    kept = measured or value.startswith(MASK) or _NOT_SECRET.search(name)
    return match[0] if kept else f"{name}{sign}{MASK}"


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"[\d.,:+%/()\[\]-]+[kKMG]?(/s)?", text))
