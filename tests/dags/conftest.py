from __future__ import annotations

import pytest

from deploy.airflow_environment import airflow_environment
from spark_jobs.settings import PROJECT, Cluster, Settings

SCHEDULES = {
    "ingest": "7 * * * *",
    "marts": "8 * * * *",
    "maintenance": "9 4 * * *",
    "rebuild": "10 * * * *",
}


@pytest.fixture(scope="package")
def dags(tmp_path_factory):
    """The DAGs by id, as Airflow parses them for two clusters."""
    connected = {"credentials_env": "C2", "airflow_conn_id": "rocketmq_c2"}
    clusters = [
        Cluster(name="c1", namesrv=["127.0.0.1:9876"]),
        Cluster(name="c2", namesrv=["127.0.0.1:9876"], **connected),
    ]
    settings = Settings(home=tmp_path_factory.mktemp("airflow"), clusters=clusters)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in airflow_environment(settings).items():
            patch.setenv(name, value)
        for name, value in (SCHEDULES | {"poll_seconds": "11"}).items():
            patch.setenv(f"TRACE_SCHEDULES__{name.upper()}", value)
        patch.setenv("TRACE_FRESHNESS__SECONDS", "61")
        patch.setenv("TRACE_FRESHNESS__MESSAGES", "500")
        # Airflow reads its home when it is first imported.
        from airflow.dag_processing.dagbag import DagBag

        bag = DagBag(str(PROJECT / "dags"))
    assert bag.import_errors == {}
    return bag.dags
