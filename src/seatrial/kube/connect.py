"""Which cluster, with whose credentials. The only module that imports the `kubernetes` client."""

from __future__ import annotations

import os
import re

from seatrial.errors import InputError, clean
from seatrial.kube.cluster import LiveCluster
from seatrial.kube.http import ApiServer

TIMEOUT_S = 10.0
_NAMESPACE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"


def connect(context: str = "", timeout_s: float = TIMEOUT_S) -> LiveCluster:
    """The cluster of a kubeconfig context, by default the current one; in a pod without a kubeconfig, its own cluster.

    Each request has `timeout_s` seconds. Raises InputError where there is no client, or no such context.
    """
    try:
        from kubernetes import client, config
    except ImportError:
        fix = "pip install 'seatrial[kubernetes]'"
        raise InputError("kubernetes is not installed", field="context", fix=fix) from None
    where = os.environ.get("KUBECONFIG") or "~/.kube/config"
    try:
        if not context and "KUBERNETES_SERVICE_HOST" in os.environ and not _exists(where):
            found = client.Configuration()
            config.load_incluster_config(client_configuration=found)
            api, name, namespace = client.ApiClient(found), "the pod's own cluster", _own_namespace()
        else:
            every, active = config.list_kube_config_contexts(config_file=where)
            chosen = active if not context else next((each for each in every if each["name"] == context), None)
            if chosen is None:
                known = ", ".join(str(each["name"]) for each in every[:10])
                raise InputError(f"there is no context {clean(context)}", field="context", expected=f"one of {known}")
            api = config.new_client_from_config(config_file=where, context=chosen["name"], persist_config=False)
            name, namespace = chosen["name"], chosen["context"].get("namespace") or "default"
    except InputError:
        raise
    except Exception as error:  # the client raises its own errors, YAML's and the file's
        seen = f"no cluster to ask: {clean(' '.join(str(error).split()), 160)}"
        expected = f"{f'context {clean(context)}' if context else 'a current context'} in {clean(where, 160)}"
        fix = "set KUBECONFIG, or choose one with `kubectl config use-context`"
        raise InputError(seen, field="context", expected=expected, fix=fix) from None
    host = re.sub("//[^/@]*@", "//", api.configuration.host)  # without user and password
    return LiveCluster(ApiServer(api, timeout_s), f"{name} at {host}", namespace)


def _exists(where: str) -> bool:
    return any(os.path.exists(os.path.expanduser(path)) for path in where.split(os.pathsep))


def _own_namespace() -> str:
    with open(_NAMESPACE, encoding="utf-8") as file:
        return file.read().strip()
