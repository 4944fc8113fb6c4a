"""The serving file has what Spark reads from the published marts, whether a table is copied or read in place."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from spark_jobs.jobs import marts as marts_job
from spark_jobs.lake import tables
from spark_jobs.maintenance.expiry import expire_snapshots
from spark_jobs.maintenance.state import expire_before
from spark_jobs.mart_build import branches, publication
from spark_jobs.mart_build.inputs import Published
from spark_jobs.serving import contents, files
from spark_jobs.serving.build import build
from spark_jobs.serving.contents import ServingFileError, current_file, is_current
from spark_jobs.settings import PROJECT, Serving, Settings, TablePolicy
from tests.planning import run_jobs_on
from tests.soak import IS_SOAK

INDEXES = ["intermediate.int_message_hours", "intermediate.int_identifier_hours"]
IN_PLACE = [tables.RAW.name, tables.EVENTS.name, *INDEXES]


@pytest.fixture
def served(marts, settings):
    """The settings of the lake, without any serving file before and after."""
    files.remove_all(settings)
    yield settings
    files.remove_all(settings)


def with_limit(settings: Settings, rows: int, keep_minutes: float = 60) -> Settings:
    return settings.model_copy(update={"serving": Serving(copied_rows=rows, keep_minutes=keep_minutes)})


def relations(settings: Settings) -> dict[str, bool]:
    """Table to whether it is copied, of the current file."""
    with duckdb.connect(current_file(settings), read_only=True) as reader:
        return dict(reader.execute("select table_name, is_copied from serving.relations").fetchall())


def comparable(row) -> str:
    """A row in an order of map entries and with types that do not depend on the engine."""

    def same(value):
        if isinstance(value, dict):
            return sorted(value.items())
        return bytes(value) if isinstance(value, bytearray) else value

    return repr(tuple(map(same, row)))


def rows_in_duckdb(settings: Settings, table: str) -> Counter:
    with duckdb.connect(current_file(settings), read_only=True) as reader:
        return Counter(map(comparable, reader.execute(f"select * from lake.{table}").fetchall()))


def rows_in_spark(marts, table: str) -> Counter:
    return Counter(map(comparable, marts.table(f"lake.{table}").collect()))


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
        may_be_large = table.startswith(("marts.fct_", "marts.orphaned_messages", "ops."))
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
    assert (publication, change_seq, warehouse) == (published.publication_id, 1, served.warehouse)
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


def test_a_reader_keeps_its_file_while_others_see_the_next(served):
    first = build(served).file
    with duckdb.connect(first, read_only=True) as reader:
        count = reader.execute("select count(*) from lake.marts.fct_sends").fetchone()
        second = build(served).file
        assert current_file(served) == second != first
        assert reader.execute("select count(*) from lake.marts.fct_sends").fetchone() == count
        assert files.retained(served) == [first, second]
        third = build(with_limit(served, 1_000_000, keep_minutes=0)).file
        assert files.retained(served) == [third]
        assert reader.execute("select count(*) from lake.marts.fct_sends").fetchone() == count


@pytest.mark.parametrize("before", ["rename", "symlink_to", "replace"])
def test_a_build_that_is_killed_in_the_switch_changes_nothing(served, monkeypatch, before):
    """It is killed before the new folder gets its name, before the link is made, and before the link is replaced."""
    first = build(served).file

    def killed(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "discard", lambda file: None)  # nothing is cleaned up after a kill
    monkeypatch.setattr(os if before == "replace" else Path, before, killed)
    with pytest.raises(KeyboardInterrupt):
        build(served)
    monkeypatch.undo()
    assert files.current(served) == first
    second = build(served).file
    assert {path.name for path in files.folder(served).iterdir()} == {
        *("current", first.parent.name, second.parent.name)
    }


def test_a_build_that_fails_leaves_nothing(served, monkeypatch):
    monkeypatch.setattr(duckdb, "connect", lambda *_, **__: (_ for _ in ()).throw(OSError("no space left")))
    with pytest.raises(OSError, match="no space left"):
        build(served)
    assert list(files.folder(served).iterdir()) == []


def test_files_are_in_the_order_of_their_switches_although_the_clock_was_set_back(served):
    first = build(served).file
    ahead = first.parent.with_name(f"{datetime.now(UTC) + timedelta(days=1):{files._NAME}}")
    first.parent.rename(ahead)
    (files.folder(served) / "current").unlink()
    (files.folder(served) / "current").symlink_to(ahead.name)
    second = build(served).file
    assert files.retained(served) == [ahead / files.FILE, second]
    assert files.current(served) == second
    third = build(served, from_scratch=True).file
    assert files.retained(served) == [third]


def test_a_file_cannot_be_written_to(served):
    assert not build(served).file.stat().st_mode & 0o222


@pytest.mark.parametrize("damage", ["not a database", ""])
def test_a_damaged_file_is_replaced(served, damage):
    file = build(served).file
    file.chmod(0o644)
    file.write_text(damage)
    assert not is_current(served, Published.of(served).publication_id)
    build(served)
    assert is_current(served, Published.of(served).publication_id)


def test_the_file_of_a_copied_home_is_refused(served, tmp_path):
    build(served)
    copied = served.model_copy(update={"home": tmp_path})
    shutil.copytree(files.folder(served), files.folder(copied), symlinks=True)
    copied.__dict__.pop("warehouse", None)
    with pytest.raises(ServingFileError, match="reads the tables in"):
        current_file(copied)


def test_snapshots_that_a_retained_file_shows_are_not_expired(marts, catalog, served):
    """The files of events are rewritten after the file was built; later, the old ones would be due."""
    name, later = tables.EVENTS.name, datetime.now(UTC) + timedelta(days=30)
    policy = TablePolicy(tables=name, keep_snapshots=1, snapshots_days=0, compact_files=None)
    file, before = build(served).file, rows_in_spark(marts, name)
    shown = catalog.load_table(name).current_snapshot()
    marts.sql(
        f"call lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))"
    )
    rewritten = catalog.load_table(name)
    assert rewritten.current_snapshot().snapshot_id != shown.snapshot_id
    assert contents.needed_snapshots(served, name) == {shown.snapshot_id}
    until = expire_before(served, rewritten, policy, later)
    assert until == datetime.fromtimestamp(shown.timestamp_ms / 1000, UTC)

    expire_snapshots(marts, name, until, keep=1)
    with duckdb.connect(file, read_only=True) as reader:
        assert Counter(map(comparable, reader.execute(f"select * from lake.{name}").fetchall())) == before
    files.remove_all(served)
    assert expire_before(served, rewritten, policy, later) == later
    damaged = build(served).file
    damaged.chmod(0o644)
    damaged.write_text("damaged")
    assert expire_before(served, rewritten, policy, later).year == 1970, "what it shows is not known"


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


def shell(settings: Settings, *args: str, home: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"TRACE_HOME": str(settings.home)} | ({"HOME": str(home)} if home else {})
    return subprocess.run(
        [sys.executable, "-m", "spark_jobs.serving.sql", *args],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_make_sql(served, tmp_path):
    absent = shell(served, "--query", "select 1")
    assert (absent.returncode, absent.stdout) == (1, "")
    assert "no serving file" in absent.stderr
    build(served)
    query = "select topic, sum(sends)::int as sends from lake.marts.send_latency where topic = 'timed' group by topic"
    assert shell(served, "--query", query, "--format", "csv").stdout == "topic,sends\ntimed,600\n"
    assert shell(served, "--query", query, "--format", "json").stdout == '[{"topic":"timed","sends":600}]\n'
    assert "│ timed │" in shell(served, "--query", query).stdout
    wrong = shell(served, "--query", "select nothing")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "Binder Error" in wrong.stderr
    (tmp_path / ".duckdbrc").write_text("select 'from the init file';")
    assert "init file" not in shell(served, "--query", query, home=tmp_path).stdout
    assert "read-only" in shell(served, "--query", "drop table lake.marts.send_latency").stderr


LATENCY_MARTS = {
    "send_latency": "producer_group",
    "consume_latency": "consumer_group",
    "queue_wait": "consumer_group",
    "end_to_end_latency": "consumer_group",
}


@pytest.mark.parametrize("mart", LATENCY_MARTS)
def test_percentiles_of_the_function_equal_those_of_the_marts(served, mart):
    """Of each hour, and of the hours of each day."""
    build(served)
    columns = {"p50_ms": 0.5, "p90_ms": 0.9, "p95_ms": 0.95, "p99_ms": 0.99, "p999_ms": 0.999}
    functions = ", ".join(f"percentile_ms(histogram, max_ms, {p})" for p in columns.values())
    key = f"cluster, {LATENCY_MARTS[mart]}, topic"
    with duckdb.connect(current_file(served), read_only=True) as reader:
        for table, column, time in ((mart, "hour", "hour"), (f"{mart}_daily", "day", "hour::date")):
            by_mart = f"select {key}, {column}, {', '.join(columns)} from lake.marts.{table}"
            by_function = (
                f"select {key}, {time} as moment, {functions} from lake.marts.{mart} group by {key}, moment"
            )
            expected = Counter(reader.execute(by_mart).fetchall())
            assert Counter(reader.execute(by_function).fetchall()) == expected
            assert any(row[-1] is not None for row in expected)
        summed = (
            f"select max(n) from (select count(*) as n from lake.marts.{mart} group by {key}, hour::date)"
        )
        assert reader.execute(summed).fetchone()[0] > 1


@pytest.mark.parametrize("p", ["0", "-0.5", "99", "1.5"])
def test_a_percentile_is_above_0_and_at_most_1(served, p):
    build(served)
    with duckdb.connect(current_file(served), read_only=True) as reader:
        with pytest.raises(duckdb.Error, match="above 0 and at most 1"):
            reader.execute(f"select percentile_ms(histogram, max_ms, {p}) from lake.marts.send_latency")
        null = reader.execute("select percentile_ms(histogram, max_ms, null) from lake.marts.send_latency")
        assert null.fetchall() == [(None,)]


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


def test_the_examples_of_the_documentation_run(marts, served, tmp_path):
    """Their `var` is the home of the lake."""
    build(served)
    (tmp_path / "var").symlink_to(served.home)
    page = (PROJECT / "docs" / "sql.md").read_text()
    programs = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(programs) == 2
    for program in programs:
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "cluster" in done.stdout
    for statement in re.findall(r"<<'SQL'\n(.*?)\nSQL", page, re.DOTALL):
        assert marts.sql(statement).collect()
    pages = page + (PROJECT / "README.md").read_text()
    queries = re.findall(r"make sql QUERY=\"(.*?)\"", pages, re.DOTALL)
    assert len(queries) >= 6
    with duckdb.connect(current_file(served), read_only=True) as reader:
        for query in queries:
            reader.execute(query)


def test_a_failure_is_an_alert_and_fails_no_job(marts, served, monkeypatch):
    """The next run builds the file, which resolves the alert."""
    run_jobs_on(served, monkeypatch)

    def fails(settings):
        raise OSError("disk quota exceeded")

    monkeypatch.setattr(marts_job.serving, "build", fails)
    assert marts_job.main(["--run-id", "fails"]) == 0
    monkeypatch.undo()
    run_jobs_on(served, monkeypatch)
    alert = "select state, summary from lake.ops.alerts where `check` = 'serving_file'"
    ((state, summary),) = marts.sql(alert).collect()
    assert (state, summary) == (
        "open",
        "local: the serving file could not be built: OSError: disk quota exceeded",
    )
    assert files.current(served) is None
    assert marts_job.main(["--run-id", "passes"]) == 0
    assert [row.state for row in marts.sql(alert).collect()] == ["resolved"]
    assert is_current(served, Published.of(served).publication_id)
    file = files.current(served)
    assert marts_job.main(["--run-id", "nothing new"]) == 0
    assert files.current(served) == file


READER = """
import collections, json, sys, time
import duckdb
from spark_jobs.serving.contents import current_file
from spark_jobs.settings import Settings

