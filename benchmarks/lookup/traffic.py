"""Raw and events with the traffic of 30 days, whatever the number of records.

Three days are a commit, so a day has one data file of events, as after a compaction. Times, groups and attempts are those
of `benchmarks/history.py`; the ids are made as in production (`benchmarks/lookup/ids.py`).
"""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.history import CURRENT, MESSAGES, bodies, stored
from benchmarks.lookup.ids import java_ids
from spark_jobs.lake.offsets import CHANGE_SEQ, OFFSETS, Position, to_json
from spark_jobs.lake.publish import commit_with_properties
from spark_jobs.lake.tables import EVENTS, RAW
from spark_jobs.settings import Settings
from spark_jobs.trace.merge import rows_of

DAYS, COMMITS = 30, 10
SINCE = int(datetime(2026, 10, 16, tzinfo=UTC).timestamp() * 1000)  # two months
HOT_MESSAGES = 10_000  # have the hot key
_DAY_MS = 86_400_000
_RECORDS = 3 * MESSAGES  # of a trace message


def write(spark: SparkSession, settings: Settings, records: int) -> None:
    """Append about so many records, evenly over the days."""
    count = records // _RECORDS
    step_ms = DAYS * _DAY_MS // count
    naming = java_ids(hot_every=count * MESSAGES // HOT_MESSAGES)
    for number in range(COMMITS):
        start, end = (count * n // COMMITS for n in (number, number + 1))
        offsets = {OFFSETS: to_json({CURRENT: Position(next=end, complete_to=SINCE + end * step_ms)})}
        found = bodies(spark, CURRENT, start, end, SINCE, step_ms, naming)
        messages = stored(found, CURRENT, F.lit(SINCE) + F.col("queue_offset") * step_ms)
        spark.conf.set("spark.sql.codegen.wholeStage", "false")  # its code would be too large for one method
        with commit_with_properties(spark, offsets):
            messages.select(*RAW.column_names).writeTo(RAW.full_name).append()
        spark.conf.unset("spark.sql.codegen.wholeStage")
        written = spark.table(RAW.full_name).where(F.col("queue_offset").between(start, end - 1))
        with commit_with_properties(spark, offsets | {CHANGE_SEQ: str(number + 1)}):
            rows = rows_of(written, settings.limits, number + 1)
            rows.select(*EVENTS.column_names).writeTo(EVENTS.full_name).append()
