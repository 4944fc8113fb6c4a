"""Airflow's environment: its variables, its database and its pools, all below `$TRACE_HOME/airflow`."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from deploy.secret_file import secret
from spark_jobs.lake.deployment import airflow_connection
from spark_jobs.process.home import keep_private
from spark_jobs.settings import PROJECT, Settings

log = logging.getLogger(__name__)
POOLS = {
    "lake_publish": {"slots": 1, "description": "one writer at a time publishes raw and events"},
    "lake_marts": {"slots": 1, "description": "one build of the marts at a time"},
    "lake_rebuild": {"slots": 1, "description": "a rebuild of changed models, beside the builds"},
}


def airflow_environment(settings: Settings) -> dict[str, str]:
    """The variables of Airflow and its tasks, with all state below `$TRACE_HOME/airflow`."""
    home = settings.home / "airflow"
    return os.environ | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
        # Airflow sets the modes of its logs itself, and ignores the umask.
        "AIRFLOW__LOGGING__FILE_TASK_HANDLER_NEW_FOLDER_PERMISSIONS": "0o700",
        "AIRFLOW__LOGGING__FILE_TASK_HANDLER_NEW_FILE_PERMISSIONS": "0o600",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "AIRFLOW_CONN_SPARK_DEFAULT": airflow_connection(settings),
        "TRACE_HOME": str(settings.home),
        "TRACE_CLUSTERS": json.dumps([cluster.model_dump() for cluster in settings.clusters]),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        # The second folder has the provider, with the package metadata by which Airflow finds it.
        "PYTHONPATH": f"{PROJECT}{os.pathsep}{PROJECT / 'provider'}",
        "PYSPARK_PYTHON": sys.executable,
        **({"SPARK_LOCAL_IP": "127.0.0.1"} if settings.spark.is_local else {}),
        **_lineage(settings),
    }


def _lineage(settings: Settings) -> dict[str, str]:
    """The settings of Airflow's OpenLineage provider; it is off without a sink."""
    if settings.lineage.url is None:
        return {"AIRFLOW__OPENLINEAGE__DISABLED": "True"}
    sink = settings.lineage
    transport = {"type": "http", "url": sink.url, "timeout": sink.timeout_seconds, "retry": {"total": 1}}
    return {
        "AIRFLOW__OPENLINEAGE__DISABLED": "False",
        "AIRFLOW__OPENLINEAGE__NAMESPACE": settings.environment,
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
        # The events of a Spark job then name its task.
        "AIRFLOW__OPENLINEAGE__SPARK_INJECT_PARENT_JOB_INFO": "True",
    }


def prepare(settings: Settings) -> dict[str, str]:
    """Create Airflow's database and pools, once per version of them; return the environment."""
    keep_private(settings.home)
    environment = airflow_environment(settings)
    home = Path(environment["AIRFLOW_HOME"])
    home.mkdir(parents=True, exist_ok=True)
    # Airflow uses it to encrypt the secrets of connections in its database.
    key = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
    environment["AIRFLOW__CORE__FERNET_KEY"] = secret(home / "fernet-key", key)
    pools = hashlib.sha256(json.dumps(POOLS, sort_keys=True).encode()).hexdigest()[:8]
    done = home / f"prepared-{version('apache-airflow')}-{pools}"
    if not done.exists():
        migrate(environment)
        done.touch()
    return environment


def migrate(environment: Mapping[str, str]) -> None:
    """Create or upgrade Airflow's database and pools; raises SystemExit."""
    with tempfile.TemporaryDirectory() as folder:
        pools = Path(folder) / "pools.json"
        pools.write_text(json.dumps(POOLS))
        for arguments in (["db", "migrate"], ["pools", "import", str(pools)]):
            done = subprocess.run(["airflow", *arguments], env=environment, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"airflow {' '.join(arguments)} failed:\n{(done.stdout + done.stderr)[-3000:]}")


def fail_left_over_runs(environment: Mapping[str, str]) -> None:
    """Mark the unfinished runs of a killed `make run` as failed, before a scheduler resumes them.

    Raises:
        RuntimeError: the database cannot be read or written.
    """
    command = [sys.executable, "-m", "deploy.left_over_runs"]
    done = subprocess.run(command, env=environment, cwd=PROJECT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(
            f"unfinished runs could not be marked as failed:\n{(done.stdout + done.stderr)[-3000:]}"
        )
    for line in done.stdout.splitlines():
        if line.startswith("marked as failed"):
            log.warning("%s", line)
