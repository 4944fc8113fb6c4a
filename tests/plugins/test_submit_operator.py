"""Jobs are submitted in client mode, and their secrets are in the environment of `spark-submit` only; Spark is in tests/e2e."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_jobs.lake.deployment import airflow_connection
from spark_jobs.settings_deployment import Spark


def hook(airflow_home, monkeypatch: pytest.MonkeyPatch, connection: str) -> Any:
    from plugins.submit_operator import ClientModeOperator

    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", connection)
    return ClientModeOperator(
        task_id="ingest",
        name="trace ingest",
        application="job.py",
        conn_id="spark_default",
        conf={"spark.driver.memory": "2g"},
        application_args=["--run-id", "r"],
        env_vars={"SHOP_SECRET_KEY": "hidden"},
    )._get_hook()


@pytest.mark.parametrize(
    "master", ["local[2]", "yarn", "spark://k8s-node-1:7077", "k8s://https://kubernetes.default.svc:443"]
)
def test_secrets_are_not_on_the_command_line(airflow_home, monkeypatch: pytest.MonkeyPatch, master: str):
    settings = airflow_home.model_copy(update={"spark": Spark.model_construct(master=master)})
    found = hook(airflow_home, monkeypatch, airflow_connection(settings))
    command = found._build_spark_submit_command("job.py")
    assert command == [
        *("spark-submit", "--master", master, "--conf", "spark.driver.memory=2g"),
        *("--name", "trace ingest", "job.py", "--run-id", "r"),
    ]
    assert found._env == {"SHOP_SECRET_KEY": "hidden"}
    assert not found._should_track_driver_status


def test_a_connection_of_cluster_mode_is_refused(airflow_home, monkeypatch: pytest.MonkeyPatch):
    connection = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
    with pytest.raises(ValueError, match="spark_default has deploy-mode cluster: the jobs run in client"):
        hook(airflow_home, monkeypatch, json.dumps(connection))
