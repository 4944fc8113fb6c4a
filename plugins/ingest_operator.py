"""The operator of the job `ingest`: it starts Spark only if something is new, and succeeds although a cluster failed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException

from spark_jobs.settings import PROJECT

if TYPE_CHECKING:
    from airflow.sdk import Context

# Facts of brokers have a limit of their own, and so has the wait for their answers; this one is for a process that hangs.
SECONDS = 600


class IngestOperator(SparkSubmitOperator):
    """Submit `spark_jobs/jobs/ingest.py` in client mode, if the job `advance` says that there is work for it.

    A broker that is down fails neither the task, whose retries would repeat the work of all clusters, nor what comes after
    it. The XCom `failures` has the failed clusters: name to the reasons.
    """

    _advance: subprocess.Popen[str] | None = None
    _is_killed = False

    def execute(self, context: Context) -> None:
        with NamedTemporaryFile("r", suffix=".json") as failures:
            self.application_args = [*(self.application_args or []), "--failures", failures.name]
            is_nothing_new = self._is_nothing_new()
            if self._is_killed:
                raise AirflowException("the task was ended before it submitted the job")
            if not is_nothing_new:
                super().execute(context)
            context["ti"].xcom_push("failures", json.load(failures))

    def on_kill(self) -> None:
        self._is_killed = True
        if self._advance is not None:
            self._advance.kill()
        super().on_kill()

    def _is_nothing_new(self) -> bool:
        """Run the job `advance` with the arguments and secrets of the job; if it fails, the Spark job runs and reports why."""
        self._advance = subprocess.Popen(
            [sys.executable, "-m", "spark_jobs.jobs.advance", *(self.application_args or [])],
            cwd=PROJECT,
            env=os.environ | (self.env_vars or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            output, _ = self._advance.communicate(timeout=SECONDS)
        except BaseException as error:  # the timeout of the task, too: nothing may publish after it
            self._advance.kill()
            output, _ = self._advance.communicate()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
        for line in output.splitlines():
            self.log.info(line)
        return self._advance.returncode == 0
