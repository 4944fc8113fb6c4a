"""How a DAG submits a job of `spark_jobs/jobs` to Spark."""

from __future__ import annotations

from typing import Any

from spark_jobs.lake.deployment import submit_conf
from spark_jobs.settings import PROJECT, Settings


def spark_job(job: str, pool: str) -> dict[str, Any]:
    """The arguments of a `ClientModeOperator` that runs `spark_jobs/jobs/<job>.py` in a slot of the pool."""
    return {
        "name": f"trace {job}",
        "application": str(PROJECT / "spark_jobs" / "jobs" / f"{job}.py"),
        "conn_id": "spark_default",
        "conf": submit_conf(Settings()),
        "pool": pool,
    }
