"""The operator of the job `ingest`: it starts Spark only if something is new, and succeeds although a cluster failed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from spark_jobs.settings import PROJECT

if TYPE_CHECKING:
    from airflow.sdk import Context


class IngestOperator(SparkSubmitOperator):
    """Submit `spark_jobs/jobs/ingest.py` in client mode, if the job `advance` says that there is work for it.

    A broker that is down fails neither the task, whose retries would repeat the work of all clusters, nor what comes after
    it. The XCom `failures` has the failed clusters: name to the reasons.
    """

    def execute(self, context: Context) -> None:
        with NamedTemporaryFile("r", suffix=".json") as failures:
            self.application_args = [*(self.application_args or []), "--failures", failures.name]
            if not self._is_nothing_new():
                super().execute(context)
            context["ti"].xcom_push("failures", json.load(failures))

    def _is_nothing_new(self) -> bool:
        """Run the job `advance` with the arguments and secrets of the job; if it fails, the job says why, or mends it."""
        done = subprocess.run(
            [sys.executable, "-m", "spark_jobs.jobs.advance", *(self.application_args or [])],
            cwd=PROJECT,
            env=os.environ | (self.env_vars or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for line in done.stdout.splitlines():
            self.log.info(line)
        return done.returncode == 0
