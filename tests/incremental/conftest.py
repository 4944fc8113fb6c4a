"""The lake of tests/dbt, emptied, for runs that build upon each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.lake import tables
from spark_jobs.settings import Settings
from tests import lakes


@pytest.fixture(scope="module")
def empty_lake(spark: SparkSession, settings: Settings) -> Iterator[SparkSession]:
    """A lake with no row."""
    lakes.empty(spark, settings)
    tables.ensure(spark)
    yield spark
    lakes.empty(spark, settings)


@pytest.fixture(scope="package")
def state(settings: Settings) -> Path:
    return settings.home / "dbt"
