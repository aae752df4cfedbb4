"""A Kubernetes cluster, asked over HTTP: whatever speaks to one does so through here.

`connect` finds it, `http` carries the requests, `failures` says why there is no answer, `cluster` has the questions.
What an answer is, and how it is read from the API's JSON, is one module a topic: `pods`, `nodes`, `storage`, `limits`,
`definitions`, `kuberay`, `dry_run`. A new question is a method of `cluster.LiveCluster`, and a type where it needs one;
who asks it says so in a protocol of its own.
"""

from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]  # an object as the API sends it
