"""What a merge is compared with: decode, and a plain append to events."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from spark_jobs.lake import publish
from spark_jobs.lake.tables import EVENTS
from spark_jobs.settings import Settings
from spark_jobs.trace.merge import rows_of


def append(spark: SparkSession, messages: DataFrame, settings: Settings, snapshot: int) -> None:
    """Decode messages and append their records to events at a snapshot: no merge by key, and no audit."""
    with publish.branch(spark, EVENTS, "append", snapshot) as branch:
        publish.append(rows_of(messages, settings.limits, 2), EVENTS, branch, {})
        publish.fast_forward(spark, EVENTS.full_name, branch)
