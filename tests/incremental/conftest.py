"""The lake of tests/dbt, emptied, for runs that build upon each other."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs import tables
from spark_jobs.settings import Settings

sys.path.insert(0, str(Path(__file__).parent.parent / "dbt"))

from tests.dbt.conftest import drop_everything, planning_for_few_rows


@pytest.fixture
def empty_lake(spark: SparkSession) -> Iterator[SparkSession]:
    """A lake with no row."""
    tables.ensure(spark)
    drop_everything(spark)
    tables.ensure(spark)
    with planning_for_few_rows(spark):
        yield spark
    drop_everything(spark)


@pytest.fixture(scope="session")
def state(settings: Settings) -> Path:
    return settings.home / "dbt"
