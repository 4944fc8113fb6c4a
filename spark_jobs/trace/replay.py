"""Replay: decode messages again and replace the records of messages whose result has changed.

Records are replaced per message: where a glued record becomes two, every later index of the message changes. A message
with the same records keeps its rows, with their `decoder_version` and `change_seq`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.lake import publish
from spark_jobs.lake.offsets import CHANGE_SEQ, OFFSETS, RUN_ID, CommittedOffsets, to_json
from spark_jobs.lake.ranges import rows_in
from spark_jobs.lake.tables import EVENTS, RAW, RECORD_KEY, REPLACED_RECORDS, TRACE_MESSAGE_KEY
from spark_jobs.settings import Limits
from spark_jobs.trace.decode import OUTPUT
from spark_jobs.trace.merge import Part, parts_of, pending, rows_of, same_key


@dataclass(frozen=True)
class Replayed:
    """The result of a replay of one day, or of its dry run.

    Attributes:
        day: of the store time, UTC.
        messages: number of messages decoded.
        changed: number of messages whose records have changed; only these are replaced.
        before: number of old records of the changed messages.
        after: number of new records of the changed messages.
        invalid_before: Invalid records in `before`.
        invalid_after: Invalid records in `after`.
    """

    day: date
    messages: int
    changed: int
    before: int
    after: int
    invalid_before: int
    invalid_after: int


def days_between(
    spark: SparkSession, start: datetime, end: datetime, among: DataFrame | None = None
) -> list[tuple[datetime, datetime]]:
    """Per day with messages stored in [start, end), the part of the day in that interval; UTC, naive.

    With `among` (rows of raw) only the days of those messages.
    """
    stored = (spark.table(RAW.full_name) if among is None else among).where(_stored(start, end))
    # Dates: Python would convert timestamps to the time zone of this machine.
    days = stored.select(F.to_date("store_time").alias("day")).distinct().orderBy("day").collect()
    midnights = [datetime.combine(row.day, time.min) for row in days]
    return [(max(midnight, start), min(midnight + timedelta(days=1), end)) for midnight in midnights]


def replay(
    spark: SparkSession,
    start: datetime,
    end: datetime,
    events: CommittedOffsets,
    limits: Limits,
    run_id: str,
    dry_run: bool = False,
    among: DataFrame | None = None,
) -> Replayed:
    """Replace, in one commit, the changed records of messages stored in [start, end); unmerged messages are left out.

    Args:
        spark: the session.
        start: first store time, UTC, naive.
        end: store time to stop before; of the same day as `start`.
        events: committed offsets of events that the plan is made from.
        limits: how far `event_time` may be from `store_time`.
        run_id: written to the snapshot that is published.
        dry_run: count what would change and change nothing.
        among: only messages with these keys (columns `TRACE_MESSAGE_KEY`); None for all.

    Raises:
        publish.PublishConflictError: another writer published first.
        publish.AuditError: the branch does not contain the records that the messages decode to.
    """
    messages = rows_in(spark.table(RAW.full_name), pending(events.positions, {})).where(_stored(start, end))
    if among is not None:
        messages = messages.join(among.select(*TRACE_MESSAGE_KEY), TRACE_MESSAGE_KEY, "left_semi")
    change_seq = events.change_seq + 1
    new = rows_of(messages, limits, change_seq)
    old = publish.at_snapshot(spark, EVENTS, events.head).where(_stored(start, end))
    changed = _changed(messages, old, new).persist()
    try:
        found = _counted(start.date(), messages, changed)
        if dry_run or not found.changed:
            return found
        before = old.join(changed, TRACE_MESSAGE_KEY, "left_semi")
        parts = parts_of(changed.withColumn("store_time", F.expr(f"timestamp '{start}'")))
        _record_replaced(spark, before, change_seq)
        properties = {OFFSETS: to_json(events.positions), CHANGE_SEQ: str(change_seq), RUN_ID: run_id}
        with publish.write_audit_publish(spark, EVENTS, "replay", events.head) as branch:
            _replace(before, new.join(changed, TRACE_MESSAGE_KEY, "left_semi"), parts, branch, properties)
            _audit(messages, publish.on_branch(spark, EVENTS, branch).where(_stored(start, end)), new)
        return found
    finally:
        changed.unpersist()


def _stored(start: datetime, end: datetime) -> str:
    return f"store_time >= timestamp '{start}' and store_time < timestamp '{end}'"


def _changed(messages: DataFrame, old: DataFrame, new: DataFrame) -> DataFrame:
    """The messages whose old and new records differ, with the counts of both; one row per message.

    The hash of a record covers its key, so equal sets of records cancel out under exclusive or. A record that occurs
    three times would cancel out too; the counts detect it.
    """

    def side(records: DataFrame, name: str) -> DataFrame:
        return records.select(
            *TRACE_MESSAGE_KEY,
            F.lit(name).alias("side"),
            F.xxhash64(*OUTPUT).alias("hash"),
            (F.col("record_type") == "Invalid").alias("is_invalid"),
        )

    known = messages.select(
        *TRACE_MESSAGE_KEY, F.lit("raw").alias("side"), F.lit(0).cast("bigint").alias("hash"), F.lit(False)
    )
    counts = {
        "before": F.count_if(F.col("side") == "old"),
        "after": F.count_if(F.col("side") == "new"),
        "invalid_before": F.count_if((F.col("side") == "old") & F.col("is_invalid")),
        "invalid_after": F.count_if((F.col("side") == "new") & F.col("is_invalid")),
    }
    return (
        side(old, "old")
        .union(side(new, "new"))
        .union(known)
        .groupBy(*TRACE_MESSAGE_KEY)
        .agg(
            F.bit_xor("hash").alias("difference"),
            F.max(F.col("side") == "raw").alias("is_in_raw"),
            *[count.alias(name) for name, count in counts.items()],
        )
        # Records whose message is no longer in raw are not changed.
        .where("is_in_raw and (difference != 0 or before != after)")
        .drop("difference", "is_in_raw")
    )


def _counted(day: date, messages: DataFrame, changed: DataFrame) -> Replayed:
    sums = [
        F.coalesce(F.sum(name), F.lit(0)) for name in ("before", "after", "invalid_before", "invalid_after")
    ]
    return Replayed(day, messages.count(), *changed.agg(F.count("*"), *sums).collect()[0])


def _record_replaced(spark: SparkSession, before: DataFrame, change_seq: int) -> None:
    """Record the old rows in `ops.replaced_records` before they are replaced, so that the models see them after a crash."""
    before.withColumn("change_seq", F.lit(change_seq).cast("bigint")).select(
        *REPLACED_RECORDS.column_names
    ).createOrReplaceTempView("replaced")
    keys = " and ".join(f"t.{name} = s.{name}" for name in (*RECORD_KEY, "change_seq"))
    spark.sql(
        f"merge into {REPLACED_RECORDS.full_name} t using replaced s on {keys} when not matched then insert *"
    )


def _replace(
    before: DataFrame,
    after: DataFrame,
    parts: list[Part],
    branch: str,
    properties: dict[str, str],
) -> None:
    """One MERGE: delete record keys that no longer exist, insert or update the others."""
    gone = before.select(*RECORD_KEY).join(after.select(*RECORD_KEY), RECORD_KEY, "left_anti")
    source = after.withColumn("is_gone", F.lit(False)).unionByName(
        gone.withColumn("is_gone", F.lit(True)), allowMissingColumns=True
    )
    actions = (
        "when matched and s.is_gone then delete when matched then update set * when not matched then insert *"
    )
    publish.merge_into_branch(source, EVENTS, branch, same_key(parts), actions, properties)


def _audit(messages: DataFrame, written: DataFrame, new: DataFrame) -> None:
    """Check that the branch contains, for every message, the records that it decodes to."""
    if wrong := _changed(messages, written, new).count():
        raise publish.AuditError(
            f"{EVENTS.full_name}: on the branch the records of {wrong} messages differ from those that they decode to. "
            "Nothing was published; run the replay again"
        )
