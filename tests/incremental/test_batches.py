"""Any number of incremental runs, over records in any order, give the tables of one full refresh."""

from __future__ import annotations

import random
from itertools import groupby

import pytest
from events import Events
from story import DAY, book_gap, whole_day

from spark_jobs import tables
from spark_jobs.ingest.positions import booked
from spark_jobs.publish import branches
from spark_jobs.publish.inputs import Inputs, Published
from spark_jobs.publish.marts import build_and_publish

BATCHES = 4


def dealt(rows: list[dict], seed: int) -> list[list[dict]]:
    """The rows in batches: most trace messages in the order in which they were told, a fifth of them in any."""
    dice = random.Random(seed)
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


@pytest.mark.parametrize("seed", [1])
def test_batches_equal_a_full_refresh(empty_lake, catalog, settings, state, seed):
    spark = empty_lake
    for number, rows in enumerate(dealt(whole_day().rows, seed), start=1):
        watermark = DAY * number / BATCHES
        Events([row | {"change_seq": number} for row in rows]).write(spark, watermark, number)
        if number == 3:
            book_gap(spark)
        inputs = build(spark, catalog, settings, state, Published.of(settings))
        assert inputs.change_seq_from == (None if number == 1 else number - 1)
    incremental = contents(spark, catalog)
    build(spark, catalog, settings, state, None)
    full = contents(spark, catalog)
    assert {table: rows for table, rows in incremental.items() if rows != full[table]} == {}
    assert [table for table, rows in full.items() if not rows] == ["marts.slo_burn"]  # no objective is stated
