"""One lake with a sick and a healthy cluster, and the results of every check on it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.alerts import file_store
from spark_jobs.alerts.notify import Store
from spark_jobs.lake import tables
from spark_jobs.settings import Cluster, Settings
from tests import lakes
from tests.checks import world


@pytest.fixture(scope="package")
def result(spark: SparkSession, settings: Settings) -> Iterator[SparkSession]:
    """The session, with both clusters in the lake."""
    lakes.empty(spark, settings)
    tables.ensure(spark)
    world.notify(settings)
    yield spark
    lakes.empty(spark, settings)


@pytest.fixture(scope="package")
def watched(settings: Settings) -> Settings:
    """The settings, with both clusters in them and brokers that are not queried."""
    clusters = [Cluster(name=name, namesrv=["127.0.0.1:1"]) for name in ("sick", "well")]
    return settings.model_copy(update={"clusters": clusters})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Alerts in a file of the test's own."""
    return partial(file_store.change, tmp_path / "alerts.json")
