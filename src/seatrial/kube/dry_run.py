"""A server-side dry run: what the API server would make of a resource. Nothing is written."""

from __future__ import annotations

import re
from dataclasses import dataclass

from seatrial.errors import clean
from seatrial.kube import Json
from seatrial.kube.collection import Collection
from seatrial.kube.failures import Unanswered, parsed, refused
from seatrial.kube.http import ApiServer

_UNKNOWN_FIELD = re.compile(r'(?:unknown|duplicate) field "([^"]+)"')
_NO_PERMISSION = re.compile(r"\bcannot (?:create|patch|get|list) (?:resource|path)\b")


@dataclass(frozen=True)
class Accepted:
    """The API server would take the resource; `exists` where it has one of that name."""

    exists: bool = False


@dataclass(frozen=True)
class Rejected:
    """The API server, or an admission webhook behind it, would refuse the resource."""

    code: int
    message: str
    causes: tuple[tuple[str, str], ...] = ()  # field path (empty where none is named) and what is wrong there


def dry_run(api: ApiServer, document: Json, namespace: str) -> Accepted | Rejected | Unanswered:
    """Creates a resource as a dry run, or applies it where one of its name exists.

    It creates first, so that a user who may only create gets an answer for a new resource.
    """
    of, name = Collection(document["apiVersion"], document["kind"], namespace), document["metadata"].get("name")
    created = api.dry_run("POST", of.path, {}, document)
    if isinstance(created, Unanswered) or created[0] != 409 or not name:
        return _verdict(created, of.needs("create"), exists=False)
    applied = api.dry_run("PATCH", of.member(name), {"fieldManager": "seatrial", "force": "true"}, document)
    return _verdict(applied, of.needs("patch"), exists=True)


def _verdict(
    given: tuple[int, Json | None] | Unanswered, needs: str, *, exists: bool
) -> Accepted | Rejected | Unanswered:
    """What the answer to a dry run means. `needs` is the permission for it, `exists` what an acceptance says."""
    if isinstance(given, Unanswered):
        return given
    code, answer = given
    if code in (200, 201):
        return parsed(lambda _: Accepted(exists), answer)
    if answer is None or answer.get("kind") != "Status":
        return refused(code, needs)
    found = parsed(lambda status: rejected(code, status), answer)
    if found is None and (code == 400 or code >= 500):  # a webhook without dry runs, or without an answer
        return Unanswered(f"{code}: {clean(str(answer.get('message')), 200)}")
    return found or refused(code, needs)


def rejected(code: int, status: Json) -> Rejected | None:
    """A Status that refuses a resource; None where it refuses the request itself, such as for a missing permission."""
    message = str(status.get("message") or "")
    if code in (401, 409, 429) or code >= 500 or (code == 403 and _NO_PERMISSION.search(message)):
        return None
    if "does not support dry run" in message:  # a webhook with side effects
        return None
    details = status.get("details") or {}
    causes = [(c.get("field") or "", c.get("message") or "") for c in details.get("causes") or ()]
    if not causes:
        causes = [(path, message) for path in _UNKNOWN_FIELD.findall(message)]
    return Rejected(code, message, tuple(dict.fromkeys(causes)))
