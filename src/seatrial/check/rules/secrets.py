"""Secrets in texts that are no variables: the command line of a job, and annotations. What is found is never shown.

They are recognised as in everything that seatrial writes (`events.redact`): by well-known forms, and by the name of
what they are assigned to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from seatrial.check.manifest import Manifest
from seatrial.check.rule import K8S_DOCS, Facts, Hit, rule
from seatrial.check.values import Value

_SECRETS = f"{K8S_DOCS}/concepts/configuration/secret/"
# Without one of these there is no secret, and `events` need not be loaded: it brings pydantic, which takes its time.
_HINT = re.compile(
    r"(?i)token|secret|passw|pwd|credential|key|auth|cookie|bearer|://|akia|asia|hf_|gh[pousr]_|\bpat\b|sk-|eyj"
)
# Filled in elsewhere: by a shell, by a template, or read from a file.
_REFERENCE = re.compile(
    r"\$\{[^}]{0,400}\}|\$\([^)]{0,400}\)|`[^`]*`|\$\w+|\{\{.{0,400}?\}\}|<[^<>\s]*>|(?<==)/\S*", re.DOTALL
)
# Options that name a secret, or a token of a text, and do not hold one.
_HOLDS_NONE = re.compile(
    r"""(?ix)(?<![\w-])--?(?:[\w-]{0,64}[-_])?
    (?:tokens?[-_](?!key|secret|value)[\w-]{1,64}
      |(?:secrets?|passw(?:or)?d|key)[-_](?:file|path|dir|name|arn|id|env|var|ref|type|mode|scope|count|limit)s?
      |(?:bos|eos|pad|unk|sep|cls|mask|stop|image|video|audio)[-_]tokens?)
    (?:\s*=\s*|\s+)(?:"[^"]*"|'[^']*'|\S+)"""
)
_OPTION = re.compile(r"(?<!\S)--?([\w-]+)\s+(?=[^\s-])")
_BEFORE = r"([\w-]{1,64})[\"']?\s*[=:](?!//)\s*[\"']?[\w.+/-]{0,64}"
_LONG_RUN = re.compile(r"([\w-]{256})[\w-]+")  # the redactor's patterns take the square of such a run's length
_MOST = 1 << 16
_SHORT = 6


def found(text: str) -> str:
    """What holds a secret in a text, such as `HF_TOKEN`; empty if there is none."""
    if not _HINT.search(text):
        return ""
    from seatrial.events.redact import MASK, Redactor

    redactor = Redactor({})  # no environment: what the machine that checks has in its own is no part of the file
    left = _HOLDS_NONE.sub(" ", _REFERENCE.sub(_nothing, _LONG_RUN.sub(r"\1", text[:_MOST])))
    masked = redactor.text(_OPTION.sub(lambda option: f"--{option[1]}=", left))
    if masked.count(MASK) == left.count(MASK):
        return ""
    named = re.search(_BEFORE + re.escape(MASK), masked)
    return named[1].lstrip("-") if named and named[1] != MASK.strip("[]") else "what looks like a key"


def _nothing(reference: re.Match[str]) -> str:
    """What a reference leaves behind: a value that is none, and in a URL no password."""
    return "" if reference.string[reference.end() :].startswith("@") else '""'


@rule(
    "secret-in-entrypoint",
    "warning",
    "job",
    title="a secret on the job's command line",
    fix="put it in a Secret, hand it to the Ray containers by valueFrom.secretKeyRef, "
    "and let the program read the variable",
    source=_SECRETS,
)
def secret_in_entrypoint(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """It stands in the RayJob, in the submitter's and the driver's command lines, in Ray's dashboard and in its logs,
    for everyone who may read one of them.
    """
    entrypoint = manifest.spec["entrypoint"]
    if what := found(entrypoint.raw):
        yield Hit(entrypoint, f"{what} has a literal value in the entrypoint", "a variable from a Secret")


@rule(
    "secret-in-annotation",
    "warning",
    "manifest",
    title="a secret in an annotation or a label",
    fix="put it in a Secret",
    source=_SECRETS,
)
def secret_in_annotation(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """Annotations are shown to everyone who may read the resource or its pods, and other programs copy them."""
    for metadata in (manifest.metadata, *(pod.metadata for pod in manifest.pods)):
        for section in ("annotations", "labels"):
            for key, value in metadata[section].items():
                if not value.unknown and (found(value.raw) or _by_name(key, value)):
                    yield Hit(value, f"what looks like a secret, of {len(value.raw)} characters", "a Secret")


def _by_name(key: str, value: Value) -> bool:
    """Whether a key such as `example.com/api-token` says that its value is a secret, and it may be one."""
    own = key.rpartition("/")[2]
    if not _HINT.search(own):
        return False
    from seatrial.events.redact import is_secret_name

    plain = re.fullmatch(r"(?i)true|false|[\d.]*|/.*|[a-z0-9.-]+/[a-z0-9./-]+", value.raw)
    return is_secret_name(own) and len(value.raw) >= _SHORT and not plain and not re.search("(?i)name|ref$|arn", own)
