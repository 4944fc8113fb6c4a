"""The operator that submits a job to Spark in client mode, whatever the master."""

from __future__ import annotations

from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator


class ClientModeHook(SparkSubmitHook):
    """Runs `spark-submit` in client mode, with the variables of the job in its environment and nowhere else.

    The driver is then a child of the task. `SparkSubmitHook` reads from the name of the master that a driver may run elsewhere:
    on YARN it puts the variables, which have secrets, on the command line, and for each master with "k8s" in its address it
    needs the provider of Kubernetes.
    """

    def _resolve_connection(self) -> dict[str, Any]:
        connection = super()._resolve_connection()
        if connection["deploy_mode"] not in (None, "client"):
            raise ValueError(
                f"the connection {self._conn_id} has deploy-mode {connection['deploy_mode']}: the jobs run in client mode only; "
                "remove deploy-mode from its extra"
            )
        self._master = connection["master"]
        return connection | {"master": "of client mode"}

    def _build_spark_common_args(self) -> list[str]:
        found: list[str] = super()._build_spark_common_args()
        found[found.index("--master") + 1] = self._master
        return found


class ClientModeOperator(SparkSubmitOperator):
    """A `SparkSubmitOperator` in client mode; it takes the arguments of `spark_job`, and `application_args` and `env_vars`."""

    def _get_hook(self) -> SparkSubmitHook:
        return ClientModeHook(
            conf=self.conf,
            conn_id=self._conn_id,
            name=self.name,
            application_args=self.application_args,
            env_vars=self.env_vars,
        )
