"""Jobs of a deployment as processes, and what is seen while they run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace

import psutil
import psycopg2

from deploy import child_process
from sandbox.spark_cluster import Standalone
from spark_jobs.settings import PROJECT, Limits, Settings
from tests.cluster.s3 import Store
from tests.rocketmq.test_access import READER

CONNECTIONS = 20
SHOP, GUARDED = "shop", "guarded"
BODIES = 300  # trace messages that are written to each broker
PASSWORD = "postgres-password-4711"
BROKER_SECRETS = {"GUARDED_ACCESS_KEY": READER.access_key, "GUARDED_SECRET_KEY": READER.secret_key}
# Small JVMs: the machine of the tests has two cores.
SMALL = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m",
    "spark.sql.shuffle.partitions": "2",
}
# No state depends on the moment of the extraction, so that lakes can be compared.
AT_ONCE = Limits(
    grace_seconds=0,
    consume_timeout_seconds=0,
    retry_horizon_seconds=0,
    max_delay_seconds=0,
    backlog_seconds=0,
)


@dataclass(frozen=True)
class Job:
    """A job that has ended."""

    code: int
    output: str

    @property
    def failure(self) -> str:
        """The one line that says why it failed; Spark may log after it that executors disconnect."""
        (line,) = [line for line in self.output.splitlines() if line.startswith("failed: ")]
        return line


@dataclass(frozen=True)
class Deployment:
    """The settings of the jobs, and the servers behind them."""

    settings: Settings
    spark: Standalone
    store: Store
    postgres: tuple[str, int]

    def changed(self, **sections: object) -> Deployment:
        """The same servers with other settings."""
        return replace(self, settings=self.settings.model_copy(update=sections))

    @property
    def secrets(self) -> dict[str, str]:
        """Variables with the credentials of the catalog and of the warehouse."""
        return {
            "LAKE_USER": "postgres",
            "LAKE_PASSWORD": PASSWORD,
            "STORE_ACCESS_KEY_ID": self.store.key,
            "STORE_SECRET_ACCESS_KEY": self.store.secret,
        }

    def variables(self) -> dict[str, str]:
        """The settings and the secrets of the lake, as environment variables."""
        sections = self.settings.model_dump(
            mode="json", include={"catalog", "warehouse", "spark", "clusters", "extract", "limits"}
        )
        given = {
            f"TRACE_{name.upper()}": json.dumps(_without_none(value)) for name, value in sections.items()
        }
        return {**self.secrets, **given, "TRACE_HOME": str(self.settings.home)}

    def start(self, job: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start a job as a process that knows nothing but the settings and the secrets."""
        return self.start_module(f"spark_jobs.jobs.{job}", *arguments, **environment)

    def start_module(self, module: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """As `start`, of another module."""
        return child_process.spawn(
            [sys.executable, "-m", module, *arguments],
            env={
                **os.environ,
                **self.variables(),
                **BROKER_SECRETS,
                "PYTHONPATH": str(PROJECT),
                **environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, job: str, *arguments: str, **environment: str) -> Job:
        return finished(self.start(job, *arguments, **environment))


def finished(process: subprocess.Popen[str], seconds: float = 1800) -> Job:
    """Wait for the end of a job; it is ended if it takes longer."""
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        child_process.end(process, grace_seconds=5)
        raise
    return Job(process.returncode, output)


def _without_none(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_none(each) for key, each in value.items() if each is not None}
    return [_without_none(each) for each in value] if isinstance(value, list) else value


class Watch:
    """What is seen while jobs run: the connections to Postgres, and secrets on command lines."""

    def __init__(self, deployment: Deployment):
        self._address, self._stop = deployment.postgres, threading.Event()
        self._hidden = [PASSWORD, deployment.store.secret, BROKER_SECRETS["GUARDED_SECRET_KEY"]]
        self._pool = ThreadPoolExecutor(1)
        self.connections, self.on_command_lines = 0, set[str]()

    def __enter__(self) -> Watch:
        self._looking = self._pool.submit(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._looking.result()

    def _look(self) -> None:
        host, port = self._address
        with closing(psycopg2.connect(host=host, port=port, user="postgres", dbname="iceberg")) as connection:
            connection.autocommit = True
            cursor = connection.cursor()
            while not self._stop.wait(0.2):
                cursor.execute("select count(*) - 1 from pg_stat_activity where datname = 'iceberg'")
                self.connections = max(self.connections, cursor.fetchone()[0])
                for process in psutil.process_iter(["cmdline"]):
                    line = " ".join(process.info["cmdline"] or ())
                    self.on_command_lines |= {each for each in self._hidden if each in line}


def run(deployment: Deployment, *steps: tuple[str, ...]) -> None:
    """Run jobs, given with their arguments, one after the other; all must succeed."""
    for job, *arguments in steps:
        ended = deployment.run(job, *arguments)
        assert ended.code == 0, ended.output[-6000:]
