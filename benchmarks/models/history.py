"""Raw and events with a day or with ten days of traffic, and the batch that comes next, as snapshots of one lake."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.history import BEHIND, CHUNK, CURRENT, START, STEP_MS, bodies, chunks, stored
from spark_jobs.lake.offsets import CHANGE_SEQ, OFFSETS, Position, Positions, to_json
from spark_jobs.lake.publish import commit_with_properties
from spark_jobs.lake.tables import EVENTS, RAW
from spark_jobs.settings import Settings
from spark_jobs.trace.merge import rows_of

DAYS = 10
BATCH = CHUNK // 10
LATE_MS = 12 * 3600 * 1000


def add_days(spark: SparkSession, settings: Settings, first: int, last: int, change_seq: int) -> None:
    """Append the days [first, last) of the current queue; the committed offsets are those at the end of all days."""
    end = DAYS * CHUNK
    positions = {
        CURRENT: Position(next=end, complete_to=START + end * STEP_MS),
        BEHIND: Position(next=0, complete_to=START + end * STEP_MS),
    }
    days = stored(chunks(spark, first, last), CURRENT, START + F.col("queue_offset") * STEP_MS)
    append(spark, settings, days, positions, change_seq)


def add_batch(spark: SparkSession, settings: Settings, change_seq: int, messages: int = BATCH) -> None:
    """Append the next messages, by default a tenth of a day; one in a hundred is of another queue, half a day late."""
    end, late_messages = DAYS * CHUNK, messages // 100
    late_since = START + end * STEP_MS - LATE_MS
    current = bodies(spark, CURRENT, end, end + messages - late_messages)
    late = bodies(spark, BEHIND, 0, late_messages, late_since)
    batch = stored(current, CURRENT, START + F.col("queue_offset") * STEP_MS).union(
        stored(late, BEHIND, late_since + F.col("queue_offset") * STEP_MS)
    )
    complete_to = START + (end + messages) * STEP_MS
    positions = {
        CURRENT: Position(next=end + messages - late_messages, complete_to=complete_to),
        BEHIND: Position(next=late_messages, complete_to=complete_to),
    }
    append(spark, settings, batch, positions, change_seq)


def append(
    spark: SparkSession, settings: Settings, messages: DataFrame, positions: Positions, change_seq: int
) -> None:
    """Append rows of raw, and their records to events, with these committed offsets: no broker, no merge, no audit."""
    raw = messages.select(*RAW.column_names)
    with commit_with_properties(spark, {OFFSETS: to_json(positions)}):
        raw.writeTo(RAW.full_name).append()
    with commit_with_properties(spark, {OFFSETS: to_json(positions), CHANGE_SEQ: str(change_seq)}):
        rows = rows_of(messages, settings.limits, change_seq).select(*EVENTS.column_names)
        rows.writeTo(EVENTS.full_name).append()
