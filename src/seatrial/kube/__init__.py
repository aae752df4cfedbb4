"""A Kubernetes cluster over HTTP. Everything that talks to one goes through here.

`connect` chooses the cluster, `http` sends the requests, `failures` says why there is no answer, `collection` has paths
and permissions. The types of answers, and how they are read from the API's JSON, are one module a topic: `pods`,
`nodes`, `storage`, `limits`, `definitions`, `kuberay`.

`cluster.LiveCluster` has everything that can be asked. A new question is a method of it, and a type where it needs one.
A new verb is a module like `dry_run`: a function that gets `http.ApiServer` and returns values. Whoever asks declares
what it needs in a protocol of its own.
"""

from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]  # an object as the API sends it
