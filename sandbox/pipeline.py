"""Run the DAGs once on this machine, without an Airflow server: what `make demo` and `make run` do.

`python -m sandbox.pipeline --namesrv host:port` is `make run`: the user's own cluster, everything
else below `$TRACE_HOME`.
"""

from __future__ import annotations

import argparse
import base64
import json
import logging
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import IO, NoReturn

from sandbox import home_lock, leash
from sandbox.secret_file import secret
from spark_jobs.home import keep_private
from spark_jobs.settings import PROJECT, Cluster, Settings

log = logging.getLogger(__name__)
POOLS = {
    "lake_publish": {"slots": 1, "description": "one writer at a time publishes raw and events"},
    "lake_marts": {"slots": 1, "description": "one build of the marts at a time"},
}
DAGS = ("trace_ingest", "trace_marts")
STOPPED = "stopped in the middle: nothing is lost, the next run goes on from what is published"


def airflow_environment(settings: Settings) -> dict[str, str]:
    """The variables under which Airflow and its tasks run, everything below `$TRACE_HOME/airflow`."""
    home = settings.home / "airflow"
    return os.environ | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
        # Airflow sets the modes of its logs itself, whatever the umask.
        "AIRFLOW__LOGGING__FILE_TASK_HANDLER_NEW_FOLDER_PERMISSIONS": "0o700",
        "AIRFLOW__LOGGING__FILE_TASK_HANDLER_NEW_FILE_PERMISSIONS": "0o600",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": settings.spark_master}),
        "TRACE_HOME": str(settings.home),
        "TRACE_CLUSTERS": json.dumps([cluster.model_dump() for cluster in settings.clusters]),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        # The second holds the package metadata of the connection type.
        "PYTHONPATH": f"{PROJECT}{os.pathsep}{PROJECT / 'plugins'}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        **_lineage(settings),
    }


def _lineage(settings: Settings) -> dict[str, str]:
    """What Airflow's OpenLineage provider is told; without a sink it is off."""
    if settings.lineage.url is None:
        return {"AIRFLOW__OPENLINEAGE__DISABLED": "True"}
    sink = settings.lineage
    transport = {"type": "http", "url": sink.url, "timeout": sink.timeout_seconds, "retry": {"total": 1}}
    return {
        "AIRFLOW__OPENLINEAGE__DISABLED": "False",
        "AIRFLOW__OPENLINEAGE__NAMESPACE": settings.environment,
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
        # A Spark job's events then name the task that started it.
        "AIRFLOW__OPENLINEAGE__SPARK_INJECT_PARENT_JOB_INFO": "True",
    }


def refuse_wrong_lake(settings: Settings) -> None:
    """End where the lake is not the one that the settings mean; a catalog that is away is for the jobs to report.

    Raises:
        SystemExit: it is another lake, or a copy; the message says what to do.
    """
    from spark_jobs.catalog import lake
    from spark_jobs.lake_identity import WrongLakeError

    with suppress(Exception):
        try:
            lake(settings)
        except WrongLakeError as error:
            sys.exit(f"failed: {error}")


def prepare(settings: Settings) -> dict[str, str]:
    """Make Airflow's database and pools once; returns the environment."""
    keep_private(settings.home)
    environment = airflow_environment(settings)
    home = Path(environment["AIRFLOW_HOME"])
    home.mkdir(parents=True, exist_ok=True)
    # With it Airflow encrypts the secrets of connections in its database.
    key = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
    environment["AIRFLOW__CORE__FERNET_KEY"] = secret(home / "fernet-key", key)
    done = home / f"prepared-{version('apache-airflow')}"
    if not done.exists():
        migrate(environment)
        done.touch()
    return environment


def migrate(environment: Mapping[str, str]) -> None:
    """Make or upgrade Airflow's database, and its pools; raises SystemExit."""
    with tempfile.TemporaryDirectory() as folder:
        pools = Path(folder) / "pools.json"
        pools.write_text(json.dumps(POOLS))
        for arguments in (["db", "migrate"], ["pools", "import", str(pools)]):
            made = subprocess.run(["airflow", *arguments], env=environment, capture_output=True, text=True)
            if made.returncode:
                sys.exit(f"airflow {' '.join(arguments)} failed:\n{(made.stdout + made.stderr)[-3000:]}")


