"""How a task of Airflow gets the secrets of a cluster: from a connection, into the variables that the job reads."""

from __future__ import annotations

from spark_jobs.settings import Cluster


def credentials(cluster: Cluster) -> dict[str, str]:
    """Templates of the variables that hold the cluster's secrets; Airflow masks what comes of them.

    A connection that is not there leaves them empty: the job then says which secret it lacks, and does what needs none.
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
