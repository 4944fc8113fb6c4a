"""Raw and events are published exactly once, with the positions that they reach."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from unittest import mock

import pytest
from pyspark.sql import functions as F

from spark_jobs.checks import compared
from spark_jobs.checks.check import Run
from spark_jobs.checks.registry import BY_NAME
from spark_jobs.erasure.rules import Kind, Rule, digest
from spark_jobs.erasure.tables import Erased, erase_from_raw
from spark_jobs.ingest import raw
from spark_jobs.ingest.plan import Plan
from spark_jobs.ingest.step import Gap, Step
from spark_jobs.jobs.merge import merge_all
from spark_jobs.jobs.reset_queue import reset
from spark_jobs.jobs.retire_queue import retire
from spark_jobs.lake import publish, tables
from spark_jobs.lake.offsets import OFFSETS, Position, Range, from_json, read_offsets, to_json, watermarks
from spark_jobs.trace import merge as trace_merge
from spark_jobs.trace.audit import compare
from spark_jobs.trace.merge import merge, pending
from tests.spark.stored import QUEUE, messages, planned, stored, write


def places(spark) -> list[tuple[int, int]]:
    rows = spark.table("lake.events.trace_records").orderBy("queue_offset", "record_index").collect()
    return [(r.queue_offset, r.record_index) for r in rows]


def test_a_table_of_an_earlier_version_gets_the_columns_that_it_lacks(lake):
    table = tables.REPLACED_RECORDS
    before = lake.table(table.full_name).schema
    lake.sql(f"alter table {table.full_name} drop columns (offset_msg_id, cost_ms)")
    lake.sql(f"insert into {table.full_name} (cluster, store_time) values ('c', timestamp '2026-11-20')")
    tables.ensure(lake)
    found = lake.table(table.full_name)
    assert {f.name: f for f in found.schema} == {f.name: f for f in before}
    assert found.select("cluster", "offset_msg_id", "cost_ms").collect() == [("c", None, None)]


def test_a_table_of_an_earlier_version_gets_the_fields_that_its_structs_lack(lake):
    table = tables.GROUP_OFFSETS
    before = lake.table(table.full_name).schema
    lake.sql(
        f"alter table {table.full_name} drop columns (queues.element.last_consumed_at, queues.element.pull_offset)"
    )
    lake.sql(
        f"""
        insert into {table.full_name} (cluster, queues)
        values ('c', array(named_struct('queue_id', 1, 'consumer_offset', 5L, 'broker_offset', 7L)))
        """
    )
    tables.ensure(lake)
    found = lake.table(table.full_name)
    assert found.schema == before
    (queue,) = found.head().queues
    assert (queue.consumer_offset, queue.last_consumed_at, queue.pull_offset) == (5, None, None)
    lake.sql(f"delete from {table.full_name}")


def test_positions_are_published_with_the_rows(lake, settings):
    plan = planned(0, 20)
    written = write(lake, settings, messages(lake, 0, 20), plan, "run")
    assert written.queues == {QUEUE: raw.Stored(messages=20, size=20 * 300)}
    assert read_offsets(lake, settings, tables.RAW).positions == plan.positions


def test_positions_survive_json():
    positions = planned(0, 3).positions
    assert from_json(to_json(positions)) == positions


def test_a_short_read_is_not_published(lake, settings):
    with pytest.raises(publish.AuditError, match="20 offsets from 0 were planned, 19 rows"):
        write(lake, settings, messages(lake, 0, 19), planned(0, 20), "run")
    assert lake.table("lake.raw.trace_messages").count() == 0
    assert read_offsets(lake, settings, tables.RAW).positions == {}


def test_a_doubled_message_is_not_published(lake, settings):
    rows = messages(lake, 0, 20).union(messages(lake, 3, 4))
    with pytest.raises(publish.AuditError, match="21 rows of 20 offsets"):
        write(lake, settings, rows, planned(0, 20), "run")


def test_another_last_message_is_not_published(lake, settings):
    rows = messages(lake, 0, 20).withColumn("body_crc", F.lit(8))
    with pytest.raises(publish.AuditError, match="the message at offset 19 changed"):
        write(lake, settings, rows, planned(0, 20), "run")


def test_a_second_writer_is_refused(lake, settings):
    write(lake, settings, messages(lake, 0, 1), planned(0, 1), "first")
    base = read_offsets(lake, settings, tables.RAW).head
    with publish.branch(lake, tables.RAW, "slow", base) as branch:
        publish.append(messages(lake, 1, 5), tables.RAW, branch, {})
        write(lake, settings, messages(lake, 1, 5), planned(1, 5), "quick")
        with pytest.raises(publish.PublishConflictError):
            publish.fast_forward(lake, tables.RAW.full_name, branch)
    assert lake.table("lake.raw.trace_messages").count() == 5


def test_a_plan_that_is_older_than_main_is_refused(lake, settings):
    """Planning reads the committed offsets first: what another writer publishes after that is not in the plan."""
    write(lake, settings, messages(lake, 0, 1), planned(0, 1), "first")
    before = read_offsets(lake, settings, tables.RAW)
    write(lake, settings, messages(lake, 1, 5), planned(1, 5), "quick")
    with pytest.raises(publish.PublishConflictError):
        raw.write(lake, messages(lake, 1, 5), planned(1, 5), "slow", before)
    assert lake.table("lake.raw.trace_messages").count() == 5


def test_an_extraction_of_another_cluster_that_publishes_first_does_no_harm(lake, settings):
    """The messages are written once, and both clusters keep their positions."""
    write(lake, settings, messages(lake, 0, 1), planned(0, 1), "first")
    before = read_offsets(lake, settings, tables.RAW)
    other = replace(QUEUE, cluster="other")
    rows, plan = messages(lake, 0, 3).withColumn("cluster", F.lit("other")), planned(0, 3)
    step = replace(plan.steps[0], range=replace(plan.ranges[0], queue=other))
    quick = replace(plan, steps=[step], positions={other: plan.positions[QUEUE]})
    write(lake, settings, rows, quick, "quick")
    with mock.patch.object(publish, "append", wraps=publish.append) as append:
        raw.write(lake, messages(lake, 1, 5), planned(1, 5), "slow", before)
    assert append.call_count == 1
    counts = lake.table("lake.raw.trace_messages").groupBy("cluster").count()
    assert counts.sort("cluster").collect() == [("c", 5), ("other", 3)]
    positions = read_offsets(lake, settings, tables.RAW).positions
    assert {queue: position.next for queue, position in positions.items()} == {QUEUE: 5, other: 3}


def test_no_branch_is_left(lake, settings):
    write(lake, settings, messages(lake, 0, 2), planned(0, 2), "run")
    merge_all(lake, settings, "run")
    for table in (tables.RAW, tables.EVENTS):
        assert [r.name for r in lake.table(f"{table.full_name}.refs").collect()] == ["main"]


def test_every_record_is_merged_once(lake, settings):
    write(lake, settings, messages(lake, 0, 20), planned(0, 20), "run")
    assert merge_all(lake, settings, "run").records == 40
    assert read_offsets(lake, settings, tables.EVENTS).change_seq == 1
    assert merge_all(lake, settings, "again").records == 0

    write(lake, settings, messages(lake, 20, 25), planned(20, 25), "run 2")
    assert merge_all(lake, settings, "run 2").records == 10
    assert places(lake) == [(offset, index) for offset in range(25) for index in range(2)]
    events = read_offsets(lake, settings, tables.EVENTS)
    assert events.change_seq == 2
    assert events.positions == read_offsets(lake, settings, tables.RAW).positions


@pytest.mark.parametrize("counted", [2, None], ids=["counted", "written before raw had the column"])
def test_a_merge_that_loses_a_record_is_not_published(lake, settings, monkeypatch, counted):
    rows = messages(lake, 0, 5).withColumn("min_records", F.lit(counted).cast("int"))
    write(lake, settings, rows, planned(0, 5), "run")
    whole = trace_merge.rows_of
    with monkeypatch.context() as patch:
        lost = "queue_offset = 3 and record_index = 1"
        patch.setattr(trace_merge, "rows_of", lambda *given: whole(*given).where(f"not ({lost})"))
        with pytest.raises(
            publish.AuditError,
            match=r"1 message\(s\) without all their records, 0 with duplicate",
        ):
            merge_all(lake, settings, "run")
    assert places(lake) == []
    assert merge_all(lake, settings, "run").records == 10


def test_checks_do_not_compare_again_what_the_audit_of_the_merge_has_compared(lake, settings, monkeypatch):
    write(lake, settings, messages(lake, 0, 5), planned(0, 5), "run")
    merge_all(lake, settings, "run")
    before = read_offsets(lake, settings, tables.EVENTS).positions
    write(lake, settings, messages(lake, 5, 12), planned(5, 12), "run 2")
    audit = merge_all(lake, settings, "run 2")
    plain = Run(settings, datetime.now(UTC), lake, compared_from=before)
    audited = replace(plain, audit=audit)

    def measured(run: Run) -> list[tuple[str, float | None, str]]:
        names = ("offsets_contiguous", "raw_offsets_match_data", "raw_is_in_events")
        return [(name, each.value, each.detail) for name in names for each in BY_NAME[name].measure(run)]

    expected = measured(plain)
    assert [value for _, value, _ in expected] == [0, 0, 0]
    with monkeypatch.context() as patch:
        patch.setattr(compared, "compare", mock.Mock(side_effect=AssertionError("compared again")))
        assert measured(audited) == expected
    # Behind the committed offset there should be no message; events is no longer as the merge left it.
    messages(lake, 14, 15).writeTo(tables.RAW.full_name).append()
    lake.sql(f"delete from {tables.EVENTS.full_name} where queue_offset = 7 and record_index = 1")
    expected = measured(replace(plain))
    assert [value for _, value, _ in expected] == [2, 3, 1]
    assert measured(replace(audited)) == expected
    lake.sql(f"delete from {tables.RAW.full_name} where queue_offset = 9")
    expected = measured(replace(plain))
    assert [value for _, value, _ in expected] == [3, 3, 2]
    assert measured(replace(audited)) == expected


def test_records_without_a_message_are_found_where_nothing_was_merged(lake, settings):
    write(lake, settings, messages(lake, 0, 5), planned(0, 5), "run")
    merge_all(lake, settings, "run")
    before = read_offsets(lake, settings, tables.EVENTS).positions
    stray = lake.table(tables.EVENTS.full_name).where("queue_offset = 4")
    stray.withColumn("queue_offset", F.lit(6).cast("bigint")).writeTo(tables.EVENTS.full_name).append()
    gap = Gap(Range(QUEUE, 0, 5, 8), stored(4), stored(8))
    write(lake, settings, messages(lake, 8, 8), planned(8, 8, gap), "gap")
    run = Run(settings, datetime.now(UTC), lake, compared_from=before, audit=merge_all(lake, settings, "gap"))
    (found,) = BY_NAME["raw_is_in_events"].measure(run)
    assert (found.value, found.detail.endswith("1 are only in events")) == (1, True)


def test_a_body_without_records_has_none_in_events(lake, settings):
    write(lake, settings, messages(lake, 0, 3), planned(0, 3), "run")
    merge_all(lake, settings, "run")
    raw, events = (lake.table(each.full_name) for each in (tables.RAW, tables.EVENTS))
    empty = raw.withColumn("min_records", F.lit(0))
    (found,) = compare(empty, events.where("queue_offset = 1"), [Range(QUEUE, 0, 0, 3)])
    assert (found.messages, found.records, found.short, found.strange) == (3, 2, 0, 1)


def test_a_snapshot_of_before_a_column_is_read_checked_and_erased_from(lake, settings):
    """`ensure` adds the column, and nothing has been written since."""
    lake.sql(f"alter table {tables.RAW.full_name} drop column min_records")
    rows = messages(lake, 0, 3).drop("min_records").writeTo(tables.RAW.full_name)
    rows.option(f"snapshot-property.{OFFSETS}", to_json(planned(0, 3).positions)).append()
    tables.ensure(lake)
    head = read_offsets(lake, settings, tables.RAW).head
    assert {row.min_records for row in publish.at_snapshot(lake, tables.RAW, head).collect()} == {None}
    rule = Rule("c", Kind.KEY, "salt", digest("salt", "k"))
    assert erase_from_raw(lake, settings, rule, "k", "run", dry_run=True) == Erased(3, 6)
    assert merge_all(lake, settings, "run").records == 6
    (found,) = BY_NAME["raw_is_in_events"].measure(Run(settings, datetime.now(UTC), lake, compared_from={}))
    assert found.value == 0


def test_positions_move_on_without_messages(lake, settings):
    """An idle cluster's watermark goes on; `change_seq` does not, so nothing is triggered."""
    write(lake, settings, messages(lake, 0, 2), planned(0, 2), "run")
    merge_all(lake, settings, "run")
    idle = planned(2, 2)
    idle.positions[QUEUE] = replace(idle.positions[QUEUE], complete_to=stored(9))
    write(lake, settings, lake.createDataFrame([], tables.RAW.schema), idle, "idle")
    assert read_offsets(lake, settings, tables.RAW).positions == idle.positions
    assert merge_all(lake, settings, "idle").records == 0
    assert read_offsets(lake, settings, tables.EVENTS).positions == idle.positions
    assert read_offsets(lake, settings, tables.EVENTS).change_seq == 1


