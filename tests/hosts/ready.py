"""`python ready.py LIMIT_S [--dashboard] HEAD WORKER…`: waits, on the head, until a Ray over these addresses is whole.

Whole: the GCS has each address as a node that is alive; with `--dashboard`, the dashboard answers about jobs, and so does
each host's agent, which starts them. Prints what each has answered last; the exit status is 1 if that was not enough.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from pathlib import Path
from urllib.error import HTTPError

POLL_S, ANSWER_S = 0.2, 20.0
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
OK = "200"


def main(limit_s: float, dashboard: bool, addresses: list[str]) -> int:
    import ray

    deadline = time.monotonic() + limit_s
    ray.init("auto", log_to_driver=False, configure_logging=False)
    places = [f"http://{address}:52365/api/local_raylet_healthz" for address in addresses]
    places = [f"http://{addresses[0]}:8265/api/jobs/", *places] if dashboard else []
    while True:
        nodes = ray.nodes()
        alive = {node["NodeManagerAddress"] for node in nodes if node["Alive"]}
        answers = {place: answer(place) for place in places}
        whole = alive >= set(addresses) and all(said == OK for said in answers.values())
        if whole or time.monotonic() >= deadline:
            break
        time.sleep(POLL_S)
    for address in addresses:
        said = [{key: node[key] for key in ("Alive", "Resources")} for node in nodes if address in str(node)]
        print(f"GCS about {address}: {json.dumps(said) if said else 'no such node'}")
    for place, said in answers.items():
        print(f"{place}: {said}")
    return 0 if whole else 1


def answer(place: str) -> str:
    """The status with what was said beside it, or why there is none."""
    token = (Path.home() / ".ray/auth_token").read_text().strip()
    request = urllib.request.Request(place, headers={"Authorization": f"Bearer {token}"})
    try:
        with DIRECT.open(request, timeout=ANSWER_S) as said:
            return str(said.status)
    except HTTPError as error:
        return f"{error.code} {error.read()[:300]!r}"
    except OSError as error:
        return str(error)


if __name__ == "__main__":
    limit, *rest = sys.argv[1:]
    sys.exit(main(float(limit), "--dashboard" in rest, [word for word in rest if word != "--dashboard"]))
