"""The pods of the Ray cluster that this process runs in, by its own service account: which image each really runs.

Within a pod, the API server's address, a token and its certificate authority are there for whoever reads them; KubeRay
says the cluster's name. Standard library only: the published image has no Kubernetes client.
"""

from __future__ import annotations

import json
import os
import ssl
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

from seatrial.errors import clean
from seatrial.events.schema import Environment

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TIMEOUT_S = 10.0
PAGE = 500
_CLUSTER = "RAY_CLUSTER_NAME"  # KubeRay sets it in every pod of a cluster


def layer(account: Path = ACCOUNT) -> Environment | None:
    """The environment layer `pods`; None outside Kubernetes. If pods cannot be read, its content says why."""
    if "KUBERNETES_SERVICE_HOST" not in os.environ or _CLUSTER not in os.environ:
        return None
    return Environment(layer="pods", content=_read(account, os.environ[_CLUSTER]))


def _read(account: Path, cluster: str) -> dict[str, Any]:
    try:
        namespace, token = ((account / name).read_text().strip() for name in ("namespace", "token"))
        context = ssl.create_default_context(cafile=str(account / "ca.crt"))
    except OSError as error:
        return {"unknown": f"the pod's service account cannot be read: {error.strerror or error}"}
    try:
        return {"pods": [_pod(item) for item in _items(namespace, cluster, token, context)]}
    except HTTPError as error:
        with error:
            needs = f" (needs list pods in namespace {namespace})" if error.code == 403 else ""
            return {"unknown": f"the pods could not be listed: {error.code}{needs}"}
    except (URLError, OSError, HTTPException) as error:
        said = getattr(error, "reason", None) or error
        return {"unknown": f"the Kubernetes API does not answer: {clean(str(said), 160)}"}
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return {"unknown": "the Kubernetes API answered in another form than expected"}


def _items(namespace: str, cluster: str, token: str, context: ssl.SSLContext) -> list[dict[str, Any]]:
    """All pods of the cluster, page by page; where a page expires meanwhile (410), all of them in one piece."""
    fixed = {"labelSelector": f"ray.io/cluster={cluster}"}
    try:
        return _pages(namespace, token, context, {**fixed, "limit": str(PAGE)})
    except HTTPError as error:
        if error.code != 410:
            raise
        error.close()
    return _pages(namespace, token, context, fixed)


def _pages(namespace: str, token: str, context: ssl.SSLContext, query: dict[str, str]) -> list[dict[str, Any]]:
    opener = build_opener(ProxyHandler({}), HTTPSHandler(context=context))  # the API is beside us, not behind a proxy
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    where = f"https://{f'[{host}]' if ':' in host else host}:{port}/api/v1/namespaces/{quote(namespace, safe='')}/pods"
    found: list[dict[str, Any]] = []
    while True:
        request = Request(f"{where}?{urlencode(query)}", headers={"Authorization": f"Bearer {token}"})
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            page = json.loads(answer.read())
        found += page["items"]
        if not (more := page["metadata"].get("continue")):
            return found
        query = {**query, "continue": more}


def _pod(item: dict[str, Any]) -> dict[str, Any]:
    """By its Ray container, the first one; `image_id` is empty until the node has pulled it."""
    container, status = item["spec"]["containers"][0], item.get("status") or {}
    statuses = {each["name"]: each for each in status.get("containerStatuses") or ()}
    told: dict[str, Any] = statuses.get(container["name"]) or {}
    return {
        "name": str(item["metadata"]["name"]),
        "node": str(item["spec"].get("nodeName") or ""),
        "ip": str(status.get("podIP") or ""),
        "image": str(container.get("image") or ""),
        "image_id": str(told.get("imageID") or "").removeprefix("docker-pullable://"),
    }
