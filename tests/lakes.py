"""What the tests' fixtures do with a whole lake."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from pyiceberg.catalog import Catalog
from pyspark.sql import SparkSession

from spark_jobs.lake.catalog import lake
from spark_jobs.mart_build import branches
from spark_jobs.mart_build.build import recover
from spark_jobs.settings import Settings


def empty(spark: SparkSession, settings: Settings) -> None:
    """Drop every table and view, with their files; without Spark where that is quicker.

    Who needs a lake empties it first: tests of another folder may have left theirs.
    """
    catalog = lake(settings)
    for (namespace,) in spark.sql("show namespaces in lake").collect():
        for row in spark.sql(f"show views in lake.{namespace}").collect():
            if not row.isTemporary:
                spark.sql(f"drop view lake.{namespace}.{row.viewName}")
        for name in catalog.list_tables(namespace):
            catalog.drop_table(name)
    shutil.rmtree(settings.home / "warehouse", ignore_errors=True)


def rows(catalog: Catalog, table: str, branch: str = "main") -> list[str]:
    """The rows of a table as text, read without Spark: a query takes longer than a small table."""
    loaded = catalog.load_table(table)
    head = loaded.snapshot_by_name(branch)
    found = loaded.scan(snapshot_id=head.snapshot_id).to_arrow().to_pylist() if head else []
    return sorted(map(str, found))


@contextmanager
def on_a_branch(spark: SparkSession, catalog: Catalog, settings: Settings) -> Iterator[str]:
    """What is written to the marts is seen within, and gone after it; yields the branch."""
    branch = f"{branches.PREFIX}test"
    branches.create(spark, catalog, branches.audited_tables(catalog), branch)
    try:
        with branches.writing_to(spark, branch, {}):
            yield branch
    finally:
        recover(spark, catalog, settings)
