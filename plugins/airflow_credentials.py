"""The secrets of a cluster for an Airflow task: from a connection, into the variables that the job reads."""

from __future__ import annotations

from spark_jobs.settings import Cluster


def credentials(cluster: Cluster) -> dict[str, str]:
    """Templates of the variables with the cluster's secrets; Airflow masks their rendered values.

    Without the connection they are empty: the job reports the missing secret, and continues with what needs none.
    """
    if not cluster.airflow_conn_id:
        return {}
    found = f"{{% set found = conn.get('{cluster.airflow_conn_id}') %}}"
    values = {
        "ACCESS_KEY": "found.login",
        "SECRET_KEY": "found.password",
        "SECURITY_TOKEN": "found.extra_dejson.get('security_token')",
    }
    return {
        f"{cluster.credentials_env}_{name}": f"{found}{{{{ {value} or '' if found else '' }}}}"
        for name, value in values.items()
    }
