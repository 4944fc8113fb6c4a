"""The operators of jobs that start Spark only if they have something to do, and no driver runs that could do it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException, AirflowRuntimeError

from plugins.submit_operator import ClientModeOperator
from spark_jobs.driver.client import BUSY_SECONDS, Client, DriverEndedError
from spark_jobs.process.exit_codes import WORK
from spark_jobs.settings import PROJECT, Settings

if TYPE_CHECKING:
    from airflow.sdk import Context

# For a process that hangs; what it waits for, such as brokers, has limits of its own.
SECONDS = 600


class SparkUnlessIdleOperator(ClientModeOperator):
    """Submit a job in client mode, unless a job without Spark has done what there was to do, or a driver that stays runs the job.

    Args:
        idle_job: module of the job without Spark. It gets the arguments and secrets of the job, and ends with 0 or, if the Spark
            job has work to do, with `spark_jobs.jobs.run.WORK`. If it fails, that is logged, and the Spark job runs.
    """

    _process: subprocess.Popen[str] | None = None
    _driver: Client | None = None
    _is_killed = False

    def __init__(self, *, idle_job: str, busy_seconds: float = BUSY_SECONDS, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.idle_job = idle_job
        self.busy_seconds = busy_seconds

    def execute(self, context: Context) -> None:
        is_done = not self.has_work(context) and self._is_done_without_spark()
        if self._is_killed:
            raise AirflowException("the task was ended before it submitted the job")
        if not is_done and not self._is_done_by_driver():
            super().execute(context)

    def has_work(self, context: Context) -> bool:
        """Whether the run was started because there is something to do, so that nobody has to look."""
        return False

    def on_kill(self) -> None:
        self._is_killed = True
        if self._process is not None:
            self._process.kill()
        if self._driver is not None:
            self._driver.close()
        super().on_kill()

    def _is_done_by_driver(self) -> bool:
        """Let the driver that `make up` keeps run the job; False if it does not.

        Raises:
            AirflowException: the job failed there.
        """
        job = f"spark_jobs.jobs.{Path(self.application).stem}"
        self._driver = Client(Settings().home)
        try:
            code = self._driver.run(
                job, self.application_args or [], self.env_vars or {}, self.log.info, self.busy_seconds
            )
        except DriverEndedError as error:
            raise AirflowException(str(error)) from error
        if code:
            raise AirflowException(f"{job} ended with {code}: its output is above")
        return code == 0

    def _is_done_without_spark(self) -> bool:
        self._process = subprocess.Popen(
            [sys.executable, "-m", self.idle_job, *(self.application_args or [])],
            cwd=PROJECT,
            env=os.environ | (self.env_vars or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            output, _ = self._process.communicate(timeout=SECONDS)
        except BaseException as error:  # the timeout of the task, too: nothing may publish after it
            self._process.kill()
            output, _ = self._process.communicate()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
        for line in output.splitlines():
            self.log.info(line)
        code = self._process.returncode
        if code not in (0, WORK):
            self.log.error(
                "%s ended with %s, at most %s s after its start: Spark is started",
                self.idle_job,
                code,
                SECONDS,
            )
        return code == 0


class IngestOperator(SparkUnlessIdleOperator):
    """Run the job `ingest`, and succeed although a cluster failed.

    A broker that is down fails neither the task, whose retries would repeat the work of all clusters, nor what comes after
    it. The XCom `failures` has the failed clusters: name to the reasons.

    Args:
        with_marts_of: the job builds the marts of few records, too, unless this DAG, which builds them otherwise, is paused.
            None: it builds none.
    """

    def __init__(self, *, with_marts_of: str | None = None, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.with_marts_of = with_marts_of

    def execute(self, context: Context) -> None:
        with NamedTemporaryFile("r", suffix=".json") as failures:
            self.application_args = [*(self.application_args or []), "--failures", failures.name]
            if self.with_marts_of and not self._is_paused(self.with_marts_of, context):
                self.application_args.append("--marts")
            super().execute(context)
            context["ti"].xcom_push("failures", json.load(failures))

    def has_work(self, context: Context) -> bool:
        """New messages have started the run."""
        return context["dag_run"].run_type == "asset_triggered"

    def _is_paused(self, dag_id: str, context: Context) -> bool:
        try:
            paused = context["ti"].get_dag(dag_id).is_paused
        except AirflowRuntimeError as error:  # Airflow has not parsed its file yet
            self.log.warning("no marts are built here, as the DAG %s is not known: %s", dag_id, error)
            return True
        if paused:
            self.log.info("no marts are built, as the DAG %s is paused", dag_id)
        return paused
