"""What the submitter's shell makes of an entrypoint: operators, expansions, and the placeholders between them.

KubeRay 1.3 and later run `bash -ce -- '… ray job submit … -- <entrypoint> ; …'` in the submitter (JOB_GO,
BuildJobSubmitCommand), so the entrypoint passes that shell first; Ray then runs what arrives with `sh -c` on the head.
"""

from __future__ import annotations

import re

from seatrial.check.manifest import Manifest
from seatrial.check.reading import YamlNode, placeholder
from seatrial.check.rule import Facts
from seatrial.check.values import Value

_WITH_SUBMITTER = ("K8sJobMode", "SidecarMode")
_SHELL = re.compile(
    r"""(?P<word>\\.|'[^']*'|"(?:\\.|[^"\\])*"|[0-9]*>&[0-9])|(?P<comment>(?:(?<=\s)|\A)\#)"""
    r"""|(?P<operator>&&|\|\||&>>?|>>|<<<?|[;&|<>()`\n])|(?P<open>['"])""",
    re.DOTALL,
)
_QUOTES = re.compile(r"""\\.|"(?:\\.|[^"\\])*"|'[^']*'""", re.DOTALL)
_DOLLAR = re.compile(r"\\.|\$(?:\{?(?P<name>[A-Za-z_]\w*)|\()", re.DOTALL)
_SHELL_PLACES = ("env", "command", "args", "rayStartParams", "lifecycle", "entrypoint", "runtimeEnvYAML")


def shell_operators(text: str) -> list[str]:
    """What a shell would act on in `text` outside quotes: operators, `#` before a comment, a quote without an end."""
    found: list[str] = []
    for token in _SHELL.finditer(text.strip()):
        if token["comment"]:
            return [*found, "#"]  # the rest of the line is gone
        if seen := token["operator"] or token["open"]:
            found.append(seen)
    return found


def shell_expansions(text: str, quote: str = "") -> list[re.Match[str]]:
    """Each `$NAME`, `${NAME…` and `$(` that a shell would expand: outside single quotes, not escaped.

    With `"` as `quote` the text as a whole stands in double quotes, where single ones mean nothing.
    """
    outside = text if quote else _QUOTES.sub(lambda token: "" if token[0][0] == "'" else token[0], text)
    return [token for token in _DOLLAR.finditer(outside) if token[0][0] == "$"]


def whole_expansion(token: re.Match[str]) -> str:
    """The whole expansion that begins with `token`: `$(hostname)`, `${RUN:-a}`; as far as it is closed."""
    rest, depth = token.string[token.start() :], 0
    pair = {"(": ")", "{": "}"}.get(rest[1:2])
    for position, letter in enumerate(rest if pair else ""):
        depth += (letter == rest[1]) - (letter == pair)
        if position > 1 and not depth:
            return rest[: position + 1]
    return token[0]


def templated(value: Value) -> bool:
    """Whether something is to fill in placeholders before kubectl: some stand where no shell would expand them."""

    def inside(node: YamlNode) -> bool:
        if isinstance(node.value, dict):
            return any(inside(child) for key, child in node.value.items() if key not in _SHELL_PLACES)
        if isinstance(node.value, list):
            return any(inside(child) for child in node.value)
        return bool(node.placeholder)

    return value.node is not None and inside(value.node)


def masked(text: str) -> str:
    """The text with `_` for every letter of a placeholder, so that its signs are none of a shell's."""
    while mark := placeholder(text):
        text = text.replace(mark, "_" * len(mark))
    return text


def reads_shell(manifest: Manifest, facts: Facts) -> bool:
    """Whether entrypoint and runtime environment pass a submitter's shell."""
    return facts.since_kuberay(1, 3) and manifest.submission_mode in _WITH_SUBMITTER and not own_command(manifest)


def own_command(manifest: Manifest) -> bool:
    """Whether the submitter has a command of its own: KubeRay then adds none, and the entrypoint is not used."""
    return manifest.submitter is not None and bool(manifest.submitter.container["command"])
