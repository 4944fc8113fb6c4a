"""Run the DAGs once on this machine, without an Airflow server, for `make demo` and `make run`.

`python -m deploy.run_once --namesrv host:port` is `make run`: it reads that cluster and writes below `$TRACE_HOME`.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any, NoReturn

from rich.console import Console

from deploy import child_process, dag_progress, home_lock
from deploy.airflow_environment import prepare
from deploy.preflight import exit_if_unreadable, exit_if_wrong_lake
from spark_jobs.process.home import keep_private
from spark_jobs.settings import Settings, load_settings

log = logging.getLogger(__name__)
_console = Console(highlight=False)
DAGS = ("trace_ingest", "trace_marts")
STOPPED = "stopped: nothing is lost, the next run continues from the last commit"


def run(settings: Settings, lock: IO[str]) -> None:
    """Run each DAG once with `airflow dags test`, and print the marts. The logs are below `$TRACE_HOME/logs`.

    The marts are built and printed even if a cluster or queue failed, from the data of the others.

    Args:
        settings: the clusters and `TRACE_HOME`.
        lock: of `TRACE_HOME` (`home_lock.used_by`); Airflow inherits it.

    Raises:
        SystemExit: a DAG run failed; the message names its log and shows the end.
    """
    from deploy import show  # it imports pyiceberg, which the supervisor of `make up` does not need

    environment, logs = prepare(settings), settings.home / "logs"
    failed = [message for dag in DAGS if (message := _run_dag(dag, logs, environment, lock))]
    try:
        show.marts(settings)
    except Exception:
        if not failed:  # what failed is probably why the marts cannot be shown
            raise
    if failed:
        sys.exit("\n\n".join(failed))


def _run_dag(dag: str, logs: Path, environment: dict[str, str], lock: IO[str]) -> str | None:
    """Run one DAG; return the message of a failure, or None. All that it started ends with it and with this process."""
    logs.mkdir(parents=True, exist_ok=True)
    log = logs / f"{dag}.log"
    print(f"airflow dags test {dag}  (log: {log})", flush=True)
    started = time.monotonic()
    with log.open("w") as out:
        process = child_process.spawn(
            ["airflow", "dags", "test", dag],
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
            pass_fds=(lock.fileno(),),
        )
        try:
            code = dag_progress.wait(process, dag, log, _console)
        finally:
            child_process.end(process, grace_seconds=10)
    print(f"  {'FAILED' if code else 'done'} after {time.monotonic() - started:.0f} s", flush=True)
    if not code:
        return None
    lines = [line[:300] for line in log.read_text(errors="replace").splitlines()]
    return "\n".join([*lines[-40:], f"DAG {dag} failed: the whole log is in {log}"])


def stopped() -> NoReturn:
    """Print `STOPPED`, and exit with the code of Ctrl-C."""
    print(STOPPED, file=sys.stderr)
    sys.exit(130)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--namesrv", help="host:port, separated by ;  (default: the clusters in the settings)"
    )
    parser.add_argument("--topic", help="trace topics, separated by commas")
    parser.add_argument("--cluster", default="default", help="name of the cluster in the tables")
    parser.add_argument("--credentials-env", help="prefix of the variables with access and secret key")
    args = parser.parse_args(argv)
    given: dict[str, Any] = {}
    if args.namesrv:
        cluster = {
            "name": args.cluster,
            "namesrv": args.namesrv,
            "credentials_env": args.credentials_env or None,
        }
        topics = {"trace_topics": args.topic.split(",")} if args.topic else {}
        given = {"clusters": [cluster | topics]}
    settings = load_settings(**given)
    if not settings.clusters:
        sys.exit("no cluster is given: make run NAMESRV=host:port, or name a settings file in TRACE_SETTINGS")
    keep_private(settings.home)
    exit_if_wrong_lake(settings)
    exit_if_unreadable(settings)
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
