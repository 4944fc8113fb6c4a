"""How Spark plans the statements of a small run, whose rows take less time than planning and compiling.

No code is generated, a shuffle has one partition, and no plan is changed while it runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from spark_jobs.settings import Settings

# A build of up to so many new records (docs/benchmarks.md, Models). It may read and write more rows, as when the broadcast
# mode of a group changes: they take longer then, in one task per shuffle, which spills to disk.
MOST_FEW = 50_000
FEW = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}


@contextmanager
def for_records(spark: SparkSession, settings: Settings, records: int) -> Iterator[None]:
    """Within the block the session plans for so many new records; `spark.conf` of the settings has priority."""
    few = {} if records > MOST_FEW else {k: v for k, v in FEW.items() if k not in settings.spark.conf}
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
