"""A lake that an earlier version wrote is opened by this one: raw, events and ops without manual steps, marts rebuilt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog
from pyspark.sql import SparkSession

from spark_jobs.jobs import merge
from spark_jobs.lake import identity, lake_format, tables
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.offsets import read_offsets
from spark_jobs.mart_build import dbt
from spark_jobs.mart_build.build import build_and_publish
from spark_jobs.mart_build.inputs import inputs_now
from spark_jobs.settings import Settings
from tests import lakes
from tests.lake.formats.archive import restore
from tests.planning import only_models
from tests.spark.stored import messages, planned, write

WRITTEN_BY_JOBS = ("raw.", "events.", "ops.")
ADDED_TO = {"fct_sends": 0, "fct_messages": 10, "fct_consume_attempts": 10}
COUNTED = ("send_latency_daily", "trace_volume")


@pytest.fixture
def empty(spark: SparkSession, settings: Settings) -> Iterator[SparkSession]:
    lakes.empty(spark, settings)
    yield spark
    lakes.empty(spark, settings)


@pytest.mark.parametrize("number", range(1, lake_format.FORMAT + 1))
def test_a_lake_of_each_format_is_opened(
    number: int, empty: SparkSession, settings: Settings, catalog: Catalog, tmp_path: Path
):
    found = restore(empty, settings, number, tmp_path)
    rows = {name: count for name, count in found["rows"].items() if name.startswith(WRITTEN_BY_JOBS)}
    assert rows["raw.trace_messages"] > 0
    assert rows["ops.check_results"] > 0

    tables.ensure(empty)
    assert {name: empty.table(f"lake.{name}").count() for name in rows} == rows
    for table in tables.ALL:
        assert set(table.column_names) <= set(empty.table(table.full_name).columns)
        assert dict(table.properties).items() <= catalog.load_table(table.name).properties.items()

    plan = planned(0, 10)
    plan.positions.update(read_offsets(empty, settings, tables.RAW).positions)
    write(empty, settings, messages(empty, 0, 10), plan, "after the upgrade")
    assert merge.merge_all(empty, settings, "after the upgrade").records == 20
    definitions = dbt.definitions(settings.limits, settings.home / "dbt")
    inputs = inputs_now(settings, read_offsets(empty, settings, tables.EVENTS), None, definitions)
    # Views of an earlier version are tables now, which every engine reads.
    were_views = {name for name in found["views"] if name.startswith("marts.")}
    with only_models(*(f"+{name.removeprefix('marts.')}" for name in {*were_views, *ADDED_TO, *COUNTED})):
        built = build_and_publish(empty, catalog, inputs, settings.home / "dbt")
    assert built.passed, (built.error, built.failures)
    for mart in were_views:
        assert catalog.table_exists(mart)
    assert empty.table("lake.marts.send_latency_daily").count() > 0
    # A mart that no earlier version had counts all records, with the bytes of their messages.
    volume = empty.table("lake.marts.trace_volume").selectExpr("sum(records)", "sum(stored_bytes)").first()
    events = empty.table(tables.EVENTS.full_name)
    of_raw = empty.table(tables.RAW.full_name).join(events, tables.TRACE_MESSAGE_KEY, "left_semi")
    assert tuple(volume) == (events.count(), of_raw.selectExpr("sum(stored_size)").first()[0])
    assert [
        row.viewName for row in empty.sql("show views in lake.marts").where("not isTemporary").collect()
    ] == []
    # Each of the ten trace messages has two copies of one SubAfter; its message has no Pub.
    for mart, rows_added in ADDED_TO.items():
        assert empty.table(f"lake.marts.{mart}").count() == found["rows"][f"marts.{mart}"] + rows_added


def test_a_lake_of_a_newer_format_is_refused(
    empty: SparkSession, settings: Settings, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
):
    tables.ensure(empty)
    assert lake_format.number_of(catalog) == lake_format.FORMAT
    newer = str(lake_format.FORMAT + 1)
    monkeypatch.setattr(identity, "_verified", set())
    catalog.update_namespace_properties("ops", updates={lake_format.PROPERTY: newer})
    try:
        with pytest.raises(lake_format.NewerLakeError, match=f"has format {newer}"):
            lake(settings)
    finally:
        catalog.update_namespace_properties("ops", updates={lake_format.PROPERTY: str(lake_format.FORMAT)})
