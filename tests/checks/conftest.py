"""One lake with a sick and a well cluster, and what every check of Spark and of the service finds there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from pyiceberg.exceptions import NoSuchTableError
from pyspark.sql import SparkSession

from spark_jobs import tables
from spark_jobs.catalog import lake
from spark_jobs.settings import Cluster, Settings
from tests.checks import world


@pytest.fixture(scope="package")
def told(spark: SparkSession, settings: Settings) -> Iterator[SparkSession]:
    """The session, with both clusters in the lake."""
    tables.ensure(spark)
    drop_everything(settings)
    tables.ensure(spark)
    world.tell(settings)
    yield spark
    drop_everything(settings)


@pytest.fixture(scope="package")
def watched(settings: Settings) -> Settings:
    """The settings, with both clusters in them and brokers that nobody asks."""
    clusters = [Cluster(name=name, namesrv=["127.0.0.1:1"]) for name in ("sick", "well")]
    return settings.model_copy(update={"clusters": clusters})


def drop_everything(settings: Settings) -> None:
    catalog = lake(settings)
    for namespace in ("raw", "events", "marts", "ops"):
        for name in catalog.list_tables(namespace):
            with suppress(NoSuchTableError):  # views are listed, too
                catalog.drop_table(name)
