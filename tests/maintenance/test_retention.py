"""What is too old is dropped by whole days, and everything that looks back knows it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import functions as F

from spark_jobs.jobs.merge import merge_all
from spark_jobs.jobs.replay import replay_all
from spark_jobs.lake import tables
from spark_jobs.lake.offsets import read_offsets
from spark_jobs.maintenance.retention import Dropped, NotMergedError, drop_old_rows, dropped_before
from spark_jobs.settings import TablePolicy
from tests.spark.stored import messages, planned, write

DAYS = 30
POLICY = TablePolicy(tables="raw.*", retention_days=DAYS)
# The queue of `stored` passes this midnight with offset 10.
MIDNIGHT = datetime(2026, 11, 21)
NOW = datetime(2026, 11, 21, 13, 0, tzinfo=UTC) + timedelta(days=DAYS)


def dropped(spark, settings, table: tables.Table, dry_run: bool = False) -> Dropped | None:
    return drop_old_rows(spark, settings, table.name, POLICY, NOW, "upkeep", dry_run)


def offsets(spark, table: tables.Table) -> set[int]:
    return {row.queue_offset for row in spark.table(table.full_name).collect()}


def test_messages_without_a_store_time_are_kept(lake, settings):
    """Those that could not be parsed; their partition is NULL."""
    without_time = F.when(F.col("queue_offset") != 5, F.col("store_time"))
    write(lake, settings, messages(lake, 0, 20).withColumn("store_time", without_time), planned(0, 20), "run")
    merge_all(lake, settings, "run")
    for table, rows in ((tables.RAW, 9), (tables.EVENTS, 18)):
        assert dropped(lake, settings, table) == Dropped(MIDNIGHT, rows)
        assert offsets(lake, table) == {5, *range(10, 20)}


def test_whole_days_are_dropped_and_the_committed_offsets_stay(lake, settings, capfd):
    write(lake, settings, messages(lake, 0, 20), planned(0, 20), "run")
    with pytest.raises(NotMergedError, match="10 messages are old enough"):
        dropped(lake, settings, tables.RAW)
    assert offsets(lake, tables.RAW) == set(range(20))
    merge_all(lake, settings, "run")
    before = {table.name: read_offsets(lake, settings, table) for table in (tables.RAW, tables.EVENTS)}

    assert dropped(lake, settings, tables.RAW, dry_run=True) == Dropped(MIDNIGHT, 10)
    assert offsets(lake, tables.RAW) == set(range(20))
    assert dropped_before(settings, tables.RAW.name) is None
    for table, rows in ((tables.RAW, 10), (tables.EVENTS, 20)):
        assert dropped(lake, settings, table) == Dropped(MIDNIGHT, rows)
        assert dropped(lake, settings, table) is None
        assert offsets(lake, table) == set(range(10, 20))
        assert dropped_before(settings, table.name) == MIDNIGHT
        after = read_offsets(lake, settings, table)
        assert (after.positions, after.change_seq) == (
            before[table.name].positions,
            before[table.name].change_seq,
        )
        summary = lake.sql(
            f"select summary from {table.full_name}.snapshots order by committed_at desc"
        ).first()[0]
        assert "trace.offsets" in summary, "the newest snapshot has no committed offsets"

    (day,) = replay_all(lake, settings, MIDNIGHT - timedelta(days=1), MIDNIGHT + timedelta(days=1), "replay")
    assert (day.messages, day.changed) == (10, 0)
    assert "messages stored before 2026-11-21 00:00:00 UTC are left out" in " ".join(
        capfd.readouterr().err.split()
    )
    write(lake, settings, messages(lake, 20, 22), planned(20, 22), "next")
    assert merge_all(lake, settings, "next").records == 4
