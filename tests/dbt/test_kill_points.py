"""A run of the marts that dies at any step: readers never see a part of it, and the next run starts over or rolls forward."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyiceberg.catalog import Catalog
from pyspark.sql import SparkSession

from spark_jobs.lake.publish import fast_forward
from spark_jobs.mart_build import branches, publication
from spark_jobs.mart_build.build import recover
from tests.soak import IS_SOAK

TABLES = [f"marts.kill_{number}" for number in (1, 2, 3)]
BRANCH = f"{branches.PREFIX}of_the_dead"


@pytest.fixture
def lake_with_a_build(empty_lake: SparkSession, catalog: Catalog) -> Iterator[SparkSession]:
    """Three published tables with one row each; on a branch of each a second row, as tests would have passed it."""
    spark = empty_lake
    for table in TABLES:
        spark.sql(
            f"create table lake.{table} (n int) using iceberg tblproperties ('write.wap.enabled' = 'true')"
        )
        spark.sql(f"insert into lake.{table} values (1)")
    branches.create(spark, catalog, TABLES, BRANCH)
    with branches.writing_to(spark, BRANCH, {}):
        for table in TABLES:
            spark.sql(f"insert into lake.{table} values (2)")
    spark.sql("create table lake.changes.left_over (n int) using iceberg")
    yield spark
    for table in TABLES:
        spark.sql(f"drop table lake.{table} purge")
    spark.sql("delete from lake.ops.publications where table_name like 'marts.kill_%'")


def seen(spark: SparkSession) -> list[list[int]]:
    """What readers see of each table."""
    return [sorted(row.n for row in spark.table(f"lake.{table}").collect()) for table in TABLES]


def test_killed_before_the_tests_have_passed_it_starts_over(lake_with_a_build, catalog, settings):
    assert seen(lake_with_a_build) == [[1], [1], [1]]
    assert recover(lake_with_a_build, catalog, settings) == []
    assert seen(lake_with_a_build) == [[1], [1], [1]]
    assert [list(branches.heads(catalog, table)) for table in TABLES] == [["main"]] * 3
    assert branches.tables_in(catalog, branches.WORKING_NAMESPACE) == []


@pytest.mark.parametrize("moved", [0, 1, 2, 3] if IS_SOAK else [1, 3])
def test_killed_in_mid_publication_it_rolls_forward(lake_with_a_build, catalog, settings, monkeypatch, moved):
    """With 3 it dies after all tables were published and before the publication is recorded."""
    spark = lake_with_a_build
    left = list(range(moved))

    def die(session, table, branch):
        if not left:
            raise KeyboardInterrupt
        left.pop()
        fast_forward(session, table, branch)
        if moved == len(TABLES) and not left:
            raise KeyboardInterrupt

    monkeypatch.setattr(publication, "fast_forward", die)
    with pytest.raises(KeyboardInterrupt):
        publication.publish(spark, catalog, TABLES, BRANCH, "of-the-dead", 1)
    monkeypatch.undo()
    assert seen(spark) == [[1, 2]] * moved + [[1]] * (3 - moved)
    assert recover(spark, catalog, settings) == ["of-the-dead"]
    assert seen(spark) == [[1, 2]] * 3
    assert recover(spark, catalog, settings) == []
    assert [list(branches.heads(catalog, table)) for table in TABLES] == [["main"]] * 3
    assert spark.table("lake.ops.publications").where("published_at is null").isEmpty()


def test_two_processes_may_finish_the_same_publication(lake_with_a_build, catalog, monkeypatch):
    """As `make maintain` does beside a build: the second finds every table published."""

    def twice(session, table, branch):
        fast_forward(session, table, branch)
        fast_forward(session, table, branch)

    monkeypatch.setattr(publication, "fast_forward", twice)
    publication.publish(lake_with_a_build, catalog, TABLES, BRANCH, "of-both", 1)
    assert seen(lake_with_a_build) == [[1, 2]] * 3
