"""The file of the dashboards has the marts that they show, needs no other file, and has no user keys."""

from __future__ import annotations

from collections import Counter

import duckdb
import pytest

from deploy.dashboards import assets
from deploy.dashboards.bundle import ENGINE_PARAMS
from sandbox import demo_page
from spark_jobs.serving import files
from spark_jobs.serving.build import build
from spark_jobs.serving.files import WITHOUT
from spark_jobs.settings import Serving

CONFIG = ENGINE_PARAMS["connect_args"]["config"]
FORBIDDEN = (
    "select * from read_text('/etc/passwd')",
    "select * from read_csv('/etc/passwd')",
    "select * from glob('/etc/*')",
    "from '/etc/passwd'",
    "from query_table('/etc/passwd')",
    "from query('select * from read_text(''/etc/passwd'')')",
    "attach '/tmp/other.duckdb'",
    "attach ':memory:' as other; copy (select 1) to '/tmp/out.csv'",
    "copy (select 1) to '/tmp/out.csv'",
    "copy marts.dim_topics from '/etc/passwd'",
    "export database '/tmp/out'",
    "install httpfs",
    "load httpfs",
    "set enable_external_access = true",
    "reset enable_external_access",
    "set lock_configuration = false",
    "set memory_limit = '1TB'",
    "create table marts.another as select 1",
    "insert into marts.dim_topics select * from marts.dim_topics",
    "drop table marts.dim_topics",
    "create secret (type http, bearer_token 'x')",
)


@pytest.fixture(scope="module")
def served(marts, settings):
    files.remove_all(settings)
    build(settings)
    yield settings
    files.remove_all(settings)


@pytest.fixture
def closed(served):
    """A connection as the dashboards open it."""
    file = files.current(served).with_name(files.DASHBOARDS)
    with duckdb.connect(file, read_only=True, config=CONFIG) as connection:
        yield connection


def quoted(column: str) -> str:
    return f'"{column}"'


def test_it_has_the_rows_of_the_marts(served, closed):
    with duckdb.connect(files.current(served), read_only=True) as all_tables:
        found = dict(closed.execute("select table_name, columns from serving.relations").fetchall())
        assert {"marts.consumer_group_success", "marts.orphaned_messages", "ops.alerts"} <= found.keys()
        for table in found:
            columns = [row[0] for row in closed.execute(f"describe {table}").fetchall()]
            expected = all_tables.execute(f"select {', '.join(map(quoted, columns))} from {table}").fetchall()
            shown = ["histogram_map(histogram)" if c == "histogram" else quoted(c) for c in columns]
            found_rows = closed.execute(f"select {', '.join(shown)} from {table}").fetchall()
            assert Counter(map(repr, found_rows)) == Counter(map(repr, expected)), table
        for table in ("serving.watermarks", "serving.publications", "serving.freshness"):
            assert closed.execute(f"from {table}").fetchall()


def test_it_has_no_single_attempts_and_no_keys(closed):
    columns = closed.execute(
        "select table_name, column_name from duckdb_columns() where not internal"
    ).fetchall()
    assert {table for table, _ in columns if table.startswith("fct_")} == set()
    assert {column for _, column in columns} & set(WITHOUT) == set()
    assert {"keys", "sample"} <= set(WITHOUT)


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_a_query_reads_and_writes_nothing_else(closed, statement):
    with pytest.raises(duckdb.Error):
        closed.execute(statement).fetchall()


def test_too_many_orphaned_messages_are_the_newest(marts, settings):
    files.remove_all(settings)
    build(settings.model_copy(update={"serving": Serving(copied_rows=10)}))
    with duckdb.connect(files.current(settings).with_name(files.DASHBOARDS), read_only=True) as reader:
        newest, count = reader.execute("select min(hour), count(*) from marts.orphaned_messages").fetchone()
    rows = marts.table("lake.marts.orphaned_messages").collect()
    assert 0 < count <= 10 < len(rows)
    assert count == sum(row.hour >= newest for row in rows)
    build(settings)
    with duckdb.connect(files.current(settings).with_name(files.DASHBOARDS), read_only=True) as reader:
        assert reader.execute("select count(*) from marts.orphaned_messages").fetchone() == (len(rows),)


def test_every_chart_has_a_query_that_runs(closed):
    """With its metrics and columns; those that the story has data for are not empty."""
    found = assets.read()
    empty = set()
    for name, chart in found.charts.items():
        dataset, params = found.datasets[chart.dataset], chart.params
        metrics = [params["metric"]] if "metric" in params else params.get("metrics", [])
        groups = params.get("groupby", [])
        columns = [*([groups] if isinstance(groups, str) else groups), *params.get("all_columns", [])]
        selected = [
            dataset.calculated[c].expression if c in dataset.calculated else f'"{c}"' for c in columns
        ]
        selected += [f"{dataset.metrics[m].expression} as {m}" for m in metrics]
        grouped = "group by all" if metrics and columns else ""
        rows = closed.execute(
            f"select {', '.join(selected)} from {dataset.schema_name}.{dataset.table_name} {grouped}"
        ).fetchall()
        if not any(value is not None for row in rows for value in row):
            empty.add(name)
    # The story has no objective, no alerts, no results of checks, and no broker facts.
    of_facts = {"consumer_coverage_by_hour", "producer_coverage_by_hour", "untraced_clients"}
    assert empty <= {"slo_burn", "alerts_open", "checks", "failed_checks", "lag_by_queue"} | of_facts


def test_the_page_of_the_demo_has_the_marts_and_needs_no_other_file(served):
    text = demo_page.write(served).read_text()
    assert text.count("<h2>") == text.count("Plotly.newPlot(") == 3
    for name in ("mail-service", "stopwatch", "everyone", "filtered_or_lost", "latency"):
        assert (f'"{name}"' in text) == (name != "mail-service"), name
    assert "<script src" not in text
    assert "<link" not in text
