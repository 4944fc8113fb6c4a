"""The world of `tests/faults/jobs` once more, with a broker, a Java client and a session of its own: in another process."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark_jobs.settings import Settings
from tests.faults.jobs.conftest import broker, java, with_tables, world
from tests.planning import without_data_tests
from tests.soak import IS_SOAK

__all__ = ["broker", "java", "world"]

collect_ignore = [] if IS_SOAK else ["test_rebuild_killed.py"]


@pytest.fixture(scope="package")
def filled(spark: SparkSession, settings: Settings) -> SparkSession:
    """The session with one lake for all files of this folder: what one has built the next one goes on with."""
    return with_tables(spark, settings)


@pytest.fixture(scope="package", autouse=True)
def no_data_tests() -> Iterator[None]:
    with without_data_tests():
        yield
