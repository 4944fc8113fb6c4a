"""Whole bodies through Spark, as many as there are in one job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.decode.compare import by_spark
from tests.planning import as_the_jobs

Decoded = Callable[[Sequence[bytes]], pa.Table]


@pytest.fixture(scope="package")
def decoded(spark: SparkSession) -> Decoded:
    return lambda bodies: by_spark(spark, bodies)


@pytest.fixture(scope="package", autouse=True)
def planned_as_the_jobs(spark: SparkSession) -> Iterator[None]:
    with as_the_jobs(spark):
        yield
