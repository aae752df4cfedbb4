"""What Ray's dashboard says about a running job, over its HTTP API, read-only."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from seatrial.driver import ray_internals
from seatrial.errors import InputError
from seatrial.launch.jobs_dashboard import READ_S, Dashboard, NoAnswer

MOST = 10_000  # the state API's own limit for one answer


class StateDashboard(Dashboard):
    """A dashboard with Ray's state API and Ray Train's: jobs, actors, nodes, runs. Raises InputError, NoAnswer."""

    def listed(self) -> list[dict[str, Any]]:
        """Every job that Ray knows, submitted or run by a driver, as its API shows it."""
        found = self._json("GET", "/api/jobs/", READ_S)
        return [job for job in found if isinstance(job, dict)] if isinstance(found, list) else []

    def workers(self) -> list[dict[str, Any]]:
        """Ray Train's workers that are alive: `{actor_id, job_id, node_id, pid, …}`."""
        return self._alive(ray_internals.WORKER_CLASS)

    def controllers(self) -> list[dict[str, Any]]:
        """Ray Train's controllers that are alive: their hosts have the logs about attempts."""
        return self._alive(ray_internals.CONTROLLER_CLASS)

    def _alive(self, kind: str) -> list[dict[str, Any]]:
        query = {
            "filter_keys": ["class_name", "state"],
            "filter_predicates": ["=", "="],
            "filter_values": [kind, "ALIVE"],
        }
        return [actor for actor in self._state("actors", query) if actor.get("node_id") and actor.get("pid")]

    def nodes(self) -> dict[str, dict[str, str]]:
        """Address and name of each node by its Ray id."""
        return {
            str(row["node_id"]): {"ip": str(row.get("node_ip")), "name": str(row.get("node_name"))}
            for row in self._state("nodes", {})
            if row.get("node_id")
        }

    def _state(self, what: str, query: dict[str, Any]) -> list[dict[str, Any]]:
        answer = self._json("GET", f"/api/v0/{what}?{urlencode({'limit': MOST, **query}, doseq=True)}", READ_S)
        try:
            return [row for row in answer["data"]["result"]["result"] if isinstance(row, dict)]
        except (KeyError, TypeError):
            raise InputError(f"{self.address} lists its {what} in another form than Ray's state API") from None

    def train_runs(self, job: str) -> dict[str, Any]:
        """`{"runs": […]}` of a job from Ray Train's state, or `{"unknown": why}`: Ray keeps it only on request."""
        try:
            answer = self._json("GET", ray_internals.STATE_ROUTE, READ_S)
            runs = [_run(run) for run in answer["train_runs"] if run["job_id"] == job]
        except (InputError, NoAnswer) as error:
            off = ray_internals.STATE_TRACKING  # Ray's own answer names it where Ray Train keeps no state
            why = f"the job was started without {off}=1" if off in str(error) else str(error)
            return {"unknown": f"Ray Train keeps no state: {why}"}
        except (ValueError, KeyError, TypeError, AttributeError):
            return {"unknown": "Ray Train's state came in another form than Ray 2.58's"}
        return {"runs": runs} if runs else {"unknown": "Ray Train's state has no run of this job"}


def _run(run: dict[str, Any]) -> dict[str, Any]:
    settings = run.get("run_settings") or {}
    attempts = sorted(run["attempts"], key=lambda attempt: int(attempt["start_time_ns"]))
    return {
        "id": str(run["id"]),
        "name": str(run["name"]),
        "status": str(run["status"]),
        "storage_path": (settings.get("run_config") or {}).get("storage_path"),
        "attempts": [
            {
                "id": str(attempt["attempt_id"]),
                "status": str(attempt["status"]),
                "started_ns": str(attempt["start_time_ns"]),
                "workers": [
                    {name: worker.get(name) for name in ("world_rank", "local_rank", "node_id", "pid", "gpu_ids")}
                    for worker in attempt["workers"]
                ],
            }
            for attempt in attempts
        ],
    }