settings, seen, last = Settings(), collections.Counter(), int(sys.argv[1])
while max(seen, default=0) < last:
    with duckdb.connect(current_file(settings), read_only=True) as connection:
        found = set()
        for _ in range(3):
            found |= {connection.execute(f"select n from lake.marts.{table}").fetchone()[0] for table in ("one", "two")}
            time.sleep(0.1)
        if len(found) != 1:
            sys.exit(f"a mixture of publications: {found}")
        seen[found.pop()] += 1
print(json.dumps(seen))
"""


def test_readers_see_whole_publications_only(marts, catalog, served, record_property):
    """Processes that query while the marts are published again and again: one table is copied, the other read in place."""
    readers, publications = (16, 20) if IS_SOAK else (4, 3)
    names, wap, hour = (
        ["marts.one", "marts.two"],
        "'write.wap.enabled' = 'true'",
        "timestamp '2026-11-20 12:00:00'",
    )
    in_place = with_limit(served, 0)
    try:
        marts.sql(f"create table lake.marts.one (n int) using iceberg tblproperties ({wap})")
        marts.sql(
            f"create table lake.marts.two (n int, hour timestamp) using iceberg partitioned by (hour) tblproperties ({wap})"
        )
        marts.sql("insert into lake.marts.one values (0)")
        marts.sql(f"insert into lake.marts.two values (0, {hour})")
        build(in_place)
        environment = os.environ | {"TRACE_HOME": str(served.home), "PYTHONPATH": str(PROJECT)}
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", READER, str(publications)],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(readers)
        ]
        for number in range(1, publications + 1):
            branch = f"{branches.PREFIX}{number}"
            branches.create(marts, catalog, names, branch)
            with branches.writing_to(marts, branch, {}):
                marts.sql(f"insert overwrite lake.marts.one values ({number})")
                marts.sql(f"insert overwrite lake.marts.two values ({number}, {hour})")
            publication.publish(marts, catalog, names, branch, f"readers-{number}", 1)
            branches.drop_all(marts, catalog, names)
            build(in_place)
        outputs = [process.communicate(timeout=120) for process in processes]
    finally:
        for name in names:
            marts.sql(f"drop table if exists lake.{name} purge")
        marts.sql("delete from lake.ops.publications where table_name in ('marts.one', 'marts.two')")
    assert [
        (process.returncode, errors) for process, (_, errors) in zip(processes, outputs, strict=True)
    ] == [(0, "")] * readers
    assert all(str(publications) in json.loads(seen) for seen, _ in outputs)
    queries = sum(sum(json.loads(seen).values()) for seen, _ in outputs) * 6
    record_property("counts", {"readers": readers, "publications": publications, "queries": queries})
