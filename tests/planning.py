"""How Spark plans the queries of the tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.lake import planning
from spark_jobs.mart_build import dbt
from spark_jobs.settings import Settings

# Most tests run hundreds of statements over a few rows each: planning again takes longer than the rows, too.
QUICK = planning.FEW | {
    # Queries of a second do not pay back the optimising compiler, or collectors that have threads of their own; most of what
    # they allocate is garbage before a large young generation is full.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
    " -XX:-UseParallelGC -XX:+UseSerialGC -XX:NewRatio=1",
    # Nobody looks at Spark's pages, for which it keeps a thousand plans, each written as text.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
}
_AS_THE_JOBS = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}


@contextmanager
def as_the_jobs(spark: SparkSession) -> Iterator[None]:
    """Within the block the session plans as the jobs' sessions do: with generated code."""
    for key, value in _AS_THE_JOBS.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in planning.FEW.items():
            spark.conf.set(key, value)


@contextmanager
def without_data_tests() -> Iterator[None]:
    """Within the block, builds in this process run no data tests, which take a third of the time.

    Builds over more rows run them: those of tests/dbt, tests/incremental, tests/e2e and tests/up.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dbt, "NOT_BUILT", (*dbt.NOT_BUILT, "test"))
        yield


# Facts and all that later builds read: the marts per hour and day, but one, and slo_burn are left out, a third of the models.
FACTS = ("resource_type:seed", "staging", "intermediate", "incremental", "marts.facts", "orphan_rate")


@contextmanager
def only_models(*selection: str) -> Iterator[None]:
    """Within the block, builds in this process build and test the models that dbt selects, such as `+trace_coverage`.

    A build that others follow needs `FACTS`: which tables these read is no dependency of dbt's.
    """
    whole = dbt.dbt

    def selected(command: str, *args: Any, **options: Any) -> dbt.Build:
        return whole(command, *args, "--select", *selection, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dbt, "dbt", selected)
        yield


def run_jobs_on(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the `main` of a job that the test calls has these settings.

    Without their `spark.conf` it would give the session of all tests the plans of the jobs.
    """
    monkeypatch.setenv("TRACE_HOME", str(settings.home))
    monkeypatch.setenv("TRACE_SPARK__CONF", json.dumps(settings.spark.conf))