def test_a_merge_that_runs_twice_doubles_nothing(lake, settings, monkeypatch):
    """The second merge knows nothing of the first: the MERGE's condition alone must hold. The first is an append."""
    write(lake, settings, messages(lake, 0, 20), planned(0, 20), "run")
    with monkeypatch.context() as patch:
        patch.delattr(publish, "merge_into_branch")
        merge_all(lake, settings, "run")
    raw_positions = read_offsets(lake, settings, tables.RAW).positions
    knows_nothing = replace(read_offsets(lake, settings, tables.EVENTS), positions={})
    merge(lake, pending(raw_positions, {}), raw_positions, knows_nothing, settings.limits, "again")
    assert len(places(lake)) == len(set(places(lake))) == 40


def test_committed_offsets_are_rebuilt_from_rows_and_gaps(lake, settings):
    """Where no live snapshot carries positions, the data does."""
    publish_rows = messages(lake, 0, 20)
    publish_rows.writeTo("lake.raw.trace_messages").append()
    found = read_offsets(lake, settings, tables.RAW).positions[QUEUE]
    assert (found.next, found.epoch, found.store_time, found.crc) == (20, 0, stored(19), 7)

    gap = Gap(Range(QUEUE, 0, 20, 50), stored(19), stored(50))
    raw._record_gaps(lake, [gap], stored(60), "run")
    raw._record_gaps(lake, [gap], stored(61), "run again")
    assert lake.table("lake.ops.ingest_gaps").count() == 1
    assert read_offsets(lake, settings, tables.RAW).positions[QUEUE].next == 50


