"""The operator of the job `ingest`: it succeeds although a cluster failed, and says which."""

from __future__ import annotations

import json
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class IngestOperator(SparkSubmitOperator):
    """Submit `spark_jobs/jobs/ingest.py` in client mode.

    A broker that is down fails neither the task, whose retries would repeat the work of all clusters, nor what comes after
    it. The XCom `failures` has the failed clusters: name to the reasons.
    """

    def execute(self, context: Context) -> None:
        with NamedTemporaryFile("r", suffix=".json") as failures:
            self.application_args = [*(self.application_args or []), "--failures", failures.name]
            super().execute(context)
            context["ti"].xcom_push("failures", json.load(failures))
