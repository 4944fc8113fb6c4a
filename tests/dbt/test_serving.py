"""The serving file has what Spark reads from the published marts, whether a table is copied or read in place."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import duckdb
import pytest

from spark_jobs.lake import tables
from spark_jobs.mart_build import branches
from spark_jobs.mart_build.inputs import Published
from spark_jobs.serving import files
from spark_jobs.serving.build import build
from spark_jobs.serving.contents import current_file, is_current
from spark_jobs.settings import Settings
from tests.dbt.serving import rows_in_duckdb, rows_in_spark, with_limit

INDEXES = ["intermediate.int_message_hours", "intermediate.int_identifier_hours"]
IN_PLACE = [tables.RAW.name, tables.EVENTS.name, *INDEXES]


def relations(settings: Settings) -> dict[str, bool]:
    """Table to whether it is copied, of the current file."""
    with duckdb.connect(current_file(settings), read_only=True) as reader:
        return dict(reader.execute("select table_name, is_copied from serving.relations").fetchall())


def published_tables(catalog) -> list[str]:
    return [table for space in ("marts", "ops") for table in branches.tables_in(catalog, space)]


@pytest.mark.parametrize("limit", [1_000_000, 0], ids=["copied", "in place"])
def test_every_relation_equals_the_table_in_spark(marts, catalog, served, limit):
    build(with_limit(served, limit))
    found = relations(served)
    assert found.keys() == {*published_tables(catalog), *IN_PLACE}
    for table, is_copied in found.items():
        spark_rows = rows_in_spark(marts, table)
        assert rows_in_duckdb(served, table) == spark_rows, table
        assert catalog.load_table(table).scan().to_arrow().num_rows == spark_rows.total(), table
        may_be_large = table.startswith(
            ("marts.fct_", "marts.orphaned_messages", "marts.dead_letters", "ops.")
        )
        assert is_copied == (table not in IN_PLACE and (spark_rows.total() <= limit or not may_be_large)), (
            table
        )
    with duckdb.connect(current_file(served), read_only=True) as reader:
        views = reader.execute(
            "select view_name from duckdb_views() where schema_name = 'serving'"
        ).fetchall()
    in_place = {table for table, is_copied in found.items() if not is_copied}
    assert {name.partition(" ")[0] for (name,) in views} <= in_place
    assert rows_in_duckdb(served, "marts.fct_messages").total() > 1000


def test_a_table_moves_between_copied_and_in_place(marts, served):
    for limit in (10, 1_000_000, 10):
        build(with_limit(served, limit))
        assert relations(served)["marts.fct_messages"] == (limit > 10)
        assert rows_in_duckdb(served, "marts.fct_messages") == rows_in_spark(marts, "marts.fct_messages")


def test_it_says_what_it_shows(served):
    file = build(served).file
    published = Published.of(served)
    with duckdb.connect(file, read_only=True) as reader:
        columns = "publication_id, change_seq_to, built_at, warehouse"
        ((publication, change_seq, built_at, warehouse),) = reader.execute(
            f"select {columns} from serving.publications"
        ).fetchall()
        marks = dict(
            reader.execute("select cluster, complete_to::varchar from serving.watermarks").fetchall()
        )
        comments = reader.execute(
            "select comment from duckdb_columns() where table_name = 'orphan_rate' and column_name = 'judged'"
        ).fetchone()
    assert (publication, change_seq, warehouse) == (published.publication_id, 1, served.warehouse_uri)
    assert timedelta(0) <= datetime.now(UTC).replace(tzinfo=None) - built_at < timedelta(minutes=1)
    assert marks == {cluster: mark.removesuffix(".000") for cluster, mark in published.watermarks.items()}
    assert comments[0]
    assert is_current(served, published.publication_id)
    assert not is_current(served, "another")


def test_only_what_changed_is_written_again(marts, served):
    """A day of a table is replaced, as an incremental run does it."""
    first = build(with_limit(served, 0))
    assert build(served).rows.keys() >= {"marts.fct_messages", "marts.fct_sends"}, "they move into the file"
    assert build(served).rows == {}
    day = "hour >= timestamp '2026-11-20' and hour < timestamp '2026-11-21'"
    for table in ("lake.marts.fct_messages", "lake.marts.send_latency"):
        name = table.removeprefix("lake.")
        snapshot = marts.sql(f"select snapshot_id from {table}.refs where name = 'main'").first()[0]
        rows, schema = marts.table(table).where(day).collect(), marts.table(table).schema
        assert 1 < len(rows) < marts.table(table).count()
        marts.createDataFrame(rows[1:], schema).createOrReplaceTempView("again")
        try:
            marts.sql(f"insert into {table} replace where {day} select * from again")
            assert build(served).rows[name] == len(rows) - 1
            assert rows_in_duckdb(served, name) == rows_in_spark(marts, name)
        finally:
            marts.sql(f"call lake.system.rollback_to_snapshot('{name}', {snapshot})")
    assert first.file != files.current(served)


def test_files_that_are_left_in_a_partition_are_written_again(marts, served):
    """A run adds rows to an hour of a fact in a file of their own, and rewrites only the files that have rows of its messages."""
    name, table = "marts.fct_messages", "lake.marts.fct_messages"
    snapshot = marts.sql(f"select snapshot_id from {table}.refs where name = 'main'").first()[0]
    hour, first = marts.table(table).groupBy("hour").agg({"msg_id": "min"}).first()
    of_first = f"hour = timestamp '{hour}' and msg_id = '{first}'"
    rows, schema = marts.table(table).where(of_first).collect(), marts.table(table).schema
    build(served)
    try:
        for _ in range(2):
            marts.sql(f"delete from {table} where {of_first}")
            marts.createDataFrame(rows, schema).createOrReplaceTempView("again")
            marts.sql(f"insert into {table} select * from again")
            written = build(served).rows
            assert written[name] == marts.table(table).where(f"hour = timestamp '{hour}'").count()
            assert rows_in_duckdb(served, name) == rows_in_spark(marts, name)
    finally:
        marts.sql(f"call lake.system.rollback_to_snapshot('{name}', {snapshot})")
        build(served)


def test_a_column_that_older_files_lack_is_null(marts, served):
    before = rows_in_spark(marts, "marts.dim_topics")
    try:
        for limit in (1_000_000, 0):
            build(with_limit(served, limit))
            marts.sql(f"alter table lake.marts.dim_topics add column added_{limit} int")
            build(with_limit(served, limit))
            found = rows_in_duckdb(served, "marts.dim_topics")
            assert found == rows_in_spark(marts, "marts.dim_topics") != before
    finally:
        marts.sql("alter table lake.marts.dim_topics drop columns (added_1000000, added_0)")


def test_it_shows_the_records_of_its_publication_and_no_later_ones(marts, served):
    before = rows_in_spark(marts, tables.EVENTS.name)
    head = marts.sql(f"select snapshot_id from {tables.EVENTS.full_name}.refs where name = 'main'").first()[0]
    marts.conf.set("spark.sql.iceberg.snapshot-property.trace.change_seq", "2")
    try:
        marts.sql(f"insert into {tables.EVENTS.full_name} select * from {tables.EVENTS.full_name} limit 5")
    finally:
        marts.conf.unset("spark.sql.iceberg.snapshot-property.trace.change_seq")
    try:
        build(served)
        assert (
            rows_in_duckdb(served, tables.EVENTS.name) == before != rows_in_spark(marts, tables.EVENTS.name)
        )
    finally:
        marts.sql(f"call lake.system.rollback_to_snapshot('{tables.EVENTS.name}', {head})")


def test_views_by_month(marts, served):
    """A table over two months and rows without a time; a month that is emptied, and one that is added."""
    table = "lake.marts.by_month"
    marts.sql(f"create table {table} (n int, hour timestamp) using iceberg partitioned by (hour)")
    in_place, views = (
        with_limit(served, 0),
        "select count(*) from duckdb_views() where view_name like 'marts.by_month %'",
    )
    try:
        for statement, months in (
            (
                "insert into {} values (1, timestamp '2026-09-30 23:00:00'), (2, timestamp '2026-10-01 00:00:00'), (3, null)",
                3,
            ),
            (
                "insert into {} values (4, timestamp '2026-10-31 23:00:00'), (5, timestamp '2026-11-01 00:00:00')",
                4,
            ),
            ("delete from {} where hour is null", 3),
            ("delete from {} where hour < timestamp '2026-10-01'", 2),
            ("delete from {}", 0),
            ("insert into {} values (6, timestamp '2026-10-01 01:00:00')", 1),
        ):
            marts.sql(statement.format(table))
            build(in_place)
            assert rows_in_duckdb(served, "marts.by_month") == rows_in_spark(marts, "marts.by_month"), (
                statement
            )
            with duckdb.connect(current_file(served), read_only=True) as reader:
                assert reader.execute(views).fetchone() == (months,), statement
    finally:
        marts.sql(f"drop table {table} purge")
    build(in_place)
    with duckdb.connect(current_file(served), read_only=True) as reader:
        assert reader.execute(views).fetchone() == (0,)