def fail_left_over_runs(environment: Mapping[str, str]) -> None:
    """Mark as failed what a killed `make run` left in Airflow's database, before a scheduler resumes it.

    Raises:
        RuntimeError: the database cannot be read or written.
    """
    command = [sys.executable, "-m", "sandbox.left_over_runs"]
    done = subprocess.run(command, env=environment, cwd=PROJECT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(
            f"runs that were left over could not be failed:\n{(done.stdout + done.stderr)[-3000:]}"
        )
    for line in done.stdout.splitlines():
        if line.startswith("marked as failed"):
            log.warning("%s", line)


def wait_for_grace(settings: Settings) -> None:
    """Wait until the youngest message is older than the grace: before that none counts as lost."""
    time.sleep(settings.limits.grace_seconds + settings.extract.margin_seconds)


def run(settings: Settings, lock: IO[str]) -> None:
    """Run each DAG once with `airflow dags test`, its log below `$TRACE_HOME/logs`, and show the marts.

    They are built and shown even where a cluster or queue failed: with what was read of the others.

    Args:
        settings: the clusters and `TRACE_HOME`.
        lock: of `TRACE_HOME` (`home_lock.used_by`); Airflow holds it as well, until it has ended.

    Raises:
        SystemExit: a DAG run failed; the message names its log and shows the end.
    """
    from sandbox import show  # it loads pyiceberg, which the supervisor of `make up` has no use for

    environment, logs = prepare(settings), settings.home / "logs"
    failed = [message for dag in DAGS if (message := _run_dag(dag, logs, environment, lock))]
    show.marts(settings)
    if failed:
        sys.exit("\n\n".join(failed))


def _run_dag(dag: str, logs: Path, environment: dict[str, str], lock: IO[str]) -> str | None:
    """Run one DAG; returns what to say of a failure."""
    logs.mkdir(parents=True, exist_ok=True)
    log = logs / f"{dag}.log"
    print(f"airflow dags test {dag}  (log: {log})", flush=True)
    started = time.monotonic()
    with log.open("w") as out:
        code = _supervised(["airflow", "dags", "test", dag], environment, out, lock)
    print(f"  {'FAILED' if code else 'done'} after {time.monotonic() - started:.0f} s", flush=True)
    if not code:
        return None
    lines = [line[:300] for line in log.read_text(errors="replace").splitlines()]
    return "\n".join([*lines[-40:], f"DAG {dag} failed: the whole log is in {log}"])


def _supervised(command: list[str], environment: dict[str, str], out: IO[str], lock: IO[str]) -> int:
    """Run a command that takes everything it started with it, however it or this process ends."""
    process = leash.spawn(
        command, env=environment, stdout=out, stderr=subprocess.STDOUT, pass_fds=(lock.fileno(),)
    )
    try:
        return process.wait()
    finally:
        leash.end(process, grace_seconds=10)


def stopped() -> NoReturn:
    """Say so, and exit as a command does that Ctrl-C ended."""
    print(STOPPED, file=sys.stderr)
    sys.exit(130)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--namesrv", help="host:port, several with ;  (none: the clusters in the settings)")
    parser.add_argument("--topic", help="trace topics, several with a comma")
    parser.add_argument("--cluster", default="default", help="the name that the cluster gets in the tables")
    parser.add_argument("--credentials-env", help="prefix of the variables with access and secret key")
    args = parser.parse_args(argv)
    settings = Settings()
    if args.namesrv:
        given = {
            "name": args.cluster,
            "namesrv": args.namesrv,
            "credentials_env": args.credentials_env or None,
        }
        if args.topic:
            given["trace_topics"] = args.topic.split(",")
        settings = settings.model_copy(update={"clusters": [Cluster.model_validate(given)]})
    if not settings.clusters:
        sys.exit("say which cluster: make run NAMESRV=host:port, or name a settings file in TRACE_SETTINGS")
    keep_private(settings.home)
    refuse_wrong_lake(settings)
    try:
        with home_lock.used_by("make run", settings.home) as lock:
            run(settings, lock)
    except home_lock.HomeInUseError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        stopped()
