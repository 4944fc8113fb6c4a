"""DAG runs and pages of a running Airflow, over its REST API."""

from __future__ import annotations

import time
from typing import Any

import httpx

from deploy.airflow_components import Airflow


class AirflowApi(Airflow):
    """What the tests ask of an Airflow, beside what `make up` does."""

    def health(self) -> dict[str, str]:
        """Status by component; all are `no answer` if the api-server does not answer."""
        parts = ("metadatabase", "scheduler", "dag_processor", "triggerer")
        if (answer := self.monitor()) is None:
            return dict.fromkeys(("api-server", *parts), "no answer")
        return {"api-server": "healthy"} | {part: answer[part]["status"] or "absent" for part in parts}

    def trigger(self, dag_id: str, **params: Any) -> str:
        """Start a run with params of the DAG; return its id."""
        asked = {"logical_date": None, "conf": params}
        return self.call("POST", f"/api/v2/dags/{dag_id}/dagRuns", json=asked)["dag_run_id"]

    def pause(self, dag_id: str, is_paused: bool = True) -> None:
        self.call("PATCH", f"/api/v2/dags/{dag_id}", json={"is_paused": is_paused})

    def queue(self, dag_id: str, run_id: str) -> None:
        """Let a run that has ended wait for its start again."""
        self.call("PATCH", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}", json={"state": "queued"})

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        return self.call("GET", f"/api/v2/dags/{dag_id}/dagRuns")["dag_runs"]

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str]:
        found = self.call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances")["task_instances"]
        return {task["task_id"]: task["state"] for task in found}

    def tries(self, dag_id: str, run_id: str, task_id: str) -> int:
        return self.call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}")[
            "try_number"
        ]

    def wait(self, dag_id: str, run_id: str, seconds: float) -> str:
        """The state in which a run ended; raises TimeoutError if it has not."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            state = next(run["state"] for run in self.runs(dag_id) if run["dag_run_id"] == run_id)
            if state in ("success", "failed"):
                return state
            time.sleep(1)
        raise TimeoutError(f"run {run_id} of {dag_id} has not ended after {seconds:.0f} s")

    def wait_for_success(self, dag_id: str, run_id: str, seconds: float) -> None:
        """Raises AssertionError with the logs of the failed tasks if the run fails."""
        if self.wait(dag_id, run_id, seconds) != "success":
            raise AssertionError(f"run {run_id} of {dag_id} failed: {self._failed_tasks(dag_id, run_id)}")

    def _failed_tasks(self, dag_id: str, run_id: str) -> dict[str, str]:
        """The end of the log of the last try of each failed task."""
        tasks = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances"
        logs = {}
        for task in self.call("GET", tasks)["task_instances"]:
            if task["state"] == "failed":
                log = f"{tasks}/{task['task_id']}/logs/{task['try_number']}"
                lines = self.call("GET", log, params={"map_index": task["map_index"]})["content"]
                logs[f"{task['task_id']}[{task['map_index']}]"] = "\n".join(str(line) for line in lines[-40:])
        return logs

    def page(self, path: str) -> httpx.Response:
        """Any page of the server, whatever its status."""
        return self.client.get(path)
