"""The executors of a cluster: wait for them, and check before any work that they have what the jobs need."""

from __future__ import annotations

import importlib
import os
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pyspark import SparkContext
from pyspark.sql import SparkSession

from spark_jobs.lake.deployment import ClusterError, executor_variables, no_executor
from spark_jobs.process.jvm import exit_code
from spark_jobs.settings import Settings

_MODULE = "spark_jobs.rocketmq.datasource"  # what executors import to read the brokers
_NO_PYTHON = ("Cannot run program", "No module named", "PYTHON_VERSION")
_OTHERS_SECONDS = 3  # executors of several hosts do not start at the same moment
_MANY = 1 << 30
_WATCHED_SECONDS = 2


def compare_master(spark: SparkSession, settings: Settings) -> None:
    """Raise ClusterError if the job was submitted to another master than the one of the settings."""
    master = str(spark.sparkContext.master)
    if master != settings.spark.master:
        raise ClusterError(
            f"the job was submitted to {master}, but the settings have spark.master = {settings.spark.master}: "
            "correct Airflow's connection spark_default, or the setting"
        )


def wait(spark: SparkSession, settings: Settings) -> None:
    """Wait for the first executor, at most `spark.executor_seconds`, and a little longer for the others.

    Raises:
        ClusterError: there is none. Spark would wait for ever.
    """
    context, started, first = spark.sparkContext, time.monotonic(), 0.0
    cores = max(settings.spark.cores_max or _MANY, 2)  # Spark's parallelism is at least 2
    while not first or (context.defaultParallelism < cores and time.monotonic() - first < _OTHERS_SECONDS):
        if _executors(context):
            first = first or time.monotonic()
        elif time.monotonic() - started > settings.spark.executor_seconds:
            raise ClusterError(no_executor(settings))
        time.sleep(0.2)


def watch(spark: SparkSession, settings: Settings) -> None:
    """Cancel jobs of Spark that have had no executor for `spark.executor_seconds`: Spark would wait for ever for another one.

    A thread looks as long as the session runs.
    """
    threading.Thread(target=_watch, args=(spark.sparkContext, settings), daemon=True).start()


def _watch(context: SparkContext, settings: Settings) -> None:
    limit = settings.spark.executor_seconds
    waiting_since: float | None = None
    while True:
        time.sleep(_WATCHED_SECONDS)
        try:
            jobs, spark = _waiting_jobs(context), context._jsc.sc()
            now = time.monotonic()
            if jobs is None or (not jobs and (waiting_since is None or now - waiting_since <= limit)):
                waiting_since = None
                continue
            waiting_since = waiting_since or now
            if now - waiting_since > limit:
                for job in jobs:  # those that a job starts after these, too
                    spark.cancelJob(job, no_executor(settings))
        except Exception:
            if context._jsc is None or exit_code() is not None:
                return


def _waiting_jobs(context: SparkContext) -> list[int] | None:
    """The jobs of Spark that run although there is no executor; None if there is one."""
    spark = context._jsc.sc()
    # The tracker may miss an event; the block managers are asked where it has no executor.
    if _executors(context) or spark.getExecutorMemoryStatus().size() > 1:
        return None
    return [*spark.statusTracker().getActiveJobIds()]


def _executors(context: SparkContext) -> int:
    # The tracker lists the driver as well, but at the start.
    return max(0, len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1)


class _Answer(NamedTuple):
    """What a task found out about its executor."""

    host: str
    python: str
    error: str | None
    missing: list[str]


def probe(spark: SparkSession, settings: Settings) -> None:
    """Run a trivial task on every executor that is there: it has Python, the packages and the clusters' secrets.

    One that is added later is not asked: a task on it fails.

    Raises:
        ClusterError: an executor lacks one of them.
    """
    context, variables = spark.sparkContext, executor_variables(settings)
    names, tasks = sorted(variables), max(_executors(context), context.defaultParallelism)

    def ask(_: Iterable[int]) -> Iterator[_Answer]:
        yield _ask(names)

    try:
        answers = context.parallelize(range(tasks), tasks).mapPartitions(ask).collect()
    except Exception as error:
        text = str(error)
        lines = [each.strip() for each in text.splitlines() if any(sign in each for sign in _NO_PYTHON)]
        if not lines:
            raise
        python = os.environ["PYSPARK_PYTHON"]
        raise ClusterError(
            f"executors of {settings.spark.master} cannot run Python as {python}: {lines[0][:300]}. Install the same Python "
            "environment at that path on all hosts, or set spark.python to its path there"
        ) from None
    for answer in answers:
        if answer.error:
            raise ClusterError(
                f"the executor on {answer.host} cannot import {_MODULE} with {answer.python}: {answer.error}. Install the "
                "packages of requirements.lock there"
            )
        if answer.missing:
            keys = sorted({variables[name] for name in answer.missing})
            raise ClusterError(
                f"the executor on {answer.host} lacks {' and '.join(answer.missing)} ({', '.join(keys)}): set them in the "
                "environment of the workers, not in Spark's properties, which others can read"
            )


def _ask(names: list[str]) -> _Answer:
    error = None
    try:
        importlib.import_module(_MODULE)
    except Exception as failure:
        error = f"{type(failure).__name__}: {failure}"
    return _Answer(
        socket.gethostname(), sys.executable, error, [each for each in names if not os.environ.get(each)]
    )