def test_a_reset_queue_starts_a_new_epoch_and_both_are_merged(lake, settings):
    write(lake, settings, messages(lake, 0, 5), planned(0, 5), "run")
    assert reset(lake, settings, QUEUE) == Position(next=0, epoch=1, complete_to=stored(4))

    again = Plan(stored(9), [], {}, {QUEUE: Position(2, 1, stored(1), 9, 7, complete_to=stored(1))})
    again.steps.append(Step(Range(QUEUE, 1, 0, 2), again.positions[QUEUE], lag=0))
    write(lake, settings, messages(lake, 0, 2).withColumn("epoch", F.lit(1)), again, "again")
    assert merge_all(lake, settings, "run").records == 14
    found = lake.table("lake.events.trace_records").groupBy("epoch").count().collect()
    assert {row.epoch: row["count"] for row in found} == {0: 10, 1: 4}


def test_queues_of_a_removed_broker_are_retired_and_hold_no_watermark(lake, settings):
    other = replace(QUEUE, broker="broker-b")
    gone = [replace(other, queue_id=number) for number in range(2)]
    rest = Position(5, complete_to=stored(4))
    plan = planned(0, 5)
    plan.positions.update({queue: replace(rest, complete_to=7) for queue in gone})
    write(lake, settings, messages(lake, 0, 5), plan, "run")
    assert watermarks(read_offsets(lake, settings, tables.RAW).positions) == {QUEUE.cluster: 7}
    with pytest.raises(ValueError, match=f"queues are: {QUEUE}, "):
        retire(lake, settings, "c/no/such")
    assert retire(lake, settings, str(gone[0])) == [str(gone[0])]
    assert retire(lake, settings, f"{QUEUE.cluster}/{QUEUE.trace_topic}/broker-b") == [str(gone[1])]
    assert merge_all(lake, settings, "run").records == 10
    for table in (tables.RAW, tables.EVENTS):
        positions = read_offsets(lake, settings, table).positions
        assert watermarks(positions) == {QUEUE.cluster: positions[QUEUE].complete_to}
        assert [positions[queue].next for queue in gone] == [5, 5]


def test_a_queue_that_was_never_read_cannot_be_reset(lake, settings):
    with pytest.raises(ValueError, match="never read; known are: none"):
        reset(lake, settings, QUEUE)


def test_a_message_without_a_store_time_is_one_invalid_record(lake, settings):
    """What the reader could not take apart: bytes, `body_error`, no times."""
    position = Position(1, 0, 0, 0, 7)
    plan = Plan(stored(1), [Step(Range(QUEUE, 0, 0, 1), position, lag=0)], {}, {QUEUE: position})
    broken = messages(lake, 0, 1).withColumns(
        {
            "store_time": F.lit(None).cast("timestamp"),
            "body_error": F.lit("malformed: …"),
            "min_records": F.lit(1),
        }
    )
    write(lake, settings, broken, plan, "run")
    assert merge_all(lake, settings, "run").records == 1
    (record,) = lake.table("lake.events.trace_records").collect()
    assert (record.record_type, record.invalid_reason) == ("Invalid", "body_error:malformed: …")
