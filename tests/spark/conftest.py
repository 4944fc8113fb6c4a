"""The code that Spark generates for the decoder is part of what is tested here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.planning import as_the_jobs


@pytest.fixture(scope="package", autouse=True)
def planned_as_the_jobs(spark: SparkSession) -> Iterator[None]:
    with as_the_jobs(spark):
        yield
