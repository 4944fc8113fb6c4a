"""Any number of incremental runs, over records in any order, give the tables of one full refresh, and those that
docs/definitions.md says: for the day of `story.py`, and for histories that Hypothesis draws, each in a cluster of its own.

TRACE_SOAK_HISTORIES says how many histories: 1000 in `make soak`, 120 without it; TRACE_SOAK_SEED which.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pytest
from events import Events
from pyspark.sql import Row
from story import DAY, book_gap, whole_day

from spark_jobs import tables
from spark_jobs.ingest.positions import Position, Queue, booked
from spark_jobs.publish import branches
from spark_jobs.publish.inputs import Inputs, Published
from spark_jobs.publish.marts import build_and_publish
from tests.incremental import definitions
from tests.incremental.histories import WATERMARK, History, drawn

BATCHES = 3
HISTORIES = int(os.environ.get("TRACE_SOAK_HISTORIES", "120"))
SEED = int(os.environ.get("TRACE_SOAK_SEED", "1"))

KEYS = {
    "fct_sends": ("msg_id", "offset_msg_id", "event_time"),
    "fct_consume_attempts": ("request_id", "msg_id"),
    "fct_deliveries": ("msg_id", "consumer_group", "broadcast_client"),
    "fct_messages": ("topic", "msg_id"),
    "fct_transactions": ("msg_id",),
    "orphaned_messages": ("topic", "msg_id", "expected_group"),
    "consumer_group_success": ("consumer_group", "topic", "hour"),
    "orphan_rate": ("topic", "expected_group", "hour"),
}


@dataclass(frozen=True)
class Built:
    """The rows of every table, as text, after the last of the batches and after a full refresh."""

    histories: dict[str, History]
    in_batches: dict[str, list[str]]
    anew: dict[str, list[str]]


def dealt(rows: list[dict], number: int) -> list[list[dict]]:
    """The rows in batches: most trace messages in the order in which they were told, a fifth of them in any."""
    dice = random.Random(number)
    batches: list[list[dict]] = [[] for _ in range(BATCHES)]
    for offset, message in groupby(rows, key=lambda row: row["queue_offset"]):
        in_order = offset * BATCHES // len(rows)
        batches[dice.randrange(BATCHES) if dice.random() < 0.2 else in_order].extend(message)
    return batches


def contents(spark, catalog) -> dict[str, list[str]]:
    return {
        table: sorted(map(str, spark.table(f"lake.{table}").collect()))
        for table in branches.audited_tables(catalog)
    }


def build(spark, catalog, settings, state, published):
    inputs = Inputs.of(booked(spark, settings, tables.EVENTS), settings.limits, published)
    done = build_and_publish(spark, catalog, inputs, state)
    assert done.passed, (done.error, done.failures)
    return inputs


def book_gaps(spark, histories: dict[str, History]) -> None:
    row = Row(*tables.INGEST_GAPS.column_names)
    gaps = [
        row(cluster, "RMQ_SYS_TRACE_TOPIC", "broker-a", 0, 0, 500, 600, start, end, WATERMARK, "run")
        for cluster, history in histories.items()
        for start, end in history.gaps
    ]
    if gaps:
        spark.createDataFrame(gaps, tables.INGEST_GAPS.schema).writeTo(tables.INGEST_GAPS.full_name).append()


@pytest.fixture(scope="module")
def built(empty_lake, catalog, settings, state) -> Built:
    """All histories in batches, the watermarks moving; then the same anew."""
    spark = empty_lake
    histories = {f"h{n:04}": history for n, history in enumerate(drawn(HISTORIES, BATCHES, SEED))}
    for number, story in enumerate(dealt(whole_day().rows, SEED), start=1):
        rows = [row | {"change_seq": number} for row in story]
        rows += [
            row | {"cluster": cluster}
            for cluster, history in histories.items()
            for row in history.records
            if row["change_seq"] == number
        ]
        watermark = DAY * number / BATCHES
        # They end where the story does.
        complete_to = int((WATERMARK - definitions.EPOCH).total_seconds() - DAY + watermark) * 1000
        queues = {
            Queue(cluster, "RMQ_SYS_TRACE_TOPIC", "broker-a", 0): Position(1, complete_to=complete_to)
            for cluster in histories
        }
        Events(rows).write(spark, watermark, number, queues)
        if number == 2:
            book_gap(spark)
            book_gaps(spark, histories)
        inputs = build(spark, catalog, settings, state, Published.of(settings))
        assert inputs.change_seq_from == (None if number == 1 else number - 1)
    in_batches = contents(spark, catalog)
    build(spark, catalog, settings, state, None)
    return Built(histories, in_batches, contents(spark, catalog))


@pytest.mark.timeout(3600)
def test_batches_equal_a_full_refresh(built):
    assert {table: rows for table, rows in built.in_batches.items() if rows != built.anew[table]} == {}
    assert [table for table, rows in built.anew.items() if not rows] == [
        "marts.slo_burn"
    ]  # no objective is stated


@pytest.fixture(scope="module")
def defined(built) -> dict[str, dict[str, definitions.Rows]]:
    """By cluster what the definitions say."""
    return {
        cluster: definitions.tables(definitions.Cluster(history.records, WATERMARK, history.gaps))
        for cluster, history in built.histories.items()
    }


@pytest.mark.parametrize("table", KEYS)
def test_every_row_is_what_the_definitions_say(built, defined, empty_lake, table):
    wrong = []
    found: dict[str, definitions.Rows] = {cluster: {} for cluster in defined}
    for row in empty_lake.table(f"lake.marts.{table}").collect():
        if row.cluster in found:
            found[row.cluster][tuple(row[name] for name in KEYS[table])] = row.asDict()
    for cluster, expected in defined.items():
        wrong += [
            f"{cluster} {key}: {difference}"
            for key in sorted(found[cluster].keys() | expected[table].keys(), key=str)
            if (difference := different(found[cluster].get(key), expected[table].get(key)))
        ]
    assert wrong == []
    assert sum(len(expected[table]) for expected in defined.values()) > len(defined) // 4


def different(row: dict[str, Any] | None, expected: dict[str, Any] | None) -> str:
    if row is None or expected is None:
        return f"the model has {row}, the definitions {expected}"
    return ", ".join(
        f"{name} is {row[name]}, by the definitions {value}"
        for name, value in expected.items()
        if row[name] != value
    )
