"""How Spark plans statements over few rows: without generated code, which takes longer to compile than the rows take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from spark_jobs.settings import Settings

# Up to this many records, compiling costs more CPU time than it saves (docs/benchmarks.md, Models).
MOST_FEW = 50_000
FEW_ROWS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@contextmanager
def for_rows(spark: SparkSession, settings: Settings, rows: int) -> Iterator[None]:
    """Within the block the session plans statements for this number of rows; `spark.conf` of the settings has priority."""
    few = {} if rows > MOST_FEW else {k: v for k, v in FEW_ROWS.items() if k not in settings.spark.conf}
    before: dict[str, str | None] = {key: spark.conf.get(key) for key in few}
    for key, few_value in few.items():
        spark.conf.set(key, few_value)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)
