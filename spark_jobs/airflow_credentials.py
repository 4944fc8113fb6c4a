"""How a task of Airflow gets the secrets of a cluster: from a connection, into the variables that the job reads."""

from __future__ import annotations

from spark_jobs.settings import Cluster


def credentials(cluster: Cluster) -> dict[str, str]:
    """Templates of the variables that hold the cluster's secrets; Airflow masks what comes of them."""
    if not cluster.airflow_conn_id:
        return {}
    connection = f"conn.get('{cluster.airflow_conn_id}')"
    return {
        f"{cluster.credentials_env}_ACCESS_KEY": f"{{{{ {connection}.login }}}}",
        f"{cluster.credentials_env}_SECRET_KEY": f"{{{{ {connection}.password }}}}",
        f"{cluster.credentials_env}_SECURITY_TOKEN": f"{{{{ {connection}.extra_dejson.get('security_token', '') }}}}",
    }
