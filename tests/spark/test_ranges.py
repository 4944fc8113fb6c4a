"""The rows of ranges, of a few queues and of many."""

from __future__ import annotations

import random
from dataclasses import astuple, replace

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.ingest.plan import Plan
from spark_jobs.ingest.step import Step
from spark_jobs.jobs.merge import merge_all
from spark_jobs.lake import tables
from spark_jobs.lake.offsets import Position, Queue, Range, read_offsets
from spark_jobs.lake.ranges import MOST_CONDITIONS, numbered_rows_in, rows_in
from spark_jobs.trace.merge import merge, parts_of, pending
from tests.spark.stored import QUEUE, messages, stored, write

SCHEMA = "cluster string, trace_topic string, broker string, queue_id int, epoch int, queue_offset bigint"
NAMES = ("it's", "a\\b", "a\\\\b", "%'or 1=1", "\\'", "plain")
QUEUES = [Queue(name, topic, "b", number) for name in NAMES for topic in ("t", "u") for number in range(3)]
MANY = MOST_CONDITIONS + 14


@pytest.fixture(scope="module")
def rows(spark) -> DataFrame:
    found = [(*astuple(queue), epoch, offset) for queue in QUEUES for epoch in (0, 1) for offset in range(12)]
    return spark.createDataFrame(found, SCHEMA).cache()


@pytest.mark.parametrize("count", [0, 1, MOST_CONDITIONS, MOST_CONDITIONS + 1, 60])
def test_rows_are_in_one_of_the_ranges(rows, count):
    """Ranges may overlap; a row is returned once."""
    rng = random.Random(count)
    ranges = []
    for _ in range(count):
        start = rng.randrange(12)
        ranges.append(Range(rng.choice(QUEUES), rng.randrange(2), start, start + rng.randrange(1, 6)))
    expected = {
        (*astuple(each.queue), each.epoch, offset)
        for each in ranges
        for offset in range(each.start, min(each.end, 12))
    }
    found = rows_in(rows, ranges).collect()
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("count", [0, 1, MOST_CONDITIONS, MOST_CONDITIONS + 1, 60])
def test_rows_have_the_number_of_their_range(rows, count):
    ranges = [Range(queue, epoch, 2, 5) for queue in QUEUES for epoch in (0, 1)][:count]
    found = numbered_rows_in(rows, ranges).collect()
    expected = [
        (*astuple(each.queue), each.epoch, offset, number)
        for number, each in enumerate(ranges)
        for offset in range(2, 5)
    ]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("others", [0, MOST_CONDITIONS])
def test_ranges_are_rows_whatever_a_queue_is_called(rows, others):
    for name in NAMES:
        queue = Queue(name, "t", "b", 0)
        absent = [Range(replace(queue, broker=f"none-{number}"), 0, 0, 12) for number in range(others)]
        found = rows_in(rows, [Range(queue, 1, 1, 3), Range(queue, 0, 3, 4), *absent]).collect()
        assert sorted(found) == [(*astuple(queue), 0, 3), (*astuple(queue), 1, 1), (*astuple(queue), 1, 2)]


def many_queues(spark) -> tuple[DataFrame, Plan]:
    """Two messages each of many queues, on two days; each queue is at offsets of its own."""
    queues = [replace(QUEUE, queue_id=number) for number in range(MANY)]
    rows = messages(spark, 0, 2 * MANY).withColumns(
        {
            "queue_id": F.expr(f"cast(queue_offset % {MANY} as int)"),
            "queue_offset": F.expr(f"1000 * (queue_offset % {MANY}) + cast(queue_offset / {MANY} as int)"),
        }
    )
    steps, positions = [], {}
    for queue in queues:
        end, last = 1000 * queue.queue_id + 2, stored(MANY + queue.queue_id)
        positions[queue] = Position(end, 0, last, 100 * end, 7, complete_to=last)
        steps.append(Step(Range(queue, 0, end - 2, end), positions[queue], lag=0, gap=None))
    return rows, Plan(stored(2 * MANY), steps, {}, positions)


def test_a_merge_of_many_queues_that_runs_twice_doubles_nothing(lake, settings):
    """The second merge knows nothing of the first: the MERGE's condition alone must hold."""
    write(lake, settings, *many_queues(lake), "run")
    assert len(parts_of(lake.table(tables.RAW.full_name))) > 2 * MOST_CONDITIONS
    assert merge_all(lake, settings, "run").records == 4 * MANY
    positions = read_offsets(lake, settings, tables.RAW).positions
    knows_nothing = replace(read_offsets(lake, settings, tables.EVENTS), positions={})
    merge(lake, pending(positions, {}), positions, knows_nothing, settings.limits, "again")
    found = lake.table(tables.EVENTS.full_name).select("queue_id", "queue_offset", "record_index").collect()
    expected = {
        (number, 1000 * number + each, index) for number in range(MANY) for each in (0, 1) for index in (0, 1)
    }
    assert sorted(found) == sorted(expected)
